package control_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"holon/responses/tasks"
	"holon/runner/agent/scheduler"
	"holon/runner/control"
	"holon/runner/control/wire"
	"holon/state/ledger"
	"holon/test/expect"
)

// removedAgent makes the agent gone with one thing of each kind, and removes it. It returns the ids of the things.
func (r *rig) removedAgent() (ids map[string]string) {
	r.t.Helper()
	ctx, ids := r.t.Context(), make(map[string]string)
	check := func(err error) {
		r.t.Helper()
		expect.NoError(r.t, err)
	}
	_, err := r.machine.Create(ctx, scheduler.NewAgent{ID: "gone"})
	check(err)
	work, _, err := r.machine.CreateWork(ctx, scheduler.NewWork{AgentID: "gone", Key: "k", Objective: "Look."})
	check(err)
	task, _, err := r.machine.CreateTask(ctx, scheduler.NewTask{AgentID: "gone", Start: tasks.Start{Cmd: "true"}})
	check(err)
	check(r.machine.EndTask(ctx, "gone", task.ID, ledger.TaskNotStarted, "stopped by a test"))
	timer, _, err := r.machine.CreateTimer(ctx, scheduler.NewTimer{AgentID: "gone", After: time.Hour})
	check(err)
	r.say("gone", "Look.", "")
	r.look(func(v ledger.View) error {
		e, _, err := v.Head("gone")
		ids["message"] = e.MessageID
		return err
	})
	_, err = r.machine.Archive(ctx, scheduler.Archive{AgentID: "gone", By: "operator"})
	check(err)
	ids["work"], ids["task"], ids["timer"] = work.ID, task.ID, timer.ID
	return ids
}

// A command that would change an agent that was removed is refused alike, whatever it names, also what is not there and
// what would need no change. What only reads it is carried out.
func TestCommandsOfARemovedAgent(t *testing.T) {
	t.Parallel()
	r := newRig(t, control.Limits{}, tcp())
	d, ids := r.described(), r.removedAgent()
	for _, c := range []struct{ name, fields string }{
		{"submit_turn", `"text":"Look."`}, {"submit_turn", `"text":" "`},
		{"interrupt_turn", `"turn_id":"turn_none"`}, {"interrupt_turn", ``}, {"resume_thread", ``},
		{"create_task", `"objective":"Look."`}, {"create_task", `"cmd":"true"`}, {"create_task", ``},
		{"update_task", `"objective":"x","task_id":"work_none"`}, {"update_task", `"objective":"x","task_id":"WORK"`},
		{"start_task", `"task_id":"work_none"`}, {"start_task", `"task_id":"WORK"`},
		{"complete_task", `"task_id":"work_none"`}, {"complete_task", `"task_id":"WORK"`}, {"complete_task", ``},
		{"cancel_task", `"task_id":"task_none"`}, {"cancel_task", `"task_id":"TASK"`}, {"cancel_task", `"task_id":"WORK"`},
		{"remove_queued_turn", `"queued_turn_id":"msg_none"`}, {"remove_queued_turn", `"queued_turn_id":"MESSAGE"`},
	} {
		fields := strings.NewReplacer("WORK", ids["work"], "TASK", ids["task"], "MESSAGE", ids["message"]).Replace(c.fields)
		body := strings.TrimSuffix(fmt.Sprintf(`{"command_id":"c","agent_id":"gone",%s`, fields), ",") + "}"
		r.ask(d, post("/runtime/commands/"+c.name, body)).is(t, c.name+" "+c.fields, 409, "stopped", "agent_id")
	}
	for _, name := range []string{"get_capabilities", "export_evidence"} {
		if a := r.ask(d, post("/runtime/commands/"+name, `{"command_id":"r_`+name+`","agent_id":"gone"}`)); a.status != 200 {
			t.Errorf("%s of an agent that was removed is answered %d %s, want 200", name, a.status, a.body)
		}
	}
}

// Removing an agent ends its tasks and its container; a dry run does not.
func TestRemovingRetires(t *testing.T) {
	t.Parallel()
	r := newRig(t, control.Limits{}, tcp())
	c := r.client()
	createWorker(t, r, c)
	must(c.Archive(t.Context(), "worker", wire.Archive{DryRun: true}))(t)
	if id := r.host.retired.Load(); id != nil {
		t.Errorf("a dry run retires %s", *id)
	}
	must(c.Archive(t.Context(), "worker", wire.Archive{Force: true}))(t)
	if id := r.host.retired.Load(); id == nil || *id != "worker" {
		t.Errorf("the agent that is retired is %v, want worker", id)
	}
}

// A route that would change an agent that was removed refuses it alike, whatever it names.
func TestRoutesOfARemovedAgent(t *testing.T) {
	t.Parallel()
	r := newRig(t, control.Limits{}, tcp())
	d, ids := r.described(), r.removedAgent()
	ask := func(method, path, body string) {
		t.Helper()
		q := request{method: method, path: "/control/agents/gone" + path, body: body}
		r.ask(d, q).is(t, method+" "+path, 409, string(scheduler.CodeAgentArchived), "agent_id")
	}
	for kind, paths := range map[string][]string{
		"work":  {"POST /work-items/%s/pick", "POST /work-items/%s/complete", "POST /work-items/%s/block"},
		"task":  {"POST /tasks/%s/stop", "POST /tasks/%s/input"},
		"timer": {"DELETE /timers/%s"}, "message": {"DELETE /queue/%s"},
	} {
		for _, route := range paths {
			for _, id := range []string{ids[kind], kind + "_none"} {
				method, path, _ := strings.Cut(fmt.Sprintf(route, id), " ")
				ask(method, path, map[string]string{"input": `{"input":"x"}`, "block": `{"blocked_by":"x"}`}[path[strings.LastIndex(path, "/")+1:]])
			}
		}
	}
	for path, body := range map[string]string{
		"/prompt": `{"text":"Look."}`, "/wake": `{"reason":"look"}`, "/timers": `{"duration_ms":1}`,
		"/work-items": `{"objective":"Look."}`, "/tasks": `{"cmd":"true"}`, "/archive": ``,
		"/control": `{"action":"stop","with_tasks":true}`, "/current-run/abort": ``,
		"/model": `{"model":"nowhere/x"}`, "/model/clear": ``, "/image": `{"image":"nope"}`,
		"/debug-prompt": `{"text":"Look."}`, "/trigger": ``, "/trigger/rotate": ``, "/trigger/revoke": ``,
	} {
		ask(http.MethodPost, path, body)
	}
}
