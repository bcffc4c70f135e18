package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
)

// Of P27: the length of the conversation, the window of its model and the longest answer
// of that in tokens, and the words of each message of the user.
const (
	talkTurns  = 200
	talkWindow = 12_000
	talkAnswer = 2_000
	talkWords  = 1_500
)

// measureConversation is P27: what a model is told in each turn of a conversation that
// is many times as long as its window, and how much of that it was told before.
func measureConversation(ctx context.Context, r *rig) (_ []row, err error) {
	end := r.scope()
	defer func() { err = errors.Join(err, end()) }()
	counted := &countedModel{next: r.model}
	server := httptest.NewServer(counted)
	defer server.Close()
	skills, err := r.newSkills()
	if err != nil {
		return nil, err
	}
	model := r.model
	r.model = server.URL + "/v1"
	s, err := r.serveAgentd(ctx, skills, "--model-windows", fmt.Sprintf("%s=%d/%d", modelName, talkWindow, talkAnswer))
	if r.model = model; err != nil {
		return nil, err
	}
	r.later(s.stop)
	agentd := r.target(s, 1)
	turns := r.samples(talkTurns, 40)
	id, most, cached, total := "", 0, 0, 0
	for n := range turns {
		text := fmt.Sprintf("Message %d: %s", n, strings.Repeat("word ", talkWords))
		a := ask{Model: modelName, Input: text, Previous: id, Truncation: "auto"}
		if id, err = agentd.create(ctx, a); err != nil {
			return nil, fmt.Errorf("turn %d: %w", n, err)
		}
		told, known := counted.turn()
		most, cached, total = max(most, told), cached+known, total+told
	}
	count := func(what string, n float64) row {
		return row{ID: "P27", What: what, Against: "the window", Unit: unitCount, Floor: talkWindow, Ours: n,
			Ratio: n / talkWindow}
	}
	compactions := float64(counted.requests - turns)
	peak := count(fmt.Sprintf("tokens told in a turn, the most of %d", turns), float64(most)).absoluteGoal(talkWindow)
	mean := count("the same, the mean", float64(total/turns))
	made := row{ID: "P27", What: "compactions", Against: "turns", Unit: unitCount, Floor: float64(turns),
		Ours: compactions, Ratio: compactions / float64(turns)}
	share := row{ID: "P27", What: "tokens that the turn before began with as well", Against: "all that were told",
		Unit: unitCount, Floor: float64(total), Ours: float64(cached), Ratio: float64(cached) / float64(total)}
	return []row{peak, mean, made, share}, nil
}

// countedModel is a model in front of another, which counts what it is told, four
// bytes to a token, and says so as the usage of its answers.
type countedModel struct {
	next string // the other's base URL

	mu       sync.Mutex
	requests int
	before   []byte // what the last request of the turn before said
	last     []byte // what the last request said
}

// turn ends a turn, and returns the tokens of its last request, and how many of them
// the one of the turn before began with.
func (m *countedModel) turn() (told, known int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	told, known = tokens(m.last), tokens(m.last[:common(m.before, m.last)])
	m.before = m.last
	return told, known
}

// ServeHTTP implements http.Handler.
func (m *countedModel) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var said struct{ Instructions, Tools, Input json.RawMessage }
	if err == nil {
		err = json.Unmarshal(body, &said)
	}
	if err != nil {
		http.Error(w, "send a JSON object", http.StatusBadRequest)
		return
	}
	told := bytes.Join([][]byte{said.Tools, said.Instructions, said.Input}, nil)
	m.mu.Lock()
	known := common(m.before, told)
	m.last, m.requests = told, m.requests+1
	m.mu.Unlock()
	resp, err := http.Post(m.next+"/responses", "application/json", bytes.NewReader(body))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	answer = bytes.ReplaceAll(answer, []byte(`"input_tokens":10`), fmt.Appendf(nil, `"input_tokens":%d`, tokens(told)))
	answer = bytes.ReplaceAll(answer, []byte(`"cached_tokens":0`),
		fmt.Appendf(nil, `"cached_tokens":%d`, tokens(told[:known])))
	w.Header().Set("Content-Type", resp.Header.Get("Content-Type"))
	w.WriteHeader(resp.StatusCode)
	_, _ = w.Write(answer) // a client that left is not our business
}

func tokens(text []byte) int { return len(text) / 4 }

// common is the length of the prefix that a and b share.
func common(a, b []byte) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}
