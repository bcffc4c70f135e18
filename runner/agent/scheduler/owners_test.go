package scheduler_test

import (
	"testing"

	"holon/runner/agent/rules"
	"holon/runner/agent/scheduler"
	"holon/state/ledger"
)

// One message ends the waits of all owners that it fits, and they come back with it when no turn was begun.
func TestWaitsOfOwners(t *testing.T) {
	w := open(t)
	wait := func(owner string, kind ledger.WaitKind, wakes ...ledger.WakeSource) ledger.Wait {
		t.Helper()
		got, err := w.m.WaitFor(w.ctx, ledger.Wait{ID: "wait_" + owner, AgentID: "alpha", Owner: owner, Kind: kind,
			WaitingFor: "it", Wakes: wakes})
		w.must(err)
		return got
	}
	task := func(id string) ledger.WakeSource { return ledger.WakeSource{Kind: rules.WakeTaskResult, TaskID: id} }
	c := w.working()
	rest := w.sleep("call", 0)
	w.settle(c.Attempt.ID, scheduler.End{Turn: ledger.Turn{Kind: ledger.TurnCompleted, Last: "ok",
		ResponseID: "resp_1"}})
	one, both := wait("work_1", ledger.WaitTask, task("task_1")), wait("work_2", ledger.WaitTask, task("task_2"),
		task("task_1"))
	other := wait("work_3", ledger.WaitTask, task("task_3"))
	status := func(want ledger.WaitStatus, waits ...ledger.Wait) {
		t.Helper()
		for _, x := range waits {
			if got := w.wait(x.ID); got.Status != want {
				t.Errorf("wait of %s is %s, want %s", x.Owner, got.Status, want)
			}
		}
	}
	adm, err := w.m.Admit(w.ctx, ledger.Message{AgentID: "alpha", Kind: ledger.KindTaskResult,
		Origin: ledger.Origin{Kind: ledger.OriginTask, TaskID: "task_1"}, AdmissionContext: ledger.RuntimeOwned,
		Body: ledger.Body{Type: "text", Text: "done"}})
	w.must(err)
	status(ledger.WaitTriggered, rest, one, both)
	status(ledger.WaitActive, other)
	c = w.claim()
	if c.Message.ID != adm.MessageID || c.Wait == nil || c.Wait.ID != rest.ID || len(c.Attempt.Waits) != 3 {
		t.Fatalf("claimed %s for %+v, which ended %v", c.Message.ID, c.Wait, c.Attempt.Waits)
	}
	status(ledger.WaitResolved, rest, one, both)
	w.settle(c.Attempt.ID, scheduler.End{NotBegun: true})
	status(ledger.WaitTriggered, rest, one, both)
	w.ok(w.m.Remove(w.ctx, "alpha", adm.MessageID, "test"))
	status(ledger.WaitCancelled, rest, one, both)
	if again := wait("work_3", ledger.WaitTask, task("task_9")); again.ID != other.ID ||
		again.Status != ledger.WaitActive {
		t.Errorf("asked again: %+v", again)
	}
}

// What something that the agent works on waits for is worth a turn, though the agent itself waits for nothing.
func TestTickForWork(t *testing.T) {
	w := open(t)
	w.ok(w.m.WaitFor(w.ctx, ledger.Wait{ID: "wait_1", AgentID: "alpha", Owner: "work_1", Kind: ledger.WaitSystem,
		WaitingFor: "it", Wakes: []ledger.WakeSource{{Kind: rules.WakeSystem}}}))
	w.ok(w.m.Wake(w.ctx, scheduler.Wake{AgentID: "alpha", Context: ledger.ControlAuthenticated,
		WakeHint: ledger.WakeHint{Reason: "look"}}))
	if c := w.claim(); len(c.Attempt.Waits) != 1 || c.Wait != nil || w.wait("wait_1").Status != ledger.WaitResolved {
		t.Errorf("claimed %+v, which ended %v", c.Wait, c.Attempt.Waits)
	}
}
