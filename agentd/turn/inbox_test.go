package turn

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"holon/agentd/model"
	"holon/responses"
	"holon/responses/turns"
	"holon/test/expect"
)

// letters is an inbox in memory: texts wait until a round begins.
type letters struct {
	waiting []string
	told    map[string]int // round by text
	closed  bool
	fail    error
}

func (l *letters) Insert(round int) (items []responses.Item, err error) {
	for _, text := range l.waiting {
		if l.told == nil {
			l.told = make(map[string]int)
		}
		l.told[text] = round
		items = append(items, &responses.Message{ID: responses.PrefixInterjected + text, Role: responses.RoleUser,
			Content: []responses.Part{responses.InputText(text)}})
	}
	l.waiting = nil
	return items, l.fail
}

func (l *letters) Close() bool {
	l.closed = l.closed || len(l.waiting) == 0
	return l.closed
}

// shape names the items that a model was told.
func shape(items []responses.Item) string {
	var out []string
	for _, item := range items {
		word := item.ItemType()
		if m, ok := item.(*responses.Message); ok {
			word = fmt.Sprintf("%s(%s)", m.Role, m.Text())
		}
		out = append(out, word)
	}
	return strings.Join(out, " ")
}

// A message of the user that comes while tools run follows all results of the
// round, and does not appear in the stream.
func TestInboxBetweenRounds(t *testing.T) {
	s := newStage(t, `{"input":"hi"}`, join(ev(model.MessageBegin), ev(model.TextDelta, "Look."),
		call("call_1", "Run", "{}"), call("call_2", "Run", "{}"), done(model.StopEnd)), answer)
	box := &letters{}
	s.turn.Inbox = box
	s.box.before = func() { box.waiting = append(box.waiting, fmt.Sprint("said", len(s.box.ran))) }
	resp, result := s.run(t, t.Context())
	switch {
	case resp.Status != responses.StatusCompleted:
		t.Errorf("resp.Status = %q, want %q", resp.Status, responses.StatusCompleted)
	case result.Rounds != 2:
		t.Errorf("result.Rounds = %d, want 2", result.Rounds)
	case !box.closed:
		t.Error("box.closed = false, want true")
	}
	want := "user(hi) assistant(Look.) holon:tool_call holon:tool_call user(said1) user(said2)"
	if got := shape(s.model.asked[1].Input); got != want {
		t.Errorf("the model was told\n%s, want\n%s", got, want)
	}
	expect.Equal(t, "the conversation", shape(result.Conversation), want+" assistant(Done.)")
	if wire := strings.Join(s.stream, "\n"); strings.Contains(wire, "said1") || len(resp.Output) != 2 {
		t.Errorf("the stream has it:\n%s", wire)
	}
	if box.told["said1"] != 2 || box.told["said2"] != 2 {
		t.Errorf("told in the rounds %v", box.told)
	}
}

// An answer does not end the turn while a message waits.
func TestInboxAfterTheAnswer(t *testing.T) {
	s := newStage(t, `{"input":"hi","text":{"format":{"type":"json_object"}}}`,
		[]model.Event{ev(model.MessageBegin), ev(model.TextDelta, "no JSON yet"), done(model.StopEnd)},
		[]model.Event{ev(model.MessageBegin), ev(model.TextDelta, "{}"), done(model.StopEnd)})
	box := &letters{}
	s.turn.Inbox = box
	s.model.before = func() {
		if len(s.model.asked) == 1 && box.told == nil {
			box.waiting = []string{"as JSON"}
		}
	}
	resp, result := s.run(t, t.Context())
	switch {
	case resp.Status != responses.StatusCompleted:
		t.Errorf("resp.Status = %q, want %q", resp.Status, responses.StatusCompleted)
	case result.Rounds != 2:
		t.Errorf("result.Rounds = %d, want 2", result.Rounds)
	case len(resp.Output) != 2:
		t.Errorf("len(resp.Output) = %d (%+v), want 2", len(resp.Output), resp.Output)
	}
	if got := shape(s.model.asked[1].Input); got != "user(hi) assistant(no JSON yet) user(as JSON)" {
		t.Errorf("the model was told %s", got)
	}
}

// An answer in the last round ends the turn.
func TestInboxAtALimit(t *testing.T) {
	for name, c := range map[string]struct {
		body   string
		change func(*Turn)
	}{
		"rounds": {`{"input":"hi"}`, func(t *Turn) { t.MaxRounds = 1 }},
		"tokens": {`{"input":"hi","max_output_tokens":2}`, func(*Turn) {}},
		"output": {`{"input":"hi"}`, func(t *Turn) {
			full := []bool{false, true}
			t.Full = func() bool { f := full[0]; full = full[1:]; return f }
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, c.body, answer)
			c.change(s.turn)
			box := &letters{}
			s.turn.Inbox = box
			s.model.before = func() { box.waiting = []string{"more"} }
			if resp, _ := s.run(t, t.Context()); resp.Status != responses.StatusCompleted || len(box.told) != 0 {
				t.Errorf("%s, told %v", resp.Status, box.told)
			}
		})
	}
}

// A message that comes before the first request to the model belongs to the first
// round. A call of the client ends the turn even when messages wait.
func TestInboxAtTheEdges(t *testing.T) {
	s := newStage(t, `{"input":"hi"`+clientTool+`}`, join(call("call_1", "ask", "{}"), done(model.StopEnd)))
	box := &letters{waiting: []string{"early"}}
	s.turn.Inbox = box
	s.model.before = func() { box.waiting = []string{"late"} }
	resp, _ := s.run(t, t.Context())
	switch {
	case resp.Status != responses.StatusCompleted:
		t.Errorf("resp.Status = %q, want %q", resp.Status, responses.StatusCompleted)
	case len(turns.Handed(resp.Output)) != 1:
		t.Errorf("resp.Output = %+v, want one call for the client", resp.Output)
	case box.told["early"] != 1:
		t.Errorf(`box.told["early"] = %d, want 1`, box.told["early"])
	case !slices.Equal(box.waiting, []string{"late"}):
		t.Errorf("box.waiting = %q, want %q", box.waiting, []string{"late"})
	}
	expect.Equal(t, "the model was told", shape(s.model.asked[0].Input), "user(hi) user(early)")
}

func TestInboxThatCannotBeRecorded(t *testing.T) {
	s := newStage(t, `{"input":"hi"}`, answer)
	broken := errors.New("the disk is gone")
	s.turn.Inbox = &letters{waiting: []string{"x"}, fail: broken}
	if _, err := s.turn.Run(t.Context()); !errors.Is(err, broken) || len(s.model.asked) != 0 {
		t.Errorf("%v, the model was asked %d times", err, len(s.model.asked))
	}
}
