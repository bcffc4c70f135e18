package turn

import (
	"fmt"
	"strings"
	"testing"

	"holon/agentd/model"
	"holon/internal/providers"
	"holon/responses"
	"holon/responses/turns"
	"holon/test/expect"
)

// past is a conversation of some 10,000 tokens.
func past() (history []responses.Item) {
	for n := range 10 {
		history = append(history,
			&responses.Message{ID: fmt.Sprint("msg_q", n), Role: responses.RoleUser,
				Content: []responses.Part{responses.InputText("question " + strings.Repeat("word ", 400))}},
			&responses.Message{ID: fmt.Sprint("msg_a", n), Role: responses.RoleAssistant,
				Content: []responses.Part{responses.OutputText(strings.Repeat("word ", 400))}})
	}
	return history
}

// texts are the messages that a model is told, one a line.
func texts(req model.Request) string {
	var list []string
	for _, item := range req.Input {
		if m, ok := item.(*responses.Message); ok {
			list = append(list, m.Text())
		}
	}
	return strings.Join(list, "\n")
}

// TestQuestionIsNeverSummarised asks questions of all sizes at the end of a conversation that has to be
// summarised: the model is told each word for word and last, and never as a part of the past.
func TestQuestionIsNeverSummarised(t *testing.T) {
	for _, words := range []int{1, 500, 2000, 5000, 7000} {
		t.Run(fmt.Sprint(words), func(t *testing.T) {
			question := "now do" + strings.Repeat(" this", words)
			s := newStage(t, fmt.Sprintf(`{"input":%q,"truncation":"auto"}`, question), answer)
			s.model.digest = []model.Event{ev(model.MessageBegin), ev(model.TextDelta, "It was long."), done(model.StopEnd)}
			s.turn.History, s.turn.Window = past(), providers.Window{Context: 12_000, Output: 1000, Firm: true}
			if resp, _ := s.run(t, t.Context()); outcome(resp) != "completed" {
				t.Fatalf("%s: %v", outcome(resp), resp.Error)
			}
			if told := texts(s.model.asked[0]); !strings.HasSuffix(told, "\n"+question) || s.model.sums == 0 {
				t.Errorf("after %d summaries the model is told last %.60q, want the question after one", s.model.sums,
					told[strings.LastIndex(told, "\n")+1:])
			}
			for _, text := range s.model.told {
				if strings.Contains(text, "now do") {
					t.Error("the summary is made of the question too")
				}
			}
		})
	}
}

// TestInputThatDoesNotFit has a question that is longer than the window: truncation takes away
// the past, never the question.
func TestInputThatDoesNotFit(t *testing.T) {
	s := newStage(t, `{"input":"`+strings.Repeat("word ", 20_000)+`","truncation":"auto"}`, answer)
	s.model.digest = answer
	s.turn.History, s.turn.Window = past(), providers.Window{Context: 12_000, Output: 1000, Firm: true}
	resp, _ := s.run(t, t.Context())
	if outcome(resp) != "failed "+responses.CodeContextLength || len(s.model.asked) != 0 {
		t.Fatalf("%s after %d requests, want a refusal before any", outcome(resp), len(s.model.asked))
	}
	expect.Contains(t, "the error", resp.Error.Message, "send less of it")
}

// TestLongToolLoop has a turn whose calls fill the window many times over. Its question stays, each result is told
// whole at least once, and compactions are rare.
func TestLongToolLoop(t *testing.T) {
	const rounds = 60
	s := newStage(t, `{"input":"find the word","truncation":"auto"}`, append(calls(rounds), answer)...)
	s.big(4000)
	s.model.digest = []model.Event{ev(model.MessageBegin), ev(model.TextDelta, "It was long."), done(model.StopEnd)}
	s.turn.History, s.turn.MaxRounds, s.turn.Dir = past(), 100, "/out/t"
	s.turn.Window = providers.Window{Context: 12_000, Output: 1000, Firm: true}
	if resp, _ := s.run(t, t.Context()); outcome(resp) != "completed" {
		t.Fatalf("%s: %v", outcome(resp), resp.Error)
	}
	for i, req := range s.model.asked {
		if !strings.Contains(texts(req), "find the word") {
			t.Fatalf("request %d has lost the question", i)
		}
		if n := model.Estimate(req); n > 11_000 {
			t.Errorf("request %d has %d tokens, want at most 11,000", i, n)
		}
		if i == 0 {
			continue
		}
		last, ok := req.Input[len(req.Input)-1].(*responses.ToolCall)
		if !ok || len(last.Output) < 3900 {
			t.Errorf("request %d does not end with the whole result of the call before it", i)
		}
	}
	// The window holds eight rounds: one adds some 1,350 tokens, and a compaction makes room for three at least.
	if n := len(facts[turns.Compaction](t, s.journal, turns.ContextCompacted)); n > rounds/3 {
		t.Errorf("%d compactions in %d rounds, want at most one in three", n, rounds)
	}
}

// TestQuestionOfTheTurnBefore goes on with a conversation and says nothing new: what was asked
// last stays word for word.
func TestQuestionOfTheTurnBefore(t *testing.T) {
	s := newStage(t, `{"input":[],"truncation":"auto"}`, answer)
	s.model.digest = []model.Event{ev(model.MessageBegin), ev(model.TextDelta, "It was long."), done(model.StopEnd)}
	question := "now do" + strings.Repeat(" this", 3000)
	s.turn.History = append(past(),
		&responses.Message{ID: "msg_last", Role: responses.RoleUser,
			Content: []responses.Part{responses.InputText(question)}},
		&responses.Message{ID: "msg_part", Role: responses.RoleAssistant,
			Content: []responses.Part{responses.OutputText(strings.Repeat("part ", 3000))}})
	s.turn.Window = providers.Window{Context: 12_000, Output: 1000, Firm: true}
	s.run(t, t.Context())
	if told := texts(s.model.asked[0]); !strings.Contains(told, question) || s.model.sums == 0 {
		t.Errorf("after %d summaries the model is told %.100q, want the question of the turn before", s.model.sums, told)
	}
}

// TestEstimatesAfterRestart begins a turn with what a compaction left and nothing that was learned: its first estimate
// is as good as the last one of the turn before.
func TestEstimatesAfterRestart(t *testing.T) {
	rounds := calls(20)
	for i, events := range rounds { // a provider whose tokens are twice as long as the estimates
		events[len(events)-1].Usage = responses.Usage{InputTokens: int64(50 + 500*i), OutputTokens: 1, TotalTokens: 1}
	}
	s := newStage(t, `{"input":"x","truncation":"auto"}`, append(rounds, answer)...)
	s.big(4000)
	s.model.digest = answer
	s.turn.Window, s.turn.MaxRounds = providers.Window{Context: 12_000, Output: 1_000}, 100
	_, result := s.run(t, t.Context())
	next := newStage(t, `{"input":"and now","truncation":"auto"}`, answer)
	next.turn.History, next.turn.Window = result.Conversation, s.turn.Window
	next.run(t, t.Context())
	if got := next.turn.runner().view.gauge.Scale(); got > 0.75 {
		t.Errorf("estimates are multiplied by %v, want the 0.5 or so of the turn before", got)
	}
}

// TestOutputsAreKept brings the output of a client's function, and works on with it for so long that all of the past
// has to be summarised: call and output stay in every request.
func TestOutputsAreKept(t *testing.T) {
	const rounds = 30
	s := newStage(t, `{"input":[{"type":"function_call_output","call_id":"f1","output":"the figure is 4711"}],`+
		`"truncation":"auto"}`, append(calls(rounds), answer)...)
	s.big(4000)
	s.model.digest = []model.Event{ev(model.MessageBegin), ev(model.TextDelta, "It was long."),
		{Kind: model.Done, Stop: model.StopEnd, Usage: responses.Usage{InputTokens: 100, OutputTokens: 5, TotalTokens: 105}}}
	s.turn.History = append(past(), &responses.FunctionCall{ID: "fc_1", CallID: "f1", Name: "figure", Arguments: "{}"})
	s.turn.Window, s.turn.MaxRounds = providers.Window{Context: 12_000, Output: 1000, Firm: true}, 100
	resp, result := s.run(t, t.Context())
	if outcome(resp) != "completed" || s.model.sums == 0 {
		t.Fatalf("%s after %d summaries: %v", outcome(resp), s.model.sums, resp.Error)
	}
	for i, req := range s.model.asked {
		asked := -1
		for at, item := range req.Input {
			switch item := item.(type) {
			case *responses.FunctionCall:
				asked = at
			case *responses.FunctionCallOutput:
				if asked < 0 || item.CallID != "f1" {
					t.Errorf("request %d has an output without its call", i)
				}
				asked = len(req.Input)
			}
		}
		if asked != len(req.Input) {
			t.Fatalf("request %d has lost the output that the client brought", i)
		}
	}
	checkSummaries(t, s, result)
}

// checkSummaries holds the record to all attempts at summaries.
func checkSummaries(t *testing.T, s *stage, result Result) {
	t.Helper()
	requests := 0
	for _, p := range facts[turns.Requested](t, s.journal, turns.ModelRequested) {
		if p.Purpose == turns.PurposeSummary {
			requests++
			if p.EstimatedTokens == 0 {
				t.Error("a request for a summary has no estimate of its input")
			}
		}
	}
	if requests != s.model.sums {
		t.Errorf("%d requests for summaries are recorded, want %d", requests, s.model.sums)
	}
	if got, want := result.Attempts.AggregatedTokenUsage.InputTokens, result.Usage.InputTokens; got != want {
		t.Errorf("the attempts took %d tokens of input, want the turn's %d", got, want)
	}
}
