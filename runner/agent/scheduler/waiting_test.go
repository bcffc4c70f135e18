package scheduler_test

import (
	"fmt"
	"testing"
	"time"

	"holon/runner/agent/record"
	"holon/runner/agent/rules"
	"holon/runner/agent/scheduler"
	"holon/state/ledger"
	"holon/test/expect"
)

// Each reason to wait has something that an agent does which leads to it, and the closure of that turn says so.
func TestWaitingReasons(t *testing.T) {
	tell := func(w *world) {
		w.ok(w.m.EnsureTrigger(w.ctx, "alpha"))
		w.ok(w.m.RevealTrigger(w.ctx, "alpha"))
	}
	for _, c := range []struct {
		name   string
		turns  int
		turn   func(w *world, i int)
		want   ledger.WaitingReason
		kind   ledger.WaitKind
		status rules.Status
	}{
		{"nothing", 1, func(*world, int) {}, "", "", rules.AwakeIdle},
		{"rest", 1, func(w *world, i int) { w.sleep("call", 0) }, "", ledger.WaitSystem, rules.Asleep},
		{"rest by the clock", 1, func(w *world, i int) { w.sleep("call", time.Hour) }, ledger.AwaitingTimer,
			ledger.WaitTimer, rules.Asleep},
		{"rest after it was shown its trigger", 1, func(w *world, i int) { tell(w); w.sleep("call", 0) },
			ledger.AwaitingExternal, ledger.WaitExternal, rules.Asleep},
		{"rest by the clock after it was shown its trigger", 1, func(w *world, i int) {
			tell(w)
			w.sleep("call", time.Hour)
		}, ledger.AwaitingTimer, ledger.WaitTimer, rules.Asleep},
		{"rest in a later turn", 2, func(w *world, i int) {
			if i == 0 {
				tell(w)
				w.ok(w.m.Admit(w.ctx, note("again", ledger.Next)))
			} else {
				w.sleep("call", 0)
			}
		}, "", ledger.WaitSystem, rules.Asleep},
		{"may not go on by itself", 1 + rules.MaxSelfTurns, func(w *world, i int) {
			if i < rules.MaxSelfTurns {
				w.ok(w.m.Admit(w.ctx, note("again", ledger.Next)))
			}
		}, ledger.AwaitingOperator, ledger.WaitOperator, rules.Asleep},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := open(t)
			w.admit(prompt("go"))
			var last scheduler.Settlement
			for i := range c.turns {
				claim := w.claim()
				c.turn(w, i)
				last = w.settle(claim.Attempt.ID, scheduler.End{Turn: ledger.Turn{Kind: ledger.TurnCompleted,
					Last: "ok", ResponseID: fmt.Sprint("resp_", i)}, Home: fmt.Sprint("home ", i)})
			}
			if last.Closure.WaitingReason != c.want || (last.Closure.Outcome == ledger.OutcomeWaiting) != (c.want != "") {
				t.Errorf("closure %+v, want the reason %q", last.Closure, c.want)
			}
			var sit rules.Situation
			w.view(func(v ledger.View) error {
				waits, err := v.UnresolvedWaits("alpha")
				sit.Waits(waits)
				return err
			})
			if got := sit.Status(); got != c.status || c.kind != "" && (sit.Wait == nil || sit.Wait.Kind != c.kind) {
				t.Errorf("%s with the wait %+v, want %s for %q", got, sit.Wait, c.status, c.kind)
			}
			w.check()
		})
	}
}

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
