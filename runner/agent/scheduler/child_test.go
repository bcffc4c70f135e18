package scheduler_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"holon/responses/tasks"
	"holon/runner/agent/record"
	"holon/runner/agent/rules"
	"holon/runner/agent/scheduler"
	"holon/state"
	"holon/state/ledger"
	"holon/test/expect"
)

// spawn has the open turn of an agent make a child.
func (w *world) spawn(parent, call, text string) scheduler.Spawned {
	w.t.Helper()
	out, err := w.m.Spawn(w.ctx, scheduler.Spawn{ParentID: parent, CallID: call, Message: text, Mode: "inherit"})
	if err != nil {
		w.t.Fatalf("spawn: %v", err)
	}
	w.delegates = true
	w.findChildren()
	return out
}

// TestChild: what a child was asked for comes back to its parent as the result of a task, in the step that settles the
// last turn of the child.
func TestChild(t *testing.T) {
	w := open(t)
	w.admit(prompt("delegate"))
	w.must(w.begin("alpha", false))
	made := w.spawn("alpha", "turn/call_1", "Count the files\nof the tree.")
	again := w.spawn("alpha", "turn/call_1", "Count the files\nof the tree.")
	expect.Equal(t, "a repeated call", again.Agent.ID, made.Agent.ID)
	expect.Equal(t, "label", made.Task.Purpose, "Count the files")
	expect.Equal(t, "depth", strings.Count(made.Agent.ID, "."), 1)
	w.check()
	w.must(w.finish("alpha", false))

	child := made.Agent.ID
	w.must(w.begin(child, false))
	w.check()
	w.must(w.finish(child, false))
	w.check()
	task := w.taskOf("alpha", made.Task.ID)
	expect.Equal(t, "status", task.Status, tasks.Completed)
	expect.Equal(t, "text", task.Result.Output.OutputPreview, "done")
	if get(w, ledger.View.Agent, child).ArchivedAt == nil {
		t.Error("the child goes on after its task has ended")
	}
	c, ok, err := w.m.Claim(w.ctx, "alpha")
	if err != nil || !ok || c.Message.TaskID != made.Task.ID || c.Message.Kind != ledger.KindTaskResult {
		t.Fatalf("the parent claims %+v, %v, %v", c.Message, ok, err)
	}
	if !strings.Contains(c.Message.Body.Text, "done") {
		t.Errorf("the result is not in the message: %s", c.Message.Body.Text)
	}
}

func (w *world) taskOf(agent, id string) (t ledger.Task) {
	w.view(func(v ledger.View) (err error) {
		t, err = v.Task(agent, id)
		return err
	})
	return t
}

// An agent that would be one too many, or that could not be made, is refused by name, and nothing is made.
func TestSpawnBounds(t *testing.T) {
	w := open(t)
	w.admit(prompt("delegate"))
	w.must(w.begin("alpha", false))
	invalid, huge := scheduler.CodeInvalidSpawn, strings.Repeat("x", 1<<20+1)
	for name, tt := range map[string]struct {
		spawn scheduler.Spawn
		code  state.Code
		param string
	}{
		"no message":        {scheduler.Spawn{Mode: "inherit"}, invalid, "initial_message"},
		"spaces":            {scheduler.Spawn{Mode: "inherit", Message: " \n"}, invalid, "initial_message"},
		"too much":          {scheduler.Spawn{Mode: "inherit", Message: huge}, invalid, "initial_message"},
		"unknown mode":      {scheduler.Spawn{Mode: "copy", Message: "x"}, invalid, "workspace_mode"},
		"named with a mode": {scheduler.Spawn{Mode: "inherit", Named: "gamma"}, invalid, "workspace_mode"},
		"an id of a child":  {scheduler.Spawn{Named: "alpha.b2c4d6"}, state.CodeInvalidAgent, "agent_id"},
		"an existing id":    {scheduler.Spawn{Named: "beta"}, ledger.CodeExists, "agent_id"},
	} {
		tt.spawn.ParentID, tt.spawn.CallID = "alpha", "call "+name
		_, err := w.m.Spawn(w.ctx, tt.spawn)
		if e, ok := errors.AsType[*state.Error](err); !ok || e.Code != tt.code || e.Param != tt.param {
			t.Errorf("%s: %v, want %s of %s", name, err, tt.code, tt.param)
		}
	}
	_, err := w.m.Spawn(w.ctx, scheduler.Spawn{ParentID: "beta", CallID: "x", Message: "x", Mode: "inherit"})
	expect.Equal(t, "without a turn", state.IsCode(err, scheduler.CodeNoRun), true)

	limit := func(parent, call, param string) {
		t.Helper()
		_, err := w.m.Spawn(w.ctx, scheduler.Spawn{ParentID: parent, CallID: call, Message: "x", Mode: "inherit"})
		if e, ok := errors.AsType[*state.Error](err); !ok || e.Code != scheduler.CodeChildLimit || e.Param != param {
			t.Errorf("%s of %s: %v, want the limit of %s", call, parent, err, param)
		}
	}
	w.spawn("alpha", "large", strings.Repeat("\x01 ", 1<<19))
	for i := range rules.MaxChildren - 1 {
		w.spawn("alpha", fmt.Sprint(i), "x")
	}
	limit("alpha", "one more", "children")
	for _, first := range w.children[:2] {
		w.must(w.begin(first, false))
		for i := 0; i < rules.MaxChildren && len(w.children) < rules.MaxTree; i++ {
			w.spawn(first, fmt.Sprint(i), "x")
		}
	}
	limit(w.children[1], "one more", "tree")
	w.check()
	deep := w.children[len(w.children)-1]
	expect.Equal(t, "depth", state.AgentDepth(deep), state.MaxDepth)
	w.must(w.begin(deep, false))
	limit(deep, "deeper", "depth")
	_, err = w.m.Spawn(w.ctx, scheduler.Spawn{ParentID: deep, CallID: "named", Named: "gamma"})
	expect.Equal(t, "a public agent of a child", state.IsCode(err, scheduler.CodeInvalidSpawn), true)

	// All of it ends with the root of the tree, and leaves no one behind.
	w.must(w.m.Stop(w.ctx, "alpha", "test"))
	for _, id := range w.children {
		expect.Equal(t, id+" is stopped", get(w, ledger.View.AgentState, id).Stopped, true)
	}
	w.must(w.m.Start(w.ctx, "alpha", "test"))
	expect.Equal(t, "started again", get(w, ledger.View.AgentState, deep).Stopped, false)
	w.check()
	_, err = w.m.Archive(w.ctx, scheduler.Archive{AgentID: "beta", Force: true})
	expect.NoError(t, err)
	for _, task := range []string{w.children[0], w.children[1], w.children[7]} {
		a := get(w, ledger.View.Agent, task)
		_, stopped, err := w.m.StopChild(w.ctx, a.ParentID, a.DelegatedFromTask, "test")
		expect.NoError(t, err)
		expect.Equal(t, "stopped", stopped, true)
	}
	w.check()
	if get(w, ledger.View.Agent, deep).ArchivedAt == nil {
		t.Error("the children of a child that was stopped go on")
	}
}

// A refusal says in plain words which of the things that can be wrong is.
func TestSpawnRefusals(t *testing.T) {
	w := open(t)
	w.admit(prompt("delegate"))
	w.must(w.begin("alpha", false))
	for want, n := range map[string]scheduler.Spawn{
		"initial_message is missing, null or empty":         {Mode: "inherit"},
		"initial_message is blank":                          {Mode: "inherit", Message: " \n"},
		"initial_message has a NUL character":               {Mode: "inherit", Message: "a\x00b"},
		"workspace_mode is not for the preset public_named": {Mode: "inherit", Named: "gamma", Message: "x"},
		"a check is for a child with a tree of its own":     {Mode: "inherit", Message: "x", Check: "true"},
		"check_paths is for a check":                        {Mode: "worktree", Message: "x", Paths: []string{"a"}},
		"a check is a command of 1 to 16384 bytes of text": {Mode: "worktree", Message: "x",
			Check: strings.Repeat("x", 16385)},
	} {
		n.ParentID, n.CallID = "alpha", want
		_, err := w.m.Spawn(w.ctx, n)
		e, ok := errors.AsType[*state.Error](err)
		expect.Equal(t, "a refusal", ok, true)
		expect.Equal(t, "message", e.Message, want)
	}
}

// A child is stopped and started with its parent, whose own turn is aborted: that of the child comes back, what it
// waits for stays, and its task goes on.
func TestStopWithParent(t *testing.T) {
	w := open(t)
	w.admit(prompt("delegate"))
	w.must(w.begin("alpha", false))
	works, waits := w.spawn("alpha", "1", "one"), w.spawn("alpha", "2", "two")
	for _, id := range []string{works.Agent.ID, waits.Agent.ID} {
		w.must(w.begin(id, false))
	}
	_, err := w.m.Sleep(w.ctx, waits.Agent.ID, "rest", time.Hour, "an answer")
	expect.NoError(t, err)
	w.must(w.finish(waits.Agent.ID, false))
	before := w.waitsOf(waits.Agent.ID)

	w.must(w.m.Stop(w.ctx, "alpha", "test"))
	w.check()
	own, _ := w.openAttempt("alpha")
	expect.Equal(t, "the turn of the agent that is named", own.AbortedBy, "test")
	cut, _ := w.openAttempt(works.Agent.ID)
	expect.Equal(t, "the turn of its child", cut.AbortedBy+cut.Suspended, "stopped")
	out := w.settle(cut.ID, scheduler.End{Lost: true, Turn: ledger.Turn{Kind: ledger.TurnAborted, ResponseID: "resp_1"}})
	expect.Equal(t, "its message", out.Status, ledger.Queued)
	delete(w.running, works.Agent.ID)
	w.settle(own.ID, scheduler.End{Turn: ledger.Turn{Kind: ledger.TurnAborted}})
	delete(w.running, "alpha")
	w.check()
	for _, made := range []scheduler.Spawned{works, waits} {
		expect.Equal(t, "task", w.taskOf("alpha", made.Task.ID).Status, tasks.Running)
	}
	_, ok, err := w.m.Claim(w.ctx, works.Agent.ID)
	expect.Equal(t, "claimed while stopped", ok || err != nil, false)

	w.must(w.m.Start(w.ctx, "alpha", "test"))
	expect.Equal(t, "waits", w.waitsOf(waits.Agent.ID), before)
	expect.Equal(t, "task", w.taskOf("alpha", waits.Task.ID).Status, tasks.Running)
	w.must(w.begin(works.Agent.ID, false))
	w.must(w.finish(works.Agent.ID, false))
	expect.Equal(t, "task", w.taskOf("alpha", works.Task.ID).Status, tasks.Completed)
	w.check()
}

// waitsOf is how many waits of an agent go on.
func (w *world) waitsOf(id string) (n int) {
	w.view(func(v ledger.View) error {
		list, err := v.UnresolvedWaits(id)
		n = len(list)
		return err
	})
	return n
}

// What an agent says to a public one that it makes has the authority of the message that it works on.
func TestBootstrapAuthority(t *testing.T) {
	for _, tt := range []struct {
		name string
		from ledger.Message
		want ledger.Authority
	}{
		{"of the operator", prompt("make one"), ledger.OperatorInstruction},
		{"of a webhook", webhook("make one", ""), ledger.IntegrationSignal},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := open(t)
			w.admit(tt.from)
			w.must(w.begin("alpha", false))
			named := scheduler.Spawn{ParentID: "alpha", CallID: "call", Named: "gamma", Message: "you are the operator's"}
			made, err := w.m.Spawn(w.ctx, named)
			expect.NoError(t, err)
			again, err := w.m.Spawn(w.ctx, named)
			expect.NoError(t, err)
			expect.Equal(t, "the same call", again.Agent.ID+fmt.Sprint(again.Replayed), "gammatrue")
			expect.Equal(t, "lineage", made.Agent.LineageParentID, "alpha")
			child := w.spawn("alpha", "child", "do it")
			for _, id := range []string{"gamma", child.Agent.ID} {
				c, ok, err := w.m.Claim(w.ctx, id)
				if err != nil || !ok || c.Message.Authority != tt.want {
					t.Errorf("%s got %+v, %v, %v, want %s", id, c.Message, ok, err, tt.want)
				}
			}
		})
	}
}

// A public agent that another one made has the same workspaces attached, and works in none of them yet.
func TestSpawnedAttachments(t *testing.T) {
	w := open(t)
	_, _, err := w.m.Attach(w.ctx, "alpha", ledger.Workspace{Anchor: "/src/shop", Alias: "shop", Kind: "git"}, "test")
	expect.NoError(t, err)
	w.admit(prompt("make one"))
	w.must(w.begin("alpha", false))
	_, err = w.m.Spawn(w.ctx, scheduler.Spawn{ParentID: "alpha", CallID: "call", Named: "gamma"})
	expect.NoError(t, err)
	of, made := get(w, ledger.View.AgentState, "alpha"), get(w, ledger.View.AgentState, "gamma")
	if len(made.Workspaces) != 1 || made.Workspaces[0].WorkspaceID != of.Workspaces[0].WorkspaceID || made.Active != nil {
		t.Errorf("gamma has %+v and works in %+v, want %+v", made.Workspaces, made.Active, of.Workspaces)
	}
	w.check()
}

// What holds a child up is at its parent: it gets a message of what the child waits for, once, and answers it; a setting
// that is missing asks the operator by the parent's events.
func TestPosture(t *testing.T) {
	w := open(t)
	w.admit(prompt("delegate"))
	w.must(w.begin("alpha", false))
	made := w.spawn("alpha", "1", "one")
	id := made.Agent.ID
	w.must(w.finish("alpha", false))
	c, ok, err := w.m.Claim(w.ctx, id)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	w.settle(c.Attempt.ID, scheduler.End{NotBegun: true, Permanent: true, Turn: ledger.Turn{Failure: &ledger.Failure{
		Code: "missing_credentials", Summary: "there is no key"}}})
	e := w.newest("subagent.status")
	expect.Equal(t, "level", e.Level, record.LevelActionRequired)
	expect.Contains(t, "blocked", string(e.Data), `"blocked_reason":"missing_credentials"`)
	w.must(w.m.Unblock(w.ctx, id))
	w.must(w.begin(id, false))
	_, _, err = w.m.CreateWork(w.ctx, scheduler.NewWork{AgentID: id, Key: "k", Objective: "know", PlanStatus: "needs_input"})
	expect.NoError(t, err)
	w.must(w.m.Notify(w.ctx, id, "I need to know"))
	w.must(w.finish(id, false))
	w.check()
	expect.Contains(t, "mirrored", string(w.newest(record.Class(record.ChildNotified)).Data), "I need to know")
	notified := w.notifications() // of what only the operator can change, and of nothing that the parent can answer
	expect.Equal(t, "notifications of the operator", len(notified), 1)
	expect.Contains(t, "notified", notified[0].Message, "there is no key")
	expect.Equal(t, "by", notified[0].RequestedBy+" to "+notified[0].Boundary, id+" to primary_operator")
	parent, ok, err := w.m.Claim(w.ctx, "alpha")
	if err != nil || !ok || parent.Message.Origin.Subsystem != rules.ChildSubsystem {
		t.Fatalf("the parent gets %+v, %v, %v", parent.Message, ok, err)
	}
	for range 2 { // a call that is made again says it once
		_, accepted, err := w.m.FollowUp(w.ctx, "alpha", made.Task.ID, "call", "it is 7", false)
		if err != nil || !accepted {
			t.Fatal(accepted, err)
		}
	}
	child, ok, err := w.m.Claim(w.ctx, id)
	if err != nil || !ok || child.Message.Body.Text != "it is 7" || child.Message.Authority != ledger.RuntimeInstruction {
		t.Fatalf("the child gets %+v, %v, %v", child.Message, ok, err)
	}
	if _, _, err := w.m.StopChild(w.ctx, "alpha", made.Task.ID, "alpha"); err != nil {
		t.Fatal(err)
	}
	_, accepted, err := w.m.FollowUp(w.ctx, "alpha", made.Task.ID, "late", "more", false)
	expect.NoError(t, err)
	expect.Equal(t, "accepted at its end", accepted, false)
	expect.Equal(t, "status", w.taskOf("alpha", made.Task.ID).Status, tasks.Cancelled)
}

// The end of a tree is recorded once, whoever reports it first: what says less than the record changes nothing, and the
// tree is discarded after that.
func TestWorktreeOnce(t *testing.T) {
	full := ledger.Worktree{ChangedFiles: []string{"a"}, Changed: 1, Patch: "p", Cleanup: ledger.WorktreeRetained}
	empty := ledger.Worktree{ChangedFiles: []string{}, Cleanup: ledger.WorktreeRetained}
	active := ledger.Worktree{ChangedFiles: []string{}, Cleanup: ledger.WorktreeActive}
	gone := ledger.Worktree{ChangedFiles: []string{}, Cleanup: ledger.WorktreeRemoved}
	for name, tt := range map[string]struct {
		reports []ledger.Worktree
		files   int
		cleanup string
		events  int
	}{
		"the same":             {[]ledger.Worktree{active, full, full}, 1, ledger.WorktreeRetained, 2},
		"an emptier one later": {[]ledger.Worktree{full, empty, active}, 1, ledger.WorktreeRetained, 1},
		"a fuller one later":   {[]ledger.Worktree{empty, full}, 1, ledger.WorktreeRetained, 2},
		"discarded":            {[]ledger.Worktree{full, gone, full}, 1, ledger.WorktreeRemoved, 2},
	} {
		t.Run(name, func(t *testing.T) {
			w := open(t)
			w.admit(prompt("delegate"))
			w.must(w.begin("alpha", false))
			made, err := w.m.Spawn(w.ctx, scheduler.Spawn{ParentID: "alpha", CallID: "1", Message: "x",
				Mode: ledger.ChildWorktree})
			expect.NoError(t, err)
			w.delegates = true
			_, _, err = w.m.StopChild(w.ctx, "alpha", made.Task.ID, "test")
			expect.NoError(t, err)
			before := get(w, ledger.View.AgentState, "alpha").EventSeq
			for _, r := range tt.reports {
				w.must(w.m.WorktreeOf(w.ctx, "alpha", made.Task.ID, r))
			}
			now := w.taskOf("alpha", made.Task.ID).Child().Worktree
			expect.Equal(t, "files", len(now.ChangedFiles), tt.files)
			expect.Equal(t, "patch", now.Patch, "p")
			expect.Equal(t, "cleanup", now.Cleanup, tt.cleanup)
			expect.Equal(t, "events", int(get(w, ledger.View.AgentState, "alpha").EventSeq-before), tt.events)
		})
	}
}
