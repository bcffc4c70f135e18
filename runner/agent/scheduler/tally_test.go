package scheduler_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"holon/responses/turns"
	"holon/runner/agent/record"
	"holon/runner/agent/scheduler"
	"holon/state/ledger"
	"holon/test/expect"
)

// tell has the container of alpha tell facts of its turn, each with a payload.
func (w *world) tell(attempt string, facts ...string) {
	w.t.Helper()
	var did []scheduler.Progress
	for i := 0; i < len(facts); i += 2 {
		did = append(did, scheduler.Progress{Event: ledger.Event{Class: facts[i], ProducerSeq: int64(i + 1),
			Data: json.RawMessage(facts[i+1])}})
	}
	w.must(w.m.Progress(w.ctx, attempt, scheduler.Through{Facts: int64(len(facts))}, did))
}

// What turns took, compacted and used is the sum of their facts. Facts with wrong payloads count for nothing.
func TestTalliesOfFacts(t *testing.T) {
	w := open(t)
	used := func(id string) string {
		return fmt.Sprintf(`{"skill_id":%q,"name":"x","activation_state":"odd","entrypoint_path":"/s/SKILL.md"}`, id)
	}
	turn := func(broken bool, facts ...string) {
		t.Helper()
		w.admit(prompt("go"))
		w.must(w.begin("alpha", false))
		a, _ := w.openAttempt("alpha")
		w.tell(a.ID, facts...)
		w.must(w.finish("alpha", broken))
	}
	turn(false,
		turns.ContextResolved, `{"skills":["agent/a","agent/b"],"active_skills":[]}`,
		turns.ContextCompacted, `{"summarized_items":7}`, turns.ContextCompacted, `{"summarized_items":-7}`,
		turns.ModelCompleted, `{"duration_ms":30,"provider_attempt":{"context_build_ms":5}}`,
		turns.ModelFailed, `{"duration_ms":10}`, turns.ModelFailed, `{"duration_ms":"long"}`,
		turns.ToolResult, `{"tool_name":"ExecCommand","duration_ms":4}`,
		turns.ToolFailed, `{"tool_name":"ExecCommand","duration_ms":2}`, turns.ToolResult, `{"duration_ms":-3}`,
		turns.SkillActivated, used("agent/a"), turns.SkillActivated, `{"skill_id":3}`)
	s := w.state()
	expect.Equal(t, "compactions", s.Totals.Compactions, int64(2))
	expect.Equal(t, "compacted messages", s.Totals.CompactedMessages, int64(1))
	expect.Equal(t, "tools", fmt.Sprint(s.Totals.Tools), "[{ExecCommand 2 6}]")
	expect.Equal(t, "available", fmt.Sprint(s.Skills.Available), "[agent/a agent/b]")
	last := get(w, func(v ledger.View, id string) (ledger.Turn, error) {
		list, err := v.Turns(id, 1)
		return list[0], err
	}, "alpha")
	expect.Equal(t, "timing", last.Timing, ledger.Timing{ContextBuildMS: 5, ProviderMS: 40, ToolMS: 6})

	active := func() (out string) {
		for _, k := range w.state().Skills.Active {
			out += k.SkillID + " " + k.ActivationState + ";"
		}
		return out
	}
	expect.Equal(t, "after a completed turn", active(), "agent/a session_active;")
	turn(true, turns.ContextResolved, `{"active_skills":["agent/a restored","agent/a stolen"]}`,
		turns.SkillActivated, used("agent/b"))
	expect.Equal(t, "after a failed turn", active(), "agent/a restored;")
	turn(true, turns.SkillActivated, used("agent/a"))
	expect.Equal(t, "used again in a failed turn", active(), "agent/a session_active;")
}

// Events of work items, tasks and notifications say where they came from, also where no message is theirs.
func TestProvenanceOfWorkAndTasks(t *testing.T) {
	w := open(t)
	task := w.makeTask("alpha", "build it")
	from := w.newest("task.accepted").From
	expect.Equal(t, "a task of the operator", *from, ledger.Provenance{TaskID: task.ID,
		Origin: ledger.Origin{Kind: ledger.OriginOperator}, Trust: ledger.TrustedOperator,
		Authority: ledger.OperatorInstruction})
	item := func(ctx context.Context, key string) (ledger.WorkItem, ledger.Provenance) {
		made, _, err := w.m.CreateWork(ctx, scheduler.NewWork{AgentID: "alpha", Key: key, Objective: "tidy up"})
		expect.NoError(t, err)
		return made, *w.newest("task.accepted").From
	}
	made, got := item(w.ctx, "one")
	expect.Equal(t, "an item", got, ledger.Provenance{WorkItemID: made.ID})
	operator := scheduler.Operating(w.ctx, "ann", ledger.SurfaceControlPrompt, ledger.ControlAuthenticated)
	made, got = item(operator, "by ann")
	by := ledger.Provenance{Origin: ledger.Origin{Kind: ledger.OriginOperator, ActorID: "ann"},
		Trust: ledger.TrustedOperator, Authority: ledger.OperatorInstruction, Surface: ledger.SurfaceControlPrompt,
		AdmissionContext: ledger.ControlAuthenticated, WorkItemID: made.ID}
	expect.Equal(t, "an item of the operator", got, by)
	needs := ledger.PlanNeedsInput
	_, err := w.m.UpdateWork(operator, "alpha", made.ID, "key", scheduler.WorkChange{PlanStatus: &needs})
	expect.NoError(t, err)
	expect.Equal(t, "an action", *w.newest(record.ActionRequired).From, by)
	expect.Equal(t, "its notification", *w.newest(record.NotificationRequested).From, by)
	_, err = w.m.PickWork(operator, "alpha", made.ID, "key_2")
	expect.NoError(t, err)
	expect.Equal(t, "picked", *w.newest(record.WorkItemPicked).From, by)
	_, err = w.m.CompleteWork(operator, "alpha", made.ID, "key_3", nil)
	expect.NoError(t, err)
	expect.Equal(t, "completed", *w.newest(record.WorkItemCompleted).From, by)
	expect.Equal(t, "released", *w.newest(record.WorkItemReleased).From, by)
	c := w.working()
	w.tell(c.Attempt.ID, turns.ToolStarted, `{"call_id":"call_1","tool_name":"CreateWorkItem"}`)
	ctx := w.m.Calling(w.ctx, "alpha", c.Attempt.TurnID+"/call_1")
	made, got = item(ctx, "two")
	want := *w.newest(record.MessageStarted).From
	want.WorkItemID = made.ID
	expect.Equal(t, "an item of a call", got, want)
	expect.Equal(t, "its origin", got.Origin.Kind, ledger.OriginOperator)
	expect.NoError(t, w.m.Notify(ctx, "alpha", "a question"))
	want.WorkItemID, want.CausationID = "", c.Message.ID
	expect.Equal(t, "a notification of a turn", *w.newest(record.NotificationRequested).From, want)
	w.settle(c.Attempt.ID, scheduler.End{Turn: ledger.Turn{Kind: ledger.TurnCompleted}})
	expect.NoError(t, w.m.Notify(w.ctx, "alpha", "news"))
	expect.Equal(t, "one of the runtime", w.newest(record.NotificationRequested).From.Origin.Kind, ledger.OriginSystem)
}
