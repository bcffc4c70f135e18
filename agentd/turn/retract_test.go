package turn

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"holon/agentd/model"
	"holon/responses"
	"holon/responses/turns"
	"holon/test/expect"
)

// broke is how a stream breaks off.
func broke() error { return &model.Error{Kind: model.KindTransport, Message: "broke"} }

// A round whose answer breaks off is asked for again. What was shown stays, closed; nothing of it runs, and no later
// request has it. Only a call that the client has seen ends the turn.
func TestAnswersThatBreakOff(t *testing.T) {
	end := done(model.StopEnd)
	text := join(ev(model.MessageBegin), ev(model.TextDelta, "hal"))
	final := []model.Event{{Kind: model.MessageBegin, Phase: responses.PhaseFinalAnswer}, ev(model.TextDelta, "hal")}
	thought := join(ev(model.ReasoningBegin), ev(model.SummaryDelta, "r"))
	whole := join(thought, ev(model.ReasoningEnd, "secret"))
	own := []model.Event{{Kind: model.CallBegin, CallID: "call_1", Name: "Run"}, ev(model.CallDelta, `{"x":`)}
	asking := []model.Event{{Kind: model.CallBegin, CallID: "call_1", Name: "ask"}, ev(model.CallDelta, `{"q":`)}
	run := join(call("call_1", "Run", "{}"), end)
	for _, c := range []struct {
		name    string
		body    string
		breaks  [][]model.Event // what comes before the stream breaks off, in order
		rounds  [][]model.Event
		outcome string
		output  string // items of the response
		kept    string // types of the items in the history
		ran     string
	}{
		{"a message", ``, [][]model.Event{text}, [][]model.Event{answer}, "completed",
			"message commentary hal, message final_answer Done.", "message", ""},
		{"a message that was to be the answer", ``, [][]model.Event{final}, [][]model.Event{answer}, "completed",
			"message commentary hal, message final_answer Done.", "message", ""},
		{"reasoning", ``, [][]model.Event{thought}, [][]model.Event{answer}, "completed",
			"reasoning, message final_answer Done.", "message", ""},
		{"reasoning and a message", ``, [][]model.Event{join(whole, text)}, [][]model.Event{join(whole, answer)},
			"completed", "reasoning, message commentary hal, reasoning, message final_answer Done.",
			"reasoning message", ""},
		{"a call of the container, in part", ``, [][]model.Event{join(text, own)}, [][]model.Event{run, answer},
			"completed", "message commentary hal, message final_answer Done.", "holon:tool_call message", "call_1"},
		{"a call of the container", ``, [][]model.Event{call("call_1", "Run", "{}")}, [][]model.Event{run, answer},
			"completed", "message final_answer Done.", "holon:tool_call message", "call_1"},
		{"a call that counts", `,"max_tool_calls":1`, [][]model.Event{call("call_1", "Run", "{}")},
			[][]model.Event{run, answer}, "completed", "message final_answer Done.", "holon:tool_call message", "call_1"},
		{"a call that is demanded", `,"tool_choice":"required"`, [][]model.Event{call("call_1", "Run", "{}")},
			[][]model.Event{answer}, "failed tool_choice_unmet", "message final_answer Done.", "message", ""},
		{"twice", ``, [][]model.Event{text, text}, [][]model.Event{answer}, "completed",
			"message commentary hal, message commentary hal, message final_answer Done.", "message", ""},
		{"three times", ``, [][]model.Event{text, text, text}, nil, "failed model_error",
			"message commentary hal, message commentary hal, message incomplete hal", "message", ""},
		{"a call of the client, in part", ``, [][]model.Event{asking}, nil, "failed model_error",
			"function_call incomplete", "", ""},
		{"a call of the client", ``, [][]model.Event{call("call_1", "ask", "{}")}, nil, "failed model_error",
			"function_call", "function_call", ""},
		{"before anything, then in the middle", ``, [][]model.Event{nil, text}, [][]model.Event{answer}, "completed",
			"message commentary hal, message final_answer Done.", "message", ""},
		{"where no token is left", `,"max_output_tokens":1`, [][]model.Event{text}, nil, "failed model_error",
			"message incomplete hal", "message", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStage(t, `{"input":"x"`+clientTool+c.body+`}`, slices.Concat(c.breaks, c.rounds)...)
			s.turn.Model.Transport = model.Retry(s.model, "fake/m", model.Policy{Retries: 2})
			s.model.breaks = make(map[int]error)
			for i := range c.breaks {
				s.model.breaks[i] = broke()
			}
			resp, _ := s.run(t, t.Context())
			expect.Equal(t, "outcome", outcome(resp), c.outcome)
			expect.Equal(t, "output", shown(resp.Output), c.output)
			expect.Equal(t, "history", typesOf(s.journal.items), c.kept)
			expect.Equal(t, "calls that ran", strings.Join(s.box.ran, " "), c.ran)
			for i := range len(c.breaks) {
				if i+1 < len(s.model.asked) && !slices.Equal(s.model.asked[i].Input, s.model.asked[i+1].Input) {
					t.Errorf("attempt %d is told something else", i+2)
				}
			}
			for _, item := range s.journal.items {
				if slices.Contains(discardedItems(t, s.journal.events), item.ItemID()) {
					t.Errorf("%s %s is in the history, although it was discarded", item.ItemType(), item.ItemID())
				}
			}
		})
	}
}

// shown lists the items of a response: what kind they are, how they ended, and what they say.
func shown(output responses.Items) string {
	var list []string
	for _, item := range output {
		words := item.ItemType()
		switch item := item.(type) {
		case *responses.Message:
			if item.Status == responses.ItemIncomplete {
				words += " incomplete " + item.Text()
				break
			}
			words += fmt.Sprintf(" %s %s", item.Phase, item.Text())
		case *responses.FunctionCall:
			if item.Status == responses.ItemIncomplete {
				words += " incomplete"
			}
		}
		list = append(list, words)
	}
	return strings.Join(list, ", ")
}

// The record says which items an attempt left behind that broke off, and what it took; the tokens that it said are not
// said again.
func TestRecordOfAnAnswerThatBrokeOff(t *testing.T) {
	s := newStage(t, `{"input":"x","max_output_tokens":1000}`, join(ev(model.MessageBegin),
		ev(model.TextDelta, strings.Repeat("word", 100))), answer)
	s.turn.Model.Transport = model.Retry(s.model, "fake/m", model.Policy{Retries: 2})
	s.model.breaks = map[int]error{0: broke()}
	resp, result := s.run(t, t.Context())
	expect.Equal(t, "discarded", strings.Join(discardedItems(t, s.journal.events), " "), resp.Output[0].ItemID())
	tried := result.Attempts.Attempts
	expect.Equal(t, "attempts", len(tried), 2)
	expect.Equal(t, "outcome of the first", tried[0].Outcome, turns.OutcomeRetrying)
	expect.Equal(t, "number of the second", tried[1].Attempt, 2)
	expect.Equal(t, "tokens of the first", tried[0].TokenUsage.OutputTokens, 100)
	expect.Equal(t, "tokens of the response", resp.Usage.OutputTokens, 102)
	expect.Equal(t, "tokens that the second may have", *s.model.asked[1].MaxOutputTokens, 900)
	expect.Equal(t, "rounds", result.Rounds, 1)
}
