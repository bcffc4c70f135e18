package control_test

import (
	"net/http"
	"strings"
	"testing"

	"holon/responses/tasks"
	"holon/runner/agent/scheduler"
	"holon/runner/control"
	"holon/runner/control/wire"
	"holon/state/ledger"
	"holon/test/expect"
)

// A private child is in no listing, takes nothing of an operator, and is shown to debugging through the local socket
// alone. Its parent shows it.
func TestPrivateChildren(t *testing.T) {
	t.Parallel()
	r := newRig(t, control.Limits{}, tcp())
	c, ctx := r.client(), t.Context()
	must(c.Prompt(ctx, "main", wire.Prompt{Text: "delegate"}, ""))(t)
	_, ok, err := r.machine.Claim(ctx, "main")
	expect.NoError(t, err)
	expect.Equal(t, "a turn", ok, true)
	made := must(r.machine.Spawn(ctx, scheduler.Spawn{ParentID: "main", CallID: "call", Message: "count", Mode: "inherit"}))(t)
	child := made.Agent.ID

	for path, debugs := range map[string]bool{"/agents/ID/transcript": true, "/agents/ID/events": true,
		"/agents/ID/briefs": true, "/runtime/events?agent_id=ID": true, "/runtime/export/replay?agent_id=ID": true,
		"/runtime/read/session_snapshot?agent_id=ID": true, "/agents/ID/status": false, "/agents/ID/state": false,
		"/agents/ID/tasks": false, "/agents/ID/queue": false, "/agents/ID/budget": false} {
		path = strings.ReplaceAll(path, "ID", child)
		want := http.StatusForbidden
		if debugs {
			want = http.StatusOK
		}
		resp, err := r.raw().Get("http://holon" + path)
		expect.NoError(t, err)
		resp.Body.Close()
		expect.Equal(t, "through the socket: "+path, resp.StatusCode, want)
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.addr+path, nil)
		expect.NoError(t, err)
		req.Header.Set("Authorization", "Bearer "+token)
		resp, err = http.DefaultClient.Do(req)
		expect.NoError(t, err)
		resp.Body.Close()
		expect.Equal(t, "through the port: "+path, resp.StatusCode, http.StatusForbidden)
	}
	_, err = c.Prompt(ctx, child, wire.Prompt{Text: "hello"}, "")
	refused(t, "a prompt", err, scheduler.CodeAgentPrivate)
	_, err = c.Control(ctx, child, wire.Control{Action: "stop"})
	refused(t, "a stop", err, scheduler.CodeAgentPrivate)
	_, err = c.Command(ctx, "submit_turn", wire.Command{CommandID: "c", AgentID: child, Text: "hello"})
	refused(t, "a command", err, scheduler.CodeAgentPrivate)
	_, err = c.Status(ctx, "main.zzzzzz")
	refused(t, "one that there is not", err, scheduler.CodeAgentPrivate)
	expect.Equal(t, "listed agents", len(must(c.Agents(ctx))(t)), 1)

	shown := must(c.Status(ctx, "main"))(t).ActiveChildren
	if len(shown) != 1 || shown[0].Identity.AgentID != child || shown[0].Phase != "running" || shown[0].Label != "count" {
		t.Errorf("its parent shows %+v", shown)
	}
	task := must(c.Task(ctx, "main", made.Task.ID))(t).Task
	if task.Kind != tasks.KindChild || task.ChildObservability == nil || task.ChildSupervision.ChildAgentID != child ||
		task.Command != nil {
		t.Errorf("its task is %+v", task)
	}
	_, _, err = r.machine.StopChild(ctx, "main", made.Task.ID, "test")
	expect.NoError(t, err)
	task = must(c.Task(ctx, "main", made.Task.ID))(t).Task
	expect.Equal(t, "phase at the end", task.ChildObservability.Phase, "terminal")
	expect.Equal(t, "children at the end", len(must(c.Status(ctx, "main"))(t).ActiveChildren), 0)
	expect.Equal(t, "the child", must(ledger.Read(ctx, r.store, func(v ledger.View) (ledger.Agent, error) {
		return v.Agent(child)
	}))(t).ArchivedAt != nil, true)
}
