package agent_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"holon/internal/providers"
	"holon/runner/gateway"
	"holon/state/ledger"
	"holon/test/expect"
)

// provider is a model's provider that keeps what it is sent.
type provider struct {
	t    *testing.T
	mu   sync.Mutex
	sent []map[string]json.RawMessage
}

func (p *provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	data, err := io.ReadAll(r.Body)
	expect.NoError(p.t, err)
	var body map[string]json.RawMessage
	expect.NoError(p.t, json.Unmarshal(data, &body))
	p.mu.Lock()
	p.sent = append(p.sent, body)
	n := len(p.sent)
	p.mu.Unlock()
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprintf(w, `data: {"choices": [{"index": 0, "delta": {"content": "I decided on way %d."}, `+
		`"finish_reason": "stop"}], "usage": {"prompt_tokens": %d, "completion_tokens": 9, "total_tokens": %d}}`+
		"\n\ndata: [DONE]\n\n", n, len(data)/4, len(data)/4+9)
}

// Over 200 turns (50 in the fast tier) of which each changes the memory, a request begins with all of the one before,
// byte for byte, but for the first after a renewal: what a provider keeps is used as it would be without memory.
func TestMemoryChangesNothingThatWasSent(t *testing.T) {
	t.Parallel()
	taken := 200
	if testing.Short() {
		taken = 50
	}
	asked := &provider{t: t}
	server := httptest.NewServer(asked)
	defer server.Close()
	l := newLab(t, "rounds: []")
	var err error
	l.gateway, err = gateway.New(gateway.Options{Providers: map[string]gateway.Provider{"acme": {
		BaseURL: server.URL + "/v1", Contract: providers.ChatCompletions, Auth: providers.AuthNone}}})
	expect.NoError(t, err)
	l.budget = 8_000
	l.start()
	defer l.end()
	file := filepath.Join(l.home.AgentDir("main"), "memory", "self.md")
	expect.NoError(t, os.MkdirAll(filepath.Dir(file), 0o700))
	for n := range taken {
		if n%7 == 0 {
			expect.NoError(t, os.WriteFile(file, fmt.Appendf(nil, "I work.\nThe newest rule is %d.\n", n), 0o600))
		}
		l.untilStatus(l.prompt(fmt.Sprint("go on with step ", n), "", ""), ledger.Processed)
	}
	var list []ledger.Turn
	var renewals int
	expect.NoError(t, l.store.View(t.Context(), func(v ledger.View) (err error) {
		if list, err = v.Turns("main", taken); err != nil {
			return err
		}
		at, err := v.AgentState("main")
		renewals = int(at.Totals.Compactions)
		return err
	}))
	expect.Equal(t, "turns", len(list), taken)
	expect.Equal(t, "requests", len(asked.sent), taken)
	changes, began := 0, 0
	var before []json.RawMessage
	for n, body := range asked.sent {
		var messages []json.RawMessage
		expect.NoError(t, json.Unmarshal(body["messages"], &messages))
		if list[n].Previous == "" {
			began++
			before = messages[:min(len(messages), 1)] // the instructions, which stay
		}
		same := 0
		for same < min(len(before), len(messages)) && bytes.Equal(before[same], messages[same]) {
			same++
		}
		if same < len(before) {
			t.Fatalf("request %d has another message in place of %d:\n%.300s\n%.300s", n, same, messages[same], before[same])
		}
		for key, value := range body {
			if key != "messages" && !bytes.Equal(value, asked.sent[0][key]) {
				t.Fatalf("request %d has another %s: %.300s", n, key, value)
			}
		}
		for _, m := range messages[same:] {
			changes += strings.Count(string(m), "[memory] What changed")
		}
		before = messages
	}
	if renewals == 0 || began != renewals+1 || changes < taken-2*began {
		t.Errorf("%d renewals, %d conversations and %d changes of the memory", renewals, began, changes)
	}
}
