package turn

import (
	"fmt"
	"strings"
	"testing"

	"holon/agentd/model"
	"holon/responses"
	"holon/test/expect"
)

// An answer that says nothing is asked for once more, with a nudge, and joins no later request.
func TestEmptyAnswer(t *testing.T) {
	end := done(model.StopEnd)
	nothing := []model.Event{end}
	blanks := join(ev(model.MessageBegin), ev(model.TextDelta, " \n\u200b"), ev(model.TextDelta, "\t"), end)
	thought := join(ev(model.ReasoningBegin), ev(model.SummaryDelta, "r"), ev(model.ReasoningEnd, "e"), end)
	refusal := join(ev(model.MessageBegin), ev(model.RefusalDelta, "no"), end)
	uncalled := join(ev(model.MessageBegin), ev(model.TextDelta, "I run it:"),
		[]model.Event{{Kind: model.Done, Stop: model.StopEnd, Uncalled: true, Usage: end.Usage}})
	run := join(call("call_1", "Run", "{}"), end)
	for _, c := range []struct {
		name    string
		body    string
		rounds  [][]model.Event
		outcome string
		nudged  string // the rounds that were nudged
		kept    string // types of the items in the history
	}{
		{"nothing, then an answer", ``, [][]model.Event{nothing, answer}, "completed", "2", "message"},
		{"blanks, then an answer", ``, [][]model.Event{blanks, answer}, "completed", "2", "message"},
		{"reasoning, then an answer", ``, [][]model.Event{thought, answer}, "completed", "2", "message"},
		{"nothing, then a refusal", ``, [][]model.Event{nothing, refusal}, "completed", "2", "message"},
		{"a call that is not there, then an answer", ``, [][]model.Event{uncalled, answer}, "completed", "2", "message"},
		{"a call that is not there twice", ``, [][]model.Event{uncalled, uncalled}, "incomplete empty_answer", "2", ""},
		{"nothing twice", ``, [][]model.Event{nothing, nothing}, "incomplete empty_answer", "2", ""},
		{"blanks twice", ``, [][]model.Event{blanks, blanks}, "incomplete empty_answer", "2", ""},
		{"reasoning, then blanks", ``, [][]model.Event{thought, blanks}, "incomplete empty_answer", "2", ""},
		{"nothing after a call", ``, [][]model.Event{run, nothing, answer}, "completed", "3",
			"holon:tool_call message"},
		{"nothing, a call, nothing again", ``, [][]model.Event{nothing, run, nothing, answer}, "completed", "2 4",
			"holon:tool_call message"},
		{"nothing where a form is asked for", `,"text":{"format":{"type":"json_object"}}`,
			[][]model.Event{nothing, nothing}, "incomplete empty_answer", "2", ""},
		{"an output limit without output", ``, [][]model.Event{{done(model.StopMaxTokens)}},
			"incomplete max_output_tokens", "", ""},
		{"a refusal", ``, [][]model.Event{refusal}, "completed", "", "message"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStage(t, `{"input":"x"`+c.body+`}`, c.rounds...)
			resp, result := s.run(t, t.Context())
			expect.Equal(t, "outcome", outcome(resp), c.outcome)
			expect.Equal(t, "requests", len(s.model.asked), len(c.rounds))
			expect.Equal(t, "nudged rounds", nudges(s.model.asked), c.nudged)
			expect.Equal(t, "history", typesOf(s.journal.items), c.kept)
			expect.Equal(t, "output tokens", result.Usage.OutputTokens, int64(2*len(c.rounds)))
			for _, item := range resp.Output[:max(0, len(resp.Output)-1)] {
				if m, ok := item.(*responses.Message); ok && m.Phase != responses.PhaseCommentary {
					t.Errorf("an empty message has the phase %q", m.Phase)
				}
			}
		})
	}
}

// A message of the user that comes while an empty answer is made is in the same request as the nudge, and the inbox
// stays open until there is an answer.
func TestEmptyAnswerAndTheInbox(t *testing.T) {
	nothing := []model.Event{done(model.StopEnd)}
	s := newStage(t, `{"input":"x"}`, nothing, nothing, answer)
	box := &letters{}
	s.turn.Inbox = box
	s.model.before = func() {
		if len(s.model.asked) == 2 && !box.closed {
			box.waiting = append(box.waiting, "more")
		}
	}
	resp, _ := s.run(t, t.Context())
	expect.Equal(t, "outcome", outcome(resp), "completed")
	expect.Equal(t, "history", shape(s.model.asked[2].Input), "user(x) user(more) developer("+nudging+")")
}

// In the last round there is no room for a nudge.
func TestEmptyAnswerInTheLastRound(t *testing.T) {
	s := newStage(t, `{"input":"x"}`, []model.Event{done(model.StopEnd)})
	s.turn.MaxRounds = 1
	resp, _ := s.run(t, t.Context())
	expect.Equal(t, "outcome", outcome(resp), "incomplete empty_answer")
}

// nudges returns the rounds whose request ends with the nudge. No other item of a request is one.
func nudges(asked []model.Request) string {
	var list []string
	for i, req := range asked {
		for _, item := range req.Input {
			if m, ok := item.(*responses.Message); ok && m.Text() == nudging {
				list = append(list, fmt.Sprint(i+1))
			}
		}
	}
	return strings.Join(list, " ")
}

func typesOf(items []responses.Item) string {
	var list []string
	for _, item := range items {
		list = append(list, item.ItemType())
	}
	return strings.Join(list, " ")
}
