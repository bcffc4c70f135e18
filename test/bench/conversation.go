package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"

	"holon/test/load"
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
func measureConversation(ctx context.Context, r *rig) []row {
	counted := &countedModel{next: r.model}
	proxy := httptest.NewServer(counted)
	r.later(func() error { proxy.Close(); return nil })
	agentd := r.serveAgentd(ctx, proxy.URL+"/v1", "--model-windows",
		fmt.Sprintf("%s=%d/%d", modelName, talkWindow, talkAnswer))
	turns := r.samples(talkTurns, 40)
	id, most, cached, total := "", 0, 0, 0
	for n := range turns {
		text := fmt.Sprintf("Message %d: %s", n, strings.Repeat("word ", talkWords))
		id = agentd.create(ctx, ask{Model: modelName, Input: text, Previous: id, Truncation: "auto"})
		sent, again := counted.turn()
		most, cached, total = max(most, sent), cached+again, total+sent
	}
	count := func(what, against string, n, of int) row {
		return versus("P27", what, against, unitCount, []float64{float64(n)}, []float64{float64(of)})
	}
	return []row{
		count(fmt.Sprintf("tokens told in a turn, the most of %d", turns), "the window", most,
			talkWindow).absoluteGoal(talkWindow),
		count("the same, the mean", "the window", total/turns, talkWindow),
		count("compactions", "turns", counted.requests-turns, turns),
		count("tokens that the turn before began with as well", "all that were told", cached, total).leastGoal(0.75),
	}
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
func (m *countedModel) turn() (sent, again int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	sent, again = tokens(m.last), tokens(m.last[:common(m.before, m.last)])
	m.before = m.last
	return sent, again
}

// ServeHTTP implements http.Handler.
func (m *countedModel) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	err := load.Guard(func() {
		body := load.Must(io.ReadAll(r.Body))
		var said struct{ Instructions, Tools, Input json.RawMessage }
		load.Check(json.Unmarshal(body, &said))
		sent := bytes.Join([][]byte{said.Tools, said.Instructions, said.Input}, nil)
		m.mu.Lock()
		again := common(m.before, sent)
		m.last, m.requests = sent, m.requests+1
		m.mu.Unlock()
		resp := load.Must(http.Post(m.next+"/responses", "application/json", bytes.NewReader(body)))
		defer resp.Body.Close()
		answer := load.Must(io.ReadAll(resp.Body))
		answer = bytes.ReplaceAll(answer, []byte(`"input_tokens":10`), fmt.Appendf(nil, `"input_tokens":%d`, tokens(sent)))
		answer = bytes.ReplaceAll(answer, []byte(`"cached_tokens":0`),
			fmt.Appendf(nil, `"cached_tokens":%d`, tokens(sent[:again])))
		w.Header().Set("Content-Type", resp.Header.Get("Content-Type"))
		w.WriteHeader(resp.StatusCode)
		_, _ = w.Write(answer) // a client that left is not our business
	})
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
	}
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
