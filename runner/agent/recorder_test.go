package agent

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"holon/responses"
	"holon/responses/turns"
	"holon/runner/agent/live"
	"holon/runner/agent/record"
	"holon/state/ledger"
)

// What the model said and the facts of a round come on two connections: in whatever order they come, the record is the
// same, and so it is when a part was recorded before.
func TestOrderOfRounds(t *testing.T) {
	t.Parallel()
	message := func(id string) responses.Event {
		return responses.Event{Type: responses.EventItemDone, Item: &responses.Message{ID: id,
			Role:    responses.RoleAssistant,
			Content: []responses.Part{{Type: responses.PartOutputText, Text: "text of " + id}}}}
	}
	fact := func(n int64, class, payload string) turns.RuntimeEvent {
		return turns.RuntimeEvent{Type: class, Sequence: n, ToolCallID: "call", Payload: json.RawMessage(payload)}
	}
	one := fact(1, turns.ModelCompleted, `{"message_ids":["a","b"],"provider_attempt":{"round":1}}`)
	tool := fact(2, turns.ToolStarted, `{"tool_name":"X"}`)
	two := fact(3, turns.ModelCompleted, `{"tool_call_ids":["call"],"provider_attempt":{"round":2}}`)
	summary := fact(4, turns.ModelCompleted, `{"provider_attempt":{"round":2,"purpose":"summary"}}`)
	const (
		first  = "provider_round_completed round 1: text of a; text of b"
		second = "tool.started provider_round_completed round 2:"
	)
	for name, c := range map[string]struct {
		come    []any
		attempt ledger.Attempt
		want    string
	}{
		"in order":     {[]any{message("a"), message("b"), one, tool, two}, ledger.Attempt{}, first + " " + second},
		"facts first":  {[]any{one, tool, two, message("a"), message("b")}, ledger.Attempt{}, first + " " + second},
		"in between":   {[]any{message("a"), one, tool, message("b"), two}, ledger.Attempt{}, first + " " + second},
		"twice":        {[]any{message("a"), message("b"), one, message("a"), one}, ledger.Attempt{}, first},
		"no text came": {[]any{one, tool, two}, ledger.Attempt{}, "provider_round_completed round 1: " + second},
		"no fact came": {[]any{message("a"), one, message("b"), message("c")}, ledger.Attempt{},
			first + " round 1: text of c"},
		"of a summary": {[]any{summary}, ledger.Attempt{}, "provider_round_completed"},
		"recorded": {[]any{message("a"), message("b"), one, tool, two}, ledger.Attempt{Facts: 2, Items: 2},
			"provider_round_completed round 2:"},
		"recorded text": {[]any{message("a")}, ledger.Attempt{Items: 1}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			rec := &recorder{Runtime: new(Runtime), attempt: c.attempt, facts: c.attempt.Facts, wake: make(chan struct{}, 1),
				live: new(live.Board).Writer("a", "turn_1", "msg_1", nil),
				done: make(chan struct{}), calls: make(map[string]begunCall), numbers: make(map[string]int64)}
			close(rec.done) // nothing is written
			for _, x := range c.come {
				switch x := x.(type) {
				case responses.Event:
					rec.Event(x)
				case turns.RuntimeEvent:
					rec.Fact(x)
				}
			}
			rec.close()
			var got []string
			for _, p := range rec.pending {
				if p.Event.Type != record.AssistantRound {
					got = append(got, p.Event.Type)
					continue
				}
				var r round
				if err := json.Unmarshal(p.Transcript.Data, &r); err != nil {
					t.Fatal(err)
				}
				got = append(got, strings.TrimSpace(fmt.Sprintf("round %d: %s", p.Transcript.Round,
					strings.ReplaceAll(r.Text, "\n\n", "; "))))
			}
			if s := strings.Join(got, " "); s != c.want {
				t.Errorf("the record is\n%s\nwant\n%s", s, c.want)
			}
		})
	}
}

// A message that its turn does not complete ends with the turn, for all its readers.
func TestCutMessage(t *testing.T) {
	t.Parallel()
	var board live.Board
	rec := &recorder{Runtime: new(Runtime), wake: make(chan struct{}, 1), done: make(chan struct{}),
		live: board.Writer("a", "turn_1", "msg_1", nil)}
	close(rec.done) // nothing is written
	rec.Event(responses.Event{Type: responses.EventItemAdded,
		Item: &responses.Message{ID: "item_1", Role: responses.RoleAssistant}})
	rec.Event(responses.Event{Type: responses.EventTextDelta, Delta: "I beg"})
	if m, _ := board.Look("a", "", 0); m.Done || m.Text != "I beg" {
		t.Fatalf("while it is written: %+v", m)
	}
	rec.close()
	if m, _ := board.Look("a", "", 0); !m.Done || m.Text != "I beg" {
		t.Errorf("after the turn: %+v, want it done", m)
	}
}
