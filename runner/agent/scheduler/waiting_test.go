package scheduler_test

import (
	"testing"

	"holon/runner/agent/record"
	"holon/runner/agent/scheduler"
	"holon/state/ledger"
	"holon/test/expect"
)

func second[T any](_ T, err error) error { return err }

// An agent that may not go on by itself asks its operator, whose prompt resolves that; any other message that it takes
// lets it go on too, and takes the question back.
func TestOperatorIsAsked(t *testing.T) {
	for name, c := range map[string]struct {
		in       ledger.Message
		class    ledger.Class
		decision string
	}{
		"prompt":  {prompt("go on"), ledger.ResumeExpectedWait, `"decision":"answered"`},
		"webhook": {webhook("news", ledger.Normal), ledger.LocalContinuation, `"decision":"cancelled"`},
	} {
		t.Run(name, func(t *testing.T) {
			w := open(t)
			w.admit(prompt("go"))
			w.loop(func(int) scheduler.End {
				w.ok(w.m.Admit(w.ctx, note("again", ledger.Next)))
				return scheduler.End{Turn: ledger.Turn{Kind: ledger.TurnCompleted}, Home: "the same"}
			})
			w.newest(record.ActionRequired)
			expect.Equal(t, "answers before the operator's", w.count(record.ActionResolved), 0)
			w.wake("", "triggered")
			w.nothing() // a wake is no answer
			w.admit(c.in)
			if got := w.claim().Continuation; got.Class != c.class || got.PriorWaiting != ledger.AwaitingOperator {
				t.Errorf("continues as %+v, want %s", got, c.class)
			}
			contains(t, "the answer", string(w.newest(record.ActionResolved).Data), c.decision)
			w.check()
		})
	}
}
