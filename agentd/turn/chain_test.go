package turn

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"holon/agentd/model"
	"holon/internal/providers"
	"holon/responses"
	"holon/responses/turns"
	"holon/test/expect"
)

// TestLongChain has a conversation of 200 turns of 1,500 words over a window of 12,000
// tokens: no request is longer than the window, and between two compactions each
// begins with the one before. The conversation is read anew in the middle, as
// after a restart.
func TestLongChain(t *testing.T) {
	const window = 12_000
	turnCount := 200
	if testing.Short() {
		turnCount = 80
	}
	var history, last []responses.Item
	var memory Memory
	told := make(map[string]bool) // words that were summarised
	compactions := 0
	for n := range turnCount {
		if n == turnCount/2 {
			history = decoded(t, history)
		}
		words := 1500
		if n%40 == 39 { // a document
			words = 3000
		}
		body := fmt.Sprintf(`{"input":"begin%d %s","truncation":"auto"}`, n, strings.Repeat("word ", words))
		s := newStage(t, body, answer)
		s.model.digest = []model.Event{ev(model.MessageBegin), ev(model.TextDelta, "It was long."), done(model.StopEnd)}
		s.turn.History, s.turn.Memory = history, memory
		s.turn.Window = providers.Window{Context: window, Output: 1000, Firm: true}
		s.turn.Request.Input[0].(*responses.Message).ID = fmt.Sprintf("msg_%d", n)
		_, result := s.run(t, t.Context())
		history, memory = result.Conversation, result.Memory

		req := s.model.asked[len(s.model.asked)-1]
		if tokens := model.Estimate(req); tokens > window {
			t.Fatalf("turn %d asks with %d tokens, want at most %d", n, tokens, window)
		}
		if question := s.turn.Request.Input[0].(*responses.Message).Text(); !strings.HasSuffix(texts(req), question) {
			t.Fatalf("turn %d asks without its question", n)
		}
		compacted := len(facts[turns.Compaction](t, s.journal, turns.ContextCompacted))
		compactions += compacted
		if compacted == 0 && last != nil && encoded(t, last) != encoded(t, req.Input[:len(last)]) {
			t.Errorf("turn %d changes what the model was told, and nothing was compacted", n)
		}
		last = req.Input
		for _, text := range s.model.told {
			for _, word := range strings.Fields(text) {
				if _, after, found := strings.Cut(word, "begin"); found && told[after] {
					t.Errorf("turn %d has a summary made of the words %q again", n, word)
				} else if found {
					told[after] = true
				}
			}
		}
	}
	// A turn adds some 1,900 tokens; a compaction leaves at most a third of the 11,000 that there are.
	if compactions < turnCount/6 || compactions > turnCount/2 {
		t.Errorf("%d compactions in %d turns, want one in three or four", compactions, turnCount)
	}
}

func encoded(t *testing.T, items []responses.Item) string {
	t.Helper()
	data, err := json.Marshal(responses.Items(items))
	expect.NoError(t, err)
	return string(data)
}

// decoded returns items as a store gives them back.
func decoded(t *testing.T, items []responses.Item) []responses.Item {
	t.Helper()
	var list responses.Items
	expect.NoError(t, json.Unmarshal([]byte(encoded(t, items)), &list))
	return list
}
