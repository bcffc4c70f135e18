package control_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"holon/runner/agent/rules"
	"holon/runner/agent/scheduler"
	"holon/runner/agent/view"
	"holon/runner/control"
	"holon/runner/control/client"
	"holon/runner/control/wire"
	"holon/state"
	"holon/state/ledger"
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

// check ends the test after an error.
func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// equal compares what the client returned with what was wanted.
func equal[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
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
	equal(t, "ok", root.OK, true)
	equal(t, "default agent", root.DefaultAgent, "main")
	hand := must(c.Handshake(ctx))(t)
	equal(t, "protocol", hand.Protocol.Name, "holon-control")
	equal(t, "authentication", hand.Auth.Required, false)
	equal(t, "epoch", hand.Runtime.EventLogEpoch, r.store.Epoch())
	models := must(c.Models(ctx))(t)
	equal(t, "default model", models.DefaultModel, "scripted/demo")
	equal(t, "models", len(models.Available), 1)
	equal(t, "ready", must(c.Readiness(ctx))(t).Ready, true)
}

func createWorker(t *testing.T, _ *rig, c *client.Client) {
	ctx := t.Context()
	made := must(c.Create(ctx, "worker", ""))(t)
	equal(t, "id", made.Identity.AgentID, "worker")
	equal(t, "kind", made.Identity.Kind, ledger.KindNamed)
	equal(t, "status", made.Agent.Status, "awake_idle")
	equal(t, "home", made.Identity.AgentHome, "/home/agents/worker")
	_, err := c.Create(ctx, "worker", "")
	refused(t, "the same agent again", err, ledger.CodeExists)
}

func promptWorker(t *testing.T, r *rig, c *client.Client) {
	ctx := t.Context()
	prompt := wire.Prompt{Text: "hello", Surface: "cli_prompt", CorrelationID: "corr"}
	sent := must(c.Prompt(ctx, "worker", prompt, "key-1"))(t)
	equal(t, "replayed", sent.Replayed, false)
	equal(t, "has an event", sent.EventSeq != 0, true)
	again := must(c.Prompt(ctx, "worker", prompt, "key-1"))(t)
	equal(t, "id under the same key", again.MessageID, sent.MessageID)
	equal(t, "replayed under the same key", again.Replayed, true)
	_, err := c.Prompt(ctx, "worker", wire.Prompt{Text: "other"}, "key-1")
	refused(t, "another message under the key", err, "idempotency_conflict")

	queued := must(c.Message(ctx, "worker", sent.MessageID))(t)
	equal(t, "status", queued.Entry.Status, ledger.Queued)
	equal(t, "turn", queued.Turn, nil)
	equal(t, "surface", queued.Message.Surface, ledger.SurfaceCLIPrompt)
	equal(t, "admission", queued.Message.AdmissionContext, ledger.LocalProcess)
	equal(t, "authority", queued.Message.Authority, ledger.OperatorInstruction)
	_, err = c.Message(ctx, "main", sent.MessageID)
	refused(t, "the message through another agent", err, ledger.CodeNotFound)

	r.turn("worker", "hi there")
	done := must(c.Message(ctx, "worker", sent.MessageID))(t)
	equal(t, "status after the turn", done.Entry.Status, ledger.Processed)
	if done.Turn == nil {
		t.Fatal("the message has no turn, want one")
	}
	equal(t, "answer", done.Turn.Last, "hi there")
	briefs := must(c.Briefs(ctx, "worker", 5))(t)
	equal(t, "briefs", len(briefs), 1)
	equal(t, "brief", briefs[0].Text, "hi there")
	equal(t, "first of the transcript", must(c.Transcript(ctx, "worker", 0))(t)[0].Kind, ledger.TranscriptMessage)
	turns := must(c.Latency(ctx, "worker", 0))(t).Turns
	equal(t, "turns", len(turns), 1)
	equal(t, "time of the turn", turns[0].TurnMS, 250)
	equal(t, "has a time to its begin", turns[0].BeginMS != nil, true)
	equal(t, "rounds", turns[0].ModelRounds, 2)
}

func timeWorker(t *testing.T, _ *rig, c *client.Client) {
	ctx := t.Context()
	look := wire.Timer{DurationMS: 1000, IntervalMS: 60_000, Summary: "look"}
	timer := must(c.CreateTimer(ctx, "worker", look, "once"))(t)
	equal(t, "repeat", timer.Repeat, true)
	equal(t, "status", timer.Status, ledger.TimerActive)
	equal(t, "replayed", timer.Replayed, false)
	again := must(c.CreateTimer(ctx, "worker", look, "once"))(t)
	equal(t, "the same key", again.ID, timer.ID)
	equal(t, "replayed under the same key", again.Replayed, true)
	_, err := c.CancelTimer(ctx, "main", timer.ID)
	refused(t, "a timer of another agent", err, ledger.CodeNotFound)
	equal(t, "cancelled", must(c.CancelTimer(ctx, "worker", timer.ID))(t).Status, ledger.TimerCancelled)
	equal(t, "wake", must(c.Wake(ctx, "worker", wire.Wake{Reason: "look"}))(t).Disposition, "triggered")
}

func workWorker(t *testing.T, _ *rig, c *client.Client) {
	ctx := t.Context()
	item := must(c.CreateWork(ctx, "worker", wire.WorkItem{Objective: "tidy up"}, "once"))(t)
	again := must(c.CreateWork(ctx, "worker", wire.WorkItem{Objective: "tidy up"}, "once"))(t)
	equal(t, "the same key", again.ID, item.ID)
	_, err := c.CreateWork(ctx, "worker", wire.WorkItem{Objective: "something else"}, "once")
	refused(t, "another item under the same key", err, scheduler.CodeKeyConflict)
	equal(t, "scheduling state", item.SchedulingState, rules.WorkRunnable)
	equal(t, "posture", must(c.Status(ctx, "worker"))(t).SchedulingPosture.Posture, "has_queued_input")
	equal(t, "current", must(c.PickWork(ctx, "worker", item.ID))(t).Current, true)
	_, err = c.PickWork(ctx, "main", item.ID)
	refused(t, "an item of another agent", err, ledger.CodeNotFound)
	_, err = c.CreateWork(ctx, "worker", wire.WorkItem{Objective: strings.Repeat("x", 5000)}, "")
	refused(t, "a long objective", err, scheduler.CodeInvalidWork)
	equal(t, "state", must(c.CompleteWork(ctx, "worker", item.ID))(t).State, ledger.WorkCompleted)
	_, err = c.PickWork(ctx, "worker", item.ID)
	refused(t, "a completed item", err, scheduler.CodeWorkCompleted)
	later := must(c.CreateWork(ctx, "worker", wire.WorkItem{Objective: "an old open one"}, ""))(t)
	for _, objective := range []string{"second", "third"} {
		done := must(c.CreateWork(ctx, "worker", wire.WorkItem{Objective: objective}, ""))(t)
		must(c.CompleteWork(ctx, "worker", done.ID))(t)
	}
	listed := must(c.WorkItems(ctx, "worker", 1))(t)
	equal(t, "items with one of the completed", len(listed), 2)
	equal(t, "the completed one", listed[0].Objective, "third")
	equal(t, "the open one", listed[1].ID, later.ID)
	must(c.CompleteWork(ctx, "worker", later.ID))(t)
	equal(t, "open items of the state", len(must(c.State(ctx, "worker"))(t).WorkItems), 0)
}

func setWorker(t *testing.T, _ *rig, c *client.Client) {
	ctx := t.Context()
	_, err := c.SetModel(ctx, "worker", wire.Model{Model: "nowhere/x", Force: true})
	refused(t, "a model that cannot be asked", err, wire.CodeInvalidValue)
	_, err = c.SetModel(ctx, "worker", wire.Model{Model: "keyless/x"})
	refused(t, "a model without a key", err, wire.CodeInvalidValue)
	must(c.SetModel(ctx, "worker", wire.Model{Model: "keyless/x", Force: true}))(t)
	set := must(c.SetModel(ctx, "worker", wire.Model{Model: "scripted/else", ReasoningEffort: "low"}))(t).Model
	equal(t, "model", set.EffectiveModel, "scripted/else")
	equal(t, "source of the model", set.Source, view.ModelOverride)
	cleared := must(c.ClearModel(ctx, "worker"))(t).Model
	equal(t, "model that was cleared", cleared.EffectiveModel, "scripted/demo")
	equal(t, "source of the model that was cleared", cleared.Source, view.ModelDefault)
	equal(t, "image", must(c.SetImage(ctx, "worker", "other:1"))(t).Image, "other:1")
	_, err = c.SetImage(ctx, "worker", "nope")
	refused(t, "an image that is not here", err, wire.CodeInvalidValue)
	equal(t, "image of the daemon", must(c.SetImage(ctx, "worker", ""))(t).Image, "")
	_, err = c.SetModel(ctx, "worker", wire.Model{Model: "scripted/else", ReasoningEffort: "bogus"})
	refused(t, "an effort that is none", err, scheduler.CodeInvalidAgent)
	equal(t, "debug prompt", string(must(c.DebugPrompt(ctx, "worker", "x"))(t)), `{"agent_id":"worker","text":"x"}`)
}

func stopWorker(t *testing.T, _ *rig, c *client.Client) {
	ctx := t.Context()
	equal(t, "action", must(c.Stop(ctx, "worker", false))(t).Action, "stop")
	_, err := c.Prompt(ctx, "worker", wire.Prompt{Text: "anyone?"}, "")
	refused(t, "a prompt to a stopped agent", err, "agent_stopped")
	if e, ok := errors.AsType[*state.Error](err); !ok || e.Hint == "" {
		t.Errorf("the refusal %#v has no hint", err)
	}
	status := must(c.Status(ctx, "worker"))(t)
	equal(t, "status", status.Agent.Status, "stopped")
	equal(t, "resume required", status.Lifecycle.ResumeRequired, true)
	equal(t, "has a hint to resume", status.Lifecycle.ResumeCLIHint != "", true)
	must(c.Start(ctx, "worker"))(t)
	_, err = c.Abort(ctx, "worker", wire.Abort{})
	refused(t, "an abort without a run", err, "no_current_run")
}

func abortDefault(t *testing.T, r *rig, c *client.Client) {
	ctx := t.Context()
	must(c.Prompt(ctx, "", wire.Prompt{Text: "to the default agent"}, ""))(t)
	claim, _, err := r.machine.Claim(ctx, "main")
	check(t, err)
	aborted := must(c.Abort(ctx, "", wire.Abort{Mode: "stop_after_abort"}))(t)
	equal(t, "aborted run", aborted.RunID, claim.Attempt.TurnID)
	equal(t, "mode", aborted.Mode, "stop_after_abort")
	list := must(c.Agents(ctx))(t)
	equal(t, "agents", len(list), 2)
	equal(t, "first agent", list[0].Identity.AgentID, "main")
	equal(t, "first agent is the default", list[0].Identity.IsDefaultAgent, true)
	equal(t, "status", list[0].Status, "awake_running")
	equal(t, "run", list[0].CurrentRunID, claim.Attempt.TurnID)
	runtime := must(c.RuntimeStatus(ctx))(t)
	equal(t, "healthy", runtime.Healthy, true)
	equal(t, "process", runtime.Runtime.PID, 42)
	equal(t, "activity", runtime.Activity.State, "processing")
	equal(t, "active agents", runtime.Activity.ActiveAgentCount, 2)
}

func endRuntime(t *testing.T, r *rig, c *client.Client) {
	if err := c.Shutdown(t.Context()); err != nil {
		t.Errorf("shutdown: %v", err)
	}
	equal(t, "ends", r.host.ended.Load(), 1)
	var doc map[string]json.RawMessage
	if err := json.Unmarshal(must(c.OpenAPI(t.Context()))(t), &doc); err != nil || doc["paths"] == nil {
		t.Errorf("the document has no paths (%v):\n%v", err, doc)
	}
}
