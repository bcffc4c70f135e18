package control_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"holon/runner/control"
	"holon/runner/control/wire"
	"holon/state/ledger"
	"holon/test/expect"
)

// commanded sends a command that is accepted.
func (r *rig) commanded(d *described, name, body string) (answer wire.CommandAnswer) {
	r.t.Helper()
	a := r.ask(d, post("/runtime/commands/"+name, body))
	if err := json.Unmarshal([]byte(a.body), &answer); err != nil || a.status != 200 {
		r.t.Fatalf("%s: %d %s", name, a.status, a.body)
	}
	if answer.Status != "accepted" || answer.AppliedThroughSequence == 0 {
		r.t.Errorf("%s: %+v, want accepted through an event", name, answer)
	}
	return answer
}

// Interrupting a turn never ends the one after it.
func TestALateInterruptEndsNoOtherTurn(t *testing.T) {
	t.Parallel()
	r := newRig(t, control.Limits{}, tcp())
	d := r.described()
	must(r.client().Prompt(t.Context(), "", wire.Prompt{Text: "One."}, ""))(t)
	r.turn("main", "Done.")
	var ended string
	err := r.store.View(t.Context(), func(v ledger.View) error {
		page, err := v.Events("main", ledger.EventQuery{Limit: 500})
		for _, e := range page.Events {
			if e.TurnID != "" {
				ended = e.TurnID
			}
		}
		return err
	})
	if err != nil || ended == "" {
		t.Fatal(err, ended)
	}
	must(r.client().Prompt(t.Context(), "", wire.Prompt{Text: "Two."}, ""))(t)
	claim, _, err := r.machine.Claim(t.Context(), "main")
	expect.NoError(t, err)
	if a := r.commanded(d, "interrupt_turn", fmt.Sprintf(`{"command_id":"c","turn_id":%q}`, ended)); !a.NoOp {
		t.Errorf("%+v, want nothing done", a)
	}
	err = r.store.View(t.Context(), func(v ledger.View) error {
		a, err := v.Attempt(claim.Attempt.ID)
		expect.Equal(t, "the turn that runs was aborted by", a.AbortedBy, "")
		return err
	})
	for id, again := range []bool{false, true} {
		if a := r.commanded(d, "interrupt_turn", fmt.Sprintf(`{"command_id":"r%d"}`, id)); a.NoOp != again {
			t.Errorf("request %d to end the turn that runs: %+v, want no_op %v", id, a, again)
		}
	}
	expect.NoError(t, err)
}

// A refusal has one of the codes of the standard.
func TestCommandsAreRefusedWithTheWordsOfTheStandard(t *testing.T) {
	t.Parallel()
	r := newRig(t, control.Limits{}, tcp())
	d := r.described()
	for _, c := range []struct {
		name, body  string
		status      int
		code, param string
	}{
		{"submit_turn", `{"text":"x"}`, 400, "invalid", "command_id"},
		{"submit_turn", `{"command_id":"a"}`, 400, "invalid", "text"},
		{"submit_turn", `{"command_id":"a","text":"x","agent_id":"nobody"}`, 404, "not_found", "agent_id"},
		{"submit_turn", `{"command_id":"a","text":"x","priority":"now"}`, 400, "invalid", "priority"},
		{"submit_turn", `{"command_id":"a","text":"x","session_id":"sess_other","agent_id":"main"}`, 400, "invalid",
			"session_id"},
		{"submit_turn", `{"command_id":"a","text":"x","thread_id":"main"}`, 400, "invalid", "thread_id"},
		{"submit_turn", `{"command_id":"a","text":"x","thread_id":"thread_nobody"}`, 404, "not_found", "agent_id"},
		{"get_capabilities", `{"command_id":"a","agent_id":"nobody"}`, 404, "not_found", "agent_id"},
		{"submit_turn", `{"command_id":"a","text":"x","reason":"y"}`, 400, "unknown_field", "reason"},
		{"interrupt_turn", `{"command_id":"a","text":"x"}`, 400, "unknown_field", "text"},
		{"get_capabilities", `{"command_id":"a","through":3}`, 400, "unknown_field", "through"},
		{"submit_turn", `{"command_id":"a","text":"x","colour":"y"}`, 400, "unknown_field", "colour"},
		{"interrupt_turn", `{"command_id":"a","turn_id":"turn_none"}`, 404, "not_found", "turn_id"},
		{"remove_queued_turn", `{"command_id":"a","queued_turn_id":"msg_none"}`, 404, "not_found", "queued_turn_id"},
		{"cancel_task", `{"command_id":"a"}`, 400, "invalid", "task_id"},
		{"create_task", `{"command_id":"a"}`, 400, "invalid", "objective"},
		{"create_task", `{"command_id":"a","objective":"x","cmd":""}`, 400, "invalid", "cmd"},
		{"start_task", `{"command_id":"a","task_id":"work_none"}`, 404, "not_found", "task_id"},
		{"cancel_task", `{"command_id":"a","task_id":"work_none"}`, 404, "not_found", "task_id"},
		{"cancel_task", fmt.Sprintf(`{"command_id":"a","task_id":%q}`, r.work()), 501, "unsupported", "task_id"},
		{"export_evidence", `{"command_id":"a","through":-1}`, 400, "invalid", "through"},
		{"export_evidence", `{"command_id":"a","through":0}`, 400, "invalid", "through"},
		{"submit_turn", `{"command_id":"a","agent_id":"","text":"x"}`, 400, "invalid_value", "agent_id"},
		{"submit_turn", `{"command_id":"a","threadId":"","text":"x"}`, 400, "invalid_value", "threadId"},
		{"export_evidence", `{"command_id":"a","through":100000}`, 400, "invalid", "through"},
		{"spawn_subagent", `{"command_id":"a","profile":"x"}`, 501, "unsupported", "name"},
		{"get_session", `{"command_id":"a"}`, 501, "read_only", "name"},
		{"make_coffee", `{"command_id":"a"}`, 404, "not_found", "name"},
	} {
		a := r.ask(d, post("/runtime/commands/"+c.name, c.body))
		a.is(t, c.name+" "+c.body, c.status, c.code, c.param)
	}
	r.commanded(d, "submit_turn", `{"command_id":"a","text":"x"}`)
	r.commanded(d, "submit_turn", `{"command_id":"a","text":"x","session_id":"sess_main"}`) // which is the same
	for name, body := range map[string]string{"submit_turn": `{"command_id":"a","text":"y"}`,
		"create_task": `{"command_id":"a","objective":"x"}`} {
		a := r.ask(d, post("/runtime/commands/"+name, body))
		a.is(t, "another command of the same id", 409, "conflict", "command_id")
		if !strings.Contains(a.body, `command_id \"a\" was used for submit_turn`) ||
			!strings.Contains(a.body, "use a new command_id") {
			t.Errorf("a conflict is explained by %s", a.body)
		}
	}
	expect.NoError(t, r.machine.Stop(t.Context(), "main", "operator"))
	r.ask(d, post("/runtime/commands/submit_turn", `{"command_id":"b","text":"x"}`)).is(t, "a turn of a stopped agent",
		409, "stopped", "agent_id")
}
