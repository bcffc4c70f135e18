package turn

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"holon/agentd/model"
	"holon/responses"
	"holon/responses/turns"
	"holon/test/expect"
)

func TestEveryKindOfEvent(t *testing.T) {
	s := newStage(t, `{"input":"hi"}`, join(
		ev(model.ReasoningBegin), ev(model.SummaryDelta, "a"), ev(model.SummaryPartEnd), ev(model.SummaryDelta, "b"),
		ev(model.ReasoningDelta, "a raw thought"), ev(model.ReasoningEnd, "secret"),
		ev(model.MessageBegin), ev(model.TextDelta, "Look."), call("call_1", "Run", `{"x":1}`),
		call("call_2", "Run", `{}`), done(model.StopEnd)),
		join(ev(model.MessageBegin), ev(model.TextDelta, "Yes"),
			model.Event{Kind: model.AnnotationAdded, Annotation: &responses.Annotation{Type: "url_citation",
				URL: "https://example.com"}},
			ev(model.RefusalDelta, "No"), done(model.StopEnd)))
	resp, result := s.run(t, t.Context())
	expect.Equal(t, "resp.Status", resp.Status, responses.StatusCompleted)
	expect.Equal(t, "result.Rounds", result.Rounds, 2)
	expect.Equal(t, "result.ToolCalls.Total", result.ToolCalls.Total, 2)
	expect.Equal(t, "resp.Usage.OutputTokens", resp.Usage.OutputTokens, 4)
	wire := strings.Join(s.stream, "\n")
	for _, hidden := range []string{"secret", "a raw thought", "Run", "call_1"} {
		if strings.Contains(wire, hidden) {
			t.Errorf("%s is on the stream", hidden)
		}
	}
	if len(resp.Output) != 3 {
		t.Fatalf("%d items", len(resp.Output))
	}
	if r := resp.Output[0].(*responses.Reasoning); len(r.Summary) != 2 {
		t.Errorf("the summary has %d parts", len(r.Summary))
	}
	if kept := s.journal.items[0].(*responses.Reasoning); kept.EncryptedContent != "secret" {
		t.Errorf("the journal keeps %q", kept.EncryptedContent)
	}
	if a, b := resp.Output[1].(*responses.Message).Phase,
		resp.Output[2].(*responses.Message).Phase; a != responses.PhaseCommentary || b != responses.PhaseFinalAnswer {
		t.Errorf("the phases are %q and %q", a, b)
	}
	want := "model.requested reasoning.delta reasoning.summary reasoning.summary add reasoning add message " +
		"model.completed cost.recorded started call_1 tool.started ran call_1 tool.result add holon:tool_call " +
		"started call_2 tool.started ran call_2 tool.result add holon:tool_call " +
		"model.requested model.completed cost.recorded add message"
	// The last item is added as the attempt ends; either order is right.
	got := strings.Join(s.journal.lines, " ")
	if got != want && got != strings.Replace(want, "model.completed cost.recorded add message",
		"add message model.completed cost.recorded", 1) {
		t.Errorf("the journal is\n%s", got)
	}
}

func TestEncryptedReasoningWhenAsked(t *testing.T) {
	s := newStage(t, `{"input":"hi","include":["reasoning.encrypted_content"]}`,
		join(ev(model.ReasoningBegin), ev(model.ReasoningEnd, "secret"), answer))
	resp, _ := s.run(t, t.Context())
	if r := resp.Output[0].(*responses.Reasoning); r.EncryptedContent != "secret" {
		t.Errorf("the response has %q", r.EncryptedContent)
	}
}

func TestEnds(t *testing.T) {
	cut := []model.Event{{Kind: model.CallBegin, CallID: "call_9", Name: "ask"}, ev(model.CallDelta, `{"a`)}
	for _, c := range []struct {
		name   string
		body   string
		rounds [][]model.Event
		fail   error
		status responses.Status
		reason string // of an incomplete response, or the code of an error
		ran    int
		output int
	}{
		{"answer", `{"input":"x"}`, [][]model.Event{answer}, nil, responses.StatusCompleted, "", 0, 1},
		{"text without a begin", `{"input":"x"}`, [][]model.Event{{ev(model.TextDelta, "a"), done(model.StopEnd)}}, nil,
			responses.StatusCompleted, "", 0, 1},
		{"client's call", `{"input":"x"` + clientTool + `}`,
			[][]model.Event{join(call("call_1", "ask", "{}"), done(model.StopEnd))}, nil, responses.StatusCompleted, "",
			0, 1},
		{"both kinds of calls", `{"input":"x"` + clientTool + `}`,
			[][]model.Event{join(call("call_1", "ask", "{}"), call("call_2", "Run", "{}"), done(model.StopEnd))}, nil,
			responses.StatusCompleted, "", 1, 1},
		{"output limit", `{"input":"x"}`, [][]model.Event{{ev(model.MessageBegin), ev(model.TextDelta, "a"),
			done(model.StopMaxTokens)}}, nil, responses.StatusIncomplete, responses.ReasonMaxOutputTokens, 0, 1},
		{"output limit within a call", `{"input":"x"` + clientTool + `}`,
			[][]model.Event{join(cut, done(model.StopMaxTokens))}, nil, responses.StatusIncomplete,
			responses.ReasonMaxOutputTokens, 0, 1},
		{"output limit after a call", `{"input":"x"}`,
			[][]model.Event{join(call("call_1", "Run", "{}"), done(model.StopMaxTokens)), answer}, nil,
			responses.StatusCompleted, "", 1, 1},
		{"filter", `{"input":"x"}`, [][]model.Event{{ev(model.MessageBegin), ev(model.TextDelta, "a"),
			done(model.StopContentFilter)}}, nil, responses.StatusIncomplete, responses.ReasonContentFilter, 0, 1},
		{"too many calls", `{"input":"x","max_tool_calls":1}`,
			[][]model.Event{join(call("call_1", "Run", "{}"), done(model.StopEnd)),
				join(call("call_2", "Run", "{}"), done(
					model.StopEnd))}, nil, responses.StatusIncomplete, responses.ReasonMaxToolCalls, 1, 0},
		{"flood of text", `{"input":"x"}`, [][]model.Event{join(flood(model.TextDelta, 9),
			[]model.Event{done(model.StopEnd)})}, nil, responses.StatusIncomplete, responses.ReasonMaxOutputBytes,
			0, 1},
		{"flood over rounds", `{"input":"x"}`,
			[][]model.Event{join(flood(model.TextDelta, 5), call("call_1", "Run", "{}"),
				[]model.Event{done(model.StopEnd)}), join(flood(model.TextDelta, 5),
				[]model.Event{done(model.StopEnd)})}, nil, responses.StatusIncomplete, responses.ReasonMaxOutputBytes,
			1, 2},
		{"flood of escapes", `{"input":"x"}`,
			[][]model.Event{{ev(model.TextDelta, strings.Repeat("\x00", 1<<20)), done(model.StopEnd)}}, nil,
			responses.StatusIncomplete, responses.ReasonMaxOutputBytes, 0, 0},
		{"flood of arguments", `{"input":"x"}`,
			[][]model.Event{join([]model.Event{{Kind: model.CallBegin, CallID: "call_1", Name: "Run"}},
				flood(model.CallDelta, 200), []model.Event{
					done(model.StopEnd)})}, nil, responses.StatusIncomplete, responses.ReasonMaxOutputBytes, 0, 0},
		{"long reasoning", `{"input":"x"}`,
			[][]model.Event{join(flood(model.ReasoningDelta, 20), []model.Event{ev(model.ReasoningEnd)}, answer)}, nil,
			responses.StatusCompleted, "", 0, 1},
		{"failure at once", `{"input":"x"}`, [][]model.Event{nil},
			&model.Error{Kind: model.KindAuthentication, Code: responses.CodeProviderAuthentication, Message: "no"},
			responses.StatusFailed, responses.CodeProviderAuthentication, 0, 0},
		{"failure in the middle", `{"input":"x"}`, [][]model.Event{{ev(model.MessageBegin), ev(model.TextDelta, "a")}},
			&model.Error{Kind: model.KindTransport, Message: "broke"}, responses.StatusFailed, responses.CodeModelError,
			0, 1},
		{"an unknown failure", `{"input":"x"}`, [][]model.Event{nil}, errors.New("x"), responses.StatusFailed,
			responses.CodeModelError, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStage(t, c.body, c.rounds...)
			s.model.fail = c.fail
			resp, _ := s.run(t, t.Context())
			got := ""
			if resp.Error != nil {
				got = resp.Error.Code
			} else if resp.IncompleteDetails != nil {
				got = resp.IncompleteDetails.Reason
			}
			switch {
			case resp.Status != c.status:
				t.Errorf("resp.Status = %q, want %q", resp.Status, c.status)
			case got != c.reason:
				t.Errorf("got = %q, want %q", got, c.reason)
			case len(s.box.ran) != c.ran:
				t.Errorf("len(s.box.ran) = %d (%q), want %d", len(s.box.ran), s.box.ran, c.ran)
			case len(resp.Output) != c.output:
				t.Errorf("len(resp.Output) = %d (%+v), want %d", len(resp.Output), resp.Output, c.output)
			}
			for _, item := range s.journal.items {
				if f, ok := item.(*responses.FunctionCall); ok && f.Status != responses.ItemCompleted {
					t.Error("a call that cannot be answered is in the history")
				}
			}
		})
	}
}

// flood is so many deltas of half a mebibyte.
func flood(kind model.EventKind, n int) []model.Event {
	return slices.Repeat([]model.Event{ev(kind, strings.Repeat("x", 512<<10))}, n)
}

func TestMalformedModelEvents(t *testing.T) {
	begin := model.Event{Kind: model.CallBegin, CallID: "call_1", Name: "Run"}
	ask := model.Event{Kind: model.CallBegin, CallID: "call_1", Name: "ask"}
	for name, events := range map[string][]model.Event{
		"no end":                      {ev(model.TextDelta, "a")},
		"unknown kind":                {ev(99), done(model.StopEnd)},
		"delta without a call":        {ev(model.CallDelta, "a"), done(model.StopEnd)},
		"end without a call":          {ev(model.MessageBegin), ev(model.CallEnd, "{}"), done(model.StopEnd)},
		"end without reasoning":       {ev(model.MessageBegin), ev(model.ReasoningEnd), done(model.StopEnd)},
		"text within reasoning":       {ev(model.ReasoningBegin), ev(model.TextDelta, "a"), done(model.StopEnd)},
		"summary within text":         {ev(model.MessageBegin), ev(model.SummaryDelta, "a"), done(model.StopEnd)},
		"text within a call":          {ask, ev(model.TextDelta, "a"), done(model.StopEnd)},
		"call within a call":          {begin, begin, done(model.StopEnd)},
		"message within a call":       {ask, ev(model.MessageBegin), done(model.StopEnd)},
		"call without an end":         {begin, done(model.StopEnd)},
		"client call without an end":  {ask, done(model.StopEnd)},
		"call without an id":          {{Kind: model.CallBegin, Name: "Run"}, done(model.StopEnd)},
		"client call of a hostile id": join(call(strings.Repeat("x", 1000), "ask", "{}"), done(model.StopEnd)),
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, `{"input":"x"`+clientTool+`}`, events)
			resp, _ := s.run(t, t.Context())
			switch {
			case resp.Status != responses.StatusFailed:
				t.Errorf("resp.Status = %q, want %q", resp.Status, responses.StatusFailed)
			case resp.Error.Type != responses.TypeModelError:
				t.Errorf("resp.Error.Type = %q, want %q", resp.Error.Type, responses.TypeModelError)
			case len(s.box.ran) != 0:
				t.Errorf("len(s.box.ran) = %d (%q), want 0", len(s.box.ran), s.box.ran)
			}
		})
	}
}

// A model that uses the id of a call again, in one answer, in the next, or one
// of the conversation before, makes calls that can be told apart all the same.
func TestRepeatedCallIDs(t *testing.T) {
	run, ask, end := call("call_1", "Run", "{}"), call("call_1", "ask", "{}"), done(model.StopEnd)
	s := newStage(t, `{"input":[{"type":"function_call","call_id":"call_0","name":"f","arguments":"{}"},`+
		`{"type":"function_call_output","call_id":"call_0","output":"r"}]`+clientTool+`}`,
		join(run, run, end), join(call("call_0", "Run", "{}"), run, end), join(ask, ask, end))
	resp, _ := s.run(t, t.Context())
	switch {
	case resp.Status != responses.StatusCompleted:
		t.Fatalf("resp.Status = %q, want %q", resp.Status, responses.StatusCompleted)
	case len(resp.Output) != 2:
		t.Fatalf("len(resp.Output) = %d (%+v), want 2", len(resp.Output), resp.Output)
	case len(s.box.ran) != 4:
		t.Fatalf("len(s.box.ran) = %d (%q), want 4", len(s.box.ran), s.box.ran)
	}
	seen := map[string]bool{"call_0": true}
	for _, item := range s.journal.items {
		var id string
		switch item := item.(type) {
		case *responses.ToolCall:
			id = item.CallID
		case *responses.FunctionCall:
			id = item.CallID
		default:
			continue
		}
		if seen[id] || len(id) > 64 {
			t.Errorf("the id %q is used again", id)
		}
		seen[id] = true
	}
	if len(seen) != 7 || !seen["call_1"] {
		t.Errorf("the ids are %v", seen)
	}
}

func TestArgumentsWithoutDeltasReachTheClient(t *testing.T) {
	s := newStage(t, `{"input":"x"`+clientTool+`}`,
		[]model.Event{{Kind: model.CallBegin, CallID: "call_1", Name: "ask"}, {Kind: model.CallEnd, Text: `{"q":1}`},
			done(model.StopEnd)})
	resp, _ := s.run(t, t.Context())
	expect.Equal(t, "the arguments", resp.Output[0].(*responses.FunctionCall).Arguments, `{"q":1}`)
}

func TestToolChoiceIsForcedOnce(t *testing.T) {
	for choice, want := range map[string]string{
		`"required"`: `"auto"`, `"auto"`: `"auto"`, `"none"`: `"none"`, `{"type":"function","name":"Run"}`: `"auto"`,
		`{"type":"allowed_tools","mode":"required","tools":[{"type":"function",` +
			`"name":"Run"}]}`: `{"type":"allowed_tools","tools":[{"type":"function","name":"Run"}],"mode":"auto"}`,
	} {
		s := newStage(t, `{"input":"x","tool_choice":`+choice+`}`,
			join(call("call_1", "Run", "{}"), done(model.StopEnd)), answer)
		s.run(t, t.Context())
		for i, want := range []string{choice, want} {
			got, err := json.Marshal(s.model.asked[i].ToolChoice)
			var a, b any
			if err = errors.Join(err, json.Unmarshal(got, &a), json.Unmarshal([]byte(want), &b)); err != nil ||
				fmt.Sprint(a) != fmt.Sprint(b) {
				t.Errorf("%s in round %d is %s, want %s (%v)", choice, i+1, got, want, err)
			}
		}
	}
}

func TestAClientToolReplacesTheContainers(t *testing.T) {
	s := newStage(t, `{"input":"x","tools":[{"type":"function","name":"Run","description":"mine"}]}`,
		join(call("call_1", "Run", "{}"), done(model.StopEnd)))
	resp, _ := s.run(t, t.Context())
	if asked := s.model.asked[0].Tools; len(asked) != 1 || asked[0].Description != "mine" {
		t.Errorf("the model is offered %+v", asked)
	}
	switch {
	case len(resp.Output) != 1:
		t.Errorf("len(resp.Output) = %d (%+v), want 1", len(resp.Output), resp.Output)
	case len(turns.Handed(resp.Output)) != 1:
		t.Errorf("resp.Output = %+v, want one call for the client", resp.Output)
	case len(s.box.ran) != 0:
		t.Errorf("len(s.box.ran) = %d (%q), want 0", len(s.box.ran), s.box.ran)
	}
}

func TestInterruptions(t *testing.T) {
	for cause, want := range map[error]string{ErrTimeout: responses.ReasonTimeout,
		ErrShutdown: responses.ReasonShutdown, ErrCancelled: "", errors.New("other"): ""} {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		s := newStage(t, `{"input":"x"}`, nil)
		s.model.fail = model.Cancelled(ctx)
		resp, _ := s.run(t, ctx)
		if want == "" {
			if resp.Status != responses.StatusCancelled || resp.Error.Code != responses.CodeCancelled {
				t.Errorf("%v: %s, %+v", cause, resp.Status, resp.Error)
			}
		} else if resp.Status != responses.StatusIncomplete || resp.IncompleteDetails.Reason != want {
			t.Errorf("%v: %s, %+v", cause, resp.Status, resp.IncompleteDetails)
		}
	}
	t.Run("between two calls", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		s := newStage(t, `{"input":"x"}`, join(call("call_1", "Run", "{}"), call("call_2", "Run", "{}"),
			done(model.StopEnd)))
		s.box.cancel = cancel
		resp, _ := s.run(t, ctx)
		if resp.Status != responses.StatusIncomplete || !slices.Equal(s.box.ran, []string{"call_1"}) {
			t.Errorf("%s, ran %v", resp.Status, s.box.ran)
		}
		if last := s.journal.items[1].(*responses.ToolCall); last.Status != responses.ItemCompleted ||
			!strings.Contains(last.Output, "canceled") {
			t.Errorf("the second call is %+v", last)
		}
	})
	t.Run("after the answer", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		s := newStage(t, `{"input":"x"}`, answer)
		cancel(ErrTimeout) // the model does not look
		if resp, _ := s.run(t, ctx); resp.Status != responses.StatusCompleted {
			t.Errorf("a whole answer became %s", resp.Status)
		}
	})
}

func TestMaxRounds(t *testing.T) {
	round := join(call("call_1", "Run", "{}"), done(model.StopEnd))
	s := newStage(t, `{"input":"x"}`, round, round, round)
	s.turn.MaxRounds = 2
	resp, result := s.run(t, t.Context())
	switch {
	case resp.Status != responses.StatusIncomplete:
		t.Errorf("resp.Status = %q, want %q", resp.Status, responses.StatusIncomplete)
	case resp.IncompleteDetails.Reason != responses.ReasonMaxRounds:
		t.Errorf("resp.IncompleteDetails.Reason = %q, want %q", resp.IncompleteDetails.Reason,
			responses.ReasonMaxRounds)
	case result.Rounds != 2:
		t.Errorf("result.Rounds = %d, want 2", result.Rounds)
	case len(s.box.ran) != 2:
		t.Errorf("len(s.box.ran) = %d (%q), want 2", len(s.box.ran), s.box.ran)
	}
}

// A turn whose facts cannot be kept ends there, without a terminal event.
func TestJournalErrors(t *testing.T) {
	rounds := [][]model.Event{join(ev(model.MessageBegin), ev(model.TextDelta, "a"), call("call_1", "Run", "{}"),
		done(model.StopEnd)), answer}
	for _, line := range []string{"model.requested", "model.completed", "add message", "started", "tool.started",
		"tool.result", "add holon:tool_call"} {
		s := newStage(t, `{"input":"x"}`, rounds...)
		s.journal.fail = line
		if _, err := s.turn.Run(t.Context()); !errors.Is(err, errJournal) {
			t.Errorf("%s: error %v", line, err)
		}
		if s.em.Ended() {
			t.Errorf("%s: the stream has an end", line)
		}
		if ran := slices.Contains(s.journal.lines,
			"ran call_1"); ran != (line == "tool.result" || line == "add holon:tool_call") {
			t.Errorf("%s: the call ran: %t", line, ran)
		}
	}
	s := newStage(t, `{"input":"x"}`, answer)
	broken := errors.New("the sink broke")
	n := 0
	em, err := responses.NewEmitter(responses.NewResponse("resp_1", "fake/m", 1, s.turn.Request),
		func(string, []byte) error {
			if n++; n > 3 {
				return broken
			}
			return nil
		})
	expect.NoError(t, err)
	s.turn.Emitter = em
	if _, err := s.turn.Run(t.Context()); !errors.Is(err, broken) {
		t.Errorf("error %v", err)
	}
}

// The input of the model only grows at its end, and every call that it made has
// run exactly once.
func TestHistoryIsAppendOnly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var rounds [][]model.Event
		calls := 0
		for range rapid.IntRange(0, 5).Draw(t, "rounds") {
			var events []model.Event
			if rapid.Bool().Draw(t, "reasoning") {
				events = join(events, ev(model.ReasoningBegin), ev(model.SummaryDelta, "r"),
					ev(model.ReasoningEnd, "e"))
			}
			if rapid.Bool().Draw(t, "text") {
				events = join(events, ev(model.MessageBegin), ev(model.TextDelta, "t"))
			}
			for range rapid.IntRange(1, 3).Draw(t, "calls") {
				calls++
				events = join(events, call(fmt.Sprintf("call_%d", calls), "Run", "{}"))
			}
			rounds = append(rounds, join(events, done(model.StopEnd)))
		}
		s := newStage(t, `{"input":[{"role":"user","content":"x"}]}`, append(rounds, answer)...)
		s.turn.History = []responses.Item{&responses.Message{ID: "msg_0", Role: responses.RoleUser}}
		if _, err := s.turn.Run(context.Background()); err != nil {
			t.Fatal(err)
		}
		for i := 1; i < len(s.model.asked); i++ {
			before, after := s.model.asked[i-1].Input, s.model.asked[i].Input
			if len(after) <= len(before) || !slices.Equal(before, after[:len(before)]) {
				t.Fatalf("round %d is told %d items, the one before %d", i+1, len(after), len(before))
			}
		}
		if len(s.box.ran) != calls || len(slices.Compact(slices.Sorted(slices.Values(s.box.ran)))) != calls {
			t.Fatalf("%d calls were made and these ran: %v", calls, s.box.ran)
		}
		told := s.model.asked[len(s.model.asked)-1].Input
		if kept := s.journal.items; !slices.Equal(told[2:], kept[:len(kept)-1]) {
			t.Fatal("the journal does not keep what the model was told")
		}
	})
}
