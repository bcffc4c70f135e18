package control_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"holon/runner/agent/record"
	"holon/runner/agent/rules"
	"holon/runner/agent/scheduler"
	"holon/runner/agent/view"
	"holon/runner/control"
	"holon/runner/control/client"
	"holon/runner/control/wire"
	"holon/state"
	"holon/state/ledger"
	"holon/test/expect"
)

// An agent's life through the client: everything that is asked for is in the ledger, and is shown. The steps build on
// each other.
func TestThroughTheClient(t *testing.T) {
	t.Parallel()
	r := newRig(t, control.Limits{}, tcp())
	for _, step := range []struct {
		name string
		do   func(*testing.T, *rig, *client.Client)
	}{{"the runtime", askRuntime}, {"create", createWorker}, {"prompt and turn", promptWorker}, {"timer", timeWorker},
		{"work items", workWorker}, {"settings", setWorker}, {"stop and start", stopWorker}, {"abort", abortDefault}, {"end", endRuntime}} {
		if !t.Run(step.name, func(t *testing.T) { step.do(t, r, r.client()) }) {
			return
		}
	}
}

// refused expects an error with a code.
func refused(t *testing.T, what string, err error, code state.Code) {
	t.Helper()
	if !state.IsCode(err, code) {
		t.Errorf("%s: got the error %v, want the code %s", what, err, code)
	}
}

func askRuntime(t *testing.T, r *rig, c *client.Client) {
	ctx := t.Context()
	root := must(c.Root(ctx))(t)
	expect.Equal(t, "ok", root.OK, true)
	expect.Equal(t, "default agent", root.DefaultAgent, "main")
	hand := must(c.Handshake(ctx))(t)
	expect.Equal(t, "protocol", hand.Protocol.Name, "holon-control")
	expect.Equal(t, "authentication", hand.Auth.Required, false)
	expect.Equal(t, "epoch", hand.Runtime.EventLogEpoch, r.store.Epoch())
	models := must(c.Models(ctx))(t)
	expect.Equal(t, "default model", models.DefaultModel, "scripted/demo")
	expect.Equal(t, "models", len(models.Available), 1)
	expect.Equal(t, "ready", must(c.Readiness(ctx))(t).Ready, true)
}

func createWorker(t *testing.T, _ *rig, c *client.Client) {
	ctx := t.Context()
	made := must(c.Create(ctx, "worker", ""))(t)
	expect.Equal(t, "id", made.Identity.AgentID, "worker")
	expect.Equal(t, "kind", made.Identity.Kind, ledger.KindNamed)
	expect.Equal(t, "status", made.Agent.Status, "awake_idle")
	expect.Equal(t, "home", made.Identity.AgentHome, "/home/agents/worker")
	_, err := c.Create(ctx, "worker", "")
	refused(t, "the same agent again", err, ledger.CodeExists)
}

func promptWorker(t *testing.T, r *rig, c *client.Client) {
	ctx := t.Context()
	prompt := wire.Prompt{Text: "hello", Surface: "cli_prompt", CorrelationID: "corr"}
	sent := must(c.Prompt(ctx, "worker", prompt, "key-1"))(t)
	expect.Equal(t, "replayed", sent.Replayed, false)
	expect.Equal(t, "has an event", sent.EventSeq != 0, true)
	again := must(c.Prompt(ctx, "worker", prompt, "key-1"))(t)
	expect.Equal(t, "id under the same key", again.MessageID, sent.MessageID)
	expect.Equal(t, "replayed under the same key", again.Replayed, true)
	_, err := c.Prompt(ctx, "worker", wire.Prompt{Text: "other"}, "key-1")
	refused(t, "another message under the key", err, "idempotency_conflict")

	queued := must(c.Message(ctx, "worker", sent.MessageID))(t)
	expect.Equal(t, "status", queued.Entry.Status, ledger.Queued)
	expect.Equal(t, "turn", queued.Turn, nil)
	expect.Equal(t, "surface", queued.Message.Surface, ledger.SurfaceCLIPrompt)
	expect.Equal(t, "admission", queued.Message.AdmissionContext, ledger.LocalProcess)
	expect.Equal(t, "authority", queued.Message.Authority, ledger.OperatorInstruction)
	_, err = c.Message(ctx, "main", sent.MessageID)
	refused(t, "the message through another agent", err, ledger.CodeNotFound)

	r.turn("worker", "hi there")
	done := must(c.Message(ctx, "worker", sent.MessageID))(t)
	expect.Equal(t, "status after the turn", done.Entry.Status, ledger.Processed)
	if done.Turn == nil {
		t.Fatal("the message has no turn, want one")
	}
	expect.Equal(t, "answer", done.Turn.Last, "hi there")
	briefs := must(c.Briefs(ctx, "worker", 5))(t)
	expect.Equal(t, "briefs", len(briefs), 1)
	expect.Equal(t, "brief", briefs[0].Text, "hi there")
	expect.Equal(t, "first of the transcript", must(c.Transcript(ctx, "worker", 0))(t)[0].Kind, record.EntryMessage)
	turns := must(c.Latency(ctx, "worker", 0))(t).Turns
	expect.Equal(t, "turns", len(turns), 1)
	expect.Equal(t, "time of the turn", turns[0].TurnMS, 250)
	expect.Equal(t, "has a time to its begin", turns[0].BeginMS != nil, true)
	expect.Equal(t, "rounds", turns[0].ModelRounds, 2)
}

func timeWorker(t *testing.T, _ *rig, c *client.Client) {
	ctx := t.Context()
	look := wire.Timer{DurationMS: 1000, IntervalMS: 60_000, Summary: "look"}
	timer := must(c.CreateTimer(ctx, "worker", look, "once"))(t)
	expect.Equal(t, "repeat", timer.Repeat, true)
	expect.Equal(t, "status", timer.Status, ledger.TimerActive)
	expect.Equal(t, "replayed", timer.Replayed, false)
	again := must(c.CreateTimer(ctx, "worker", look, "once"))(t)
	expect.Equal(t, "the same key", again.ID, timer.ID)
	expect.Equal(t, "replayed under the same key", again.Replayed, true)
	_, err := c.CancelTimer(ctx, "main", timer.ID)
	refused(t, "a timer of another agent", err, ledger.CodeNotFound)
	expect.Equal(t, "cancelled", must(c.CancelTimer(ctx, "worker", timer.ID))(t).Status, ledger.TimerCancelled)
	expect.Equal(t, "wake", must(c.Wake(ctx, "worker", wire.Wake{Reason: "look"}))(t).Disposition, "triggered")
}

func workWorker(t *testing.T, _ *rig, c *client.Client) {
	ctx := t.Context()
	item := must(c.CreateWork(ctx, "worker", wire.WorkItem{Objective: "tidy up"}, "once"))(t)
	again := must(c.CreateWork(ctx, "worker", wire.WorkItem{Objective: "tidy up"}, "once"))(t)
	expect.Equal(t, "the same key", again.ID, item.ID)
	_, err := c.CreateWork(ctx, "worker", wire.WorkItem{Objective: "something else"}, "once")
	refused(t, "another item under the same key", err, scheduler.CodeKeyConflict)
	expect.Equal(t, "scheduling state", item.SchedulingState, rules.WorkRunnable)
	expect.Equal(t, "posture", must(c.Status(ctx, "worker"))(t).SchedulingPosture.Posture, "has_queued_input")
	expect.Equal(t, "current", must(c.PickWork(ctx, "worker", item.ID))(t).Current, true)
	_, err = c.PickWork(ctx, "main", item.ID)
	refused(t, "an item of another agent", err, ledger.CodeNotFound)
	_, err = c.CreateWork(ctx, "worker", wire.WorkItem{Objective: strings.Repeat("x", 5000)}, "")
	refused(t, "a long objective", err, scheduler.CodeInvalidWork)
	expect.Equal(t, "state", must(c.CompleteWork(ctx, "worker", item.ID))(t).State, ledger.WorkCompleted)
	_, err = c.PickWork(ctx, "worker", item.ID)
	refused(t, "a completed item", err, scheduler.CodeWorkCompleted)
	later := must(c.CreateWork(ctx, "worker", wire.WorkItem{Objective: "an old open one"}, ""))(t)
	for _, objective := range []string{"second", "third"} {
		done := must(c.CreateWork(ctx, "worker", wire.WorkItem{Objective: objective}, ""))(t)
		must(c.CompleteWork(ctx, "worker", done.ID))(t)
	}
	listed := must(c.WorkItems(ctx, "worker", 1))(t)
	expect.Equal(t, "items with one of the completed", len(listed), 2)
	expect.Equal(t, "the completed one", listed[0].Objective, "third")
	expect.Equal(t, "the open one", listed[1].ID, later.ID)
	must(c.CompleteWork(ctx, "worker", later.ID))(t)
	expect.Equal(t, "open items of the state", len(must(c.State(ctx, "worker"))(t).WorkItems), 0)
}

func setWorker(t *testing.T, _ *rig, c *client.Client) {
	ctx := t.Context()
	_, err := c.SetModel(ctx, "worker", wire.Model{Model: "nowhere/x", Force: true})
	refused(t, "a model that cannot be asked", err, wire.CodeInvalidValue)
	_, err = c.SetModel(ctx, "worker", wire.Model{Model: "keyless/x"})
	refused(t, "a model without a key", err, wire.CodeInvalidValue)
	must(c.SetModel(ctx, "worker", wire.Model{Model: "keyless/x", Force: true}))(t)
	set := must(c.SetModel(ctx, "worker", wire.Model{Model: "scripted/else", ReasoningEffort: "low"}))(t).Model
	expect.Equal(t, "model", set.EffectiveModel, "scripted/else")
	expect.Equal(t, "source of the model", set.Source, view.ModelOverride)
	cleared := must(c.ClearModel(ctx, "worker"))(t).Model
	expect.Equal(t, "model that was cleared", cleared.EffectiveModel, "scripted/demo")
	expect.Equal(t, "source of the model that was cleared", cleared.Source, view.ModelDefault)
	expect.Equal(t, "image", must(c.SetImage(ctx, "worker", "other:1"))(t).Image, "other:1")
	_, err = c.SetImage(ctx, "worker", "nope")
	refused(t, "an image that is not here", err, wire.CodeInvalidValue)
	expect.Equal(t, "image of the daemon", must(c.SetImage(ctx, "worker", ""))(t).Image, "")
	_, err = c.SetModel(ctx, "worker", wire.Model{Model: "scripted/else", ReasoningEffort: "bogus"})
	refused(t, "an effort that is none", err, scheduler.CodeInvalidAgent)
	most := 2
	expect.Equal(t, "budget", must(c.SetBudget(ctx, "worker", wire.Budget{MaxContainers: &most}))(t).MaxContainers, 2)
	expect.Equal(t, "budget that was set", must(c.Budget(ctx, "worker"))(t).MaxContainers, 2)
	most = -1
	_, err = c.SetBudget(ctx, "worker", wire.Budget{MaxContainers: &most})
	refused(t, "a budget below nothing", err, scheduler.CodeInvalidAgent)
	_, err = c.Budget(ctx, "worker.a1b2c3")
	refused(t, "a private child", err, scheduler.CodeAgentPrivate)
	expect.Equal(t, "debug prompt", string(must(c.DebugPrompt(ctx, "worker", "x"))(t)), `{"agent_id":"worker","text":"x"}`)
}

func stopWorker(t *testing.T, _ *rig, c *client.Client) {
	ctx := t.Context()
	expect.Equal(t, "action", must(c.Control(ctx, "worker", wire.Control{Action: "stop"}))(t).Action, "stop")
	_, err := c.Prompt(ctx, "worker", wire.Prompt{Text: "anyone?"}, "")
	refused(t, "a prompt to a stopped agent", err, "agent_stopped")
	if e, ok := errors.AsType[*state.Error](err); !ok || e.Hint == "" {
		t.Errorf("the refusal %#v has no hint", err)
	}
	status := must(c.Status(ctx, "worker"))(t)
	expect.Equal(t, "status", status.Agent.Status, "stopped")
	expect.Equal(t, "resume required", status.Lifecycle.ResumeRequired, true)
	expect.Equal(t, "has a hint to resume", status.Lifecycle.ResumeCLIHint != "", true)
	must(c.Control(ctx, "worker", wire.Control{Action: "start"}))(t)
	_, err = c.Abort(ctx, "worker", wire.Abort{})
	refused(t, "an abort without a run", err, "no_current_run")
}

func abortDefault(t *testing.T, r *rig, c *client.Client) {
	ctx := t.Context()
	must(c.Prompt(ctx, "", wire.Prompt{Text: "to the default agent"}, ""))(t)
	claim, _, err := r.machine.Claim(ctx, "main")
	expect.NoError(t, err)
	aborted := must(c.Abort(ctx, "", wire.Abort{Mode: "stop_after_abort"}))(t)
	expect.Equal(t, "aborted run", aborted.RunID, claim.Attempt.TurnID)
	expect.Equal(t, "mode", aborted.Mode, "stop_after_abort")
	list := must(c.Agents(ctx))(t)
	expect.Equal(t, "agents", len(list), 2)
	expect.Equal(t, "first agent", list[0].Identity.AgentID, "main")
	expect.Equal(t, "first agent is the default", list[0].Identity.IsDefaultAgent, true)
	expect.Equal(t, "status", list[0].Status, "awake_running")
	expect.Equal(t, "run", list[0].CurrentRunID, claim.Attempt.TurnID)
	runtime := must(c.RuntimeStatus(ctx))(t)
	expect.Equal(t, "healthy", runtime.Healthy, true)
	expect.Equal(t, "process", runtime.Runtime.PID, 42)
	expect.Equal(t, "activity", runtime.Activity.State, "processing")
	expect.Equal(t, "active agents", runtime.Activity.ActiveAgentCount, 2)
}

func endRuntime(t *testing.T, r *rig, c *client.Client) {
	if err := c.Shutdown(t.Context()); err != nil {
		t.Errorf("shutdown: %v", err)
	}
	expect.Equal(t, "ends", r.host.ended.Load(), 1)
	var doc map[string]json.RawMessage
	if err := json.Unmarshal(must(c.OpenAPI(t.Context()))(t), &doc); err != nil || doc["paths"] == nil {
		t.Errorf("the document has no paths (%v):\n%v", err, doc)
	}
}
