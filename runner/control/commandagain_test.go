package control_test

import (
	"fmt"
	"sync"
	"testing"

	"holon/runner/agent/scheduler"
	"holon/runner/control"
	"holon/test/expect"
)

// A command to resume that comes again after a later stop, also to another process, leaves the agent stopped. A new one
// starts it; one to an agent that is not stopped does nothing, and one that was removed cannot be resumed.
func TestResumeThread(t *testing.T) {
	t.Parallel()
	r := newRig(t, control.Limits{}, tcp())
	d := r.described()
	resume := func(id, want string) {
		t.Helper()
		a := r.commanded(d, "resume_thread", fmt.Sprintf(`{"command_id":%q}`, id))
		if string(a.Result) != `{"outcome":"`+want+`"}` || a.NoOp != (want == scheduler.AlreadyActive) {
			t.Errorf("%s is answered %+v with %s, want %s", id, a, a.Result, want)
		}
	}
	resume("c1", scheduler.AlreadyActive)
	r.pause()
	resume("c2", scheduler.Resumed)
	r.stopped(false)
	r.pause()
	resume("c2", scheduler.Resumed)
	resume("c1", scheduler.AlreadyActive)
	r.stopped(true)
	r.reopen()
	resume("c2", scheduler.Resumed)
	r.stopped(true)
	resume("c3", scheduler.Resumed)
	r.stopped(false)
	if _, err := r.machine.Create(t.Context(), scheduler.NewAgent{ID: "gone"}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.machine.Archive(t.Context(), scheduler.Archive{AgentID: "gone", By: "operator"}); err != nil {
		t.Fatal(err)
	}
	r.ask(d, post("/runtime/commands/resume_thread", `{"command_id":"c","agent_id":"gone"}`)).
		is(t, "an agent that is gone",
			409, "stopped", "agent_id")
}

// A refusal is not remembered: the same command is carried out when it can be.
func TestARefusedCommandCanComeAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t, control.Limits{}, tcp())
	d := r.described()
	const body = `{"command_id":"c","text":"Look."}`
	r.pause()
	r.ask(d, post("/runtime/commands/submit_turn", body)).is(t, "while it is stopped", 409, "stopped", "agent_id")
	expect.NoError(t, r.machine.Start(t.Context(), "main", "operator"))
	if a := r.commanded(d, "submit_turn", body); a.NoOp {
		t.Errorf("after a start: %+v, want it carried out", a)
	}
}

// Of the same command at the same moment one is carried out, and all are given its answer.
func TestTheSameCommandAtOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, control.Limits{}, tcp())
	d := r.described()
	r.pause()
	for name, body := range map[string]string{"resume_thread": `{"command_id":"c1"}`,
		"export_evidence": `{"command_id":"c2"}`} {
		answers := make([]answer, 8)
		var group sync.WaitGroup
		for i := range answers {
			group.Go(func() { answers[i] = r.ask(d, post("/runtime/commands/"+name, body)) })
		}
		group.Wait()
		for _, a := range answers {
			if a.status != 200 || a.body != answers[0].body {
				t.Errorf("%s is answered %d %s, want %s", name, a.status, a.body, answers[0].body)
			}
		}
	}
}
