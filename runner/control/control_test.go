package control_test

import (
	"encoding/json"
	"testing"

	"holon/runner/agent/view"
	"holon/runner/control"
	"holon/runner/control/wire"
	"holon/state"
	"holon/state/ledger"
)

// An agent's life through the client: everything that is asked for is in the
// ledger, and is shown.
func TestThroughTheClient(t *testing.T) {
	r := newRig(t, control.Limits{}, tcp())
	c, ctx := r.client(), t.Context()

	root := must(c.Root(ctx))(t)
	if !root.OK || root.DefaultAgent != "main" {
		t.Errorf("root %+v", root)
	}
	hand := must(c.Handshake(ctx))(t)
	if hand.Protocol.Name != "holon-control" || hand.Auth.Required || hand.Runtime.EventLogEpoch != r.store.Epoch() {
		t.Errorf("handshake %+v", hand)
	}
	if m := must(c.Models(ctx))(t); m.DefaultModel != "scripted/demo" || len(m.Available) != 1 {
		t.Errorf("models %+v", m)
	}
	if !must(c.Readiness(ctx))(t).Ready {
		t.Error("not ready")
	}

	made := must(c.Create(ctx, "worker", ""))(t)
	if made.Identity.AgentID != "worker" || made.Identity.Kind != ledger.KindNamed ||
		made.Agent.Status != "awake_idle" || made.Identity.AgentHome != "/home/agents/worker" {
		t.Errorf("created %+v", made)
	}
	if _, err := c.Create(ctx, "worker", ""); !state.IsCode(err, ledger.CodeExists) {
		t.Errorf("created twice: %v", err)
	}
	said := must(c.Prompt(ctx, "worker", wire.Prompt{Text: "hello", Surface: "cli_prompt", CorrelationID: "corr"},
		"key-1"))(t)
	again := must(c.Prompt(ctx, "worker", wire.Prompt{Text: "hello", Surface: "cli_prompt", CorrelationID: "corr"},
		"key-1"))(t)
	if again.MessageID != said.MessageID || !again.Replayed || said.Replayed || said.EventSeq == 0 {
		t.Errorf("said %+v, again %+v", said, again)
	}
	if _, err := c.Prompt(ctx, "worker", wire.Prompt{Text: "other"}, "key-1"); !state.IsCode(err,
		"idempotency_conflict") {
		t.Errorf("another message under the key: %v", err)
	}
	where := must(c.Message(ctx, "worker", said.MessageID))(t)
	if where.Entry.Status != ledger.Queued || where.Turn != nil || where.Message.Surface != ledger.SurfaceCLIPrompt ||
		where.Message.AdmissionContext != ledger.LocalProcess ||
		where.Message.Authority != ledger.OperatorInstruction {
		t.Errorf("message %+v", where)
	}
	if _, err := c.Message(ctx, "main", said.MessageID); !state.IsCode(err, ledger.CodeNotFound) {
		t.Errorf("the message through another agent: %v", err)
	}
	r.turn("worker", "hi there")
	where = must(c.Message(ctx, "worker", said.MessageID))(t)
	if where.Entry.Status != ledger.Processed || where.Turn == nil || where.Turn.Last != "hi there" {
		t.Errorf("message after its turn %+v", where)
	}
	if b := must(c.Briefs(ctx, "worker", 5))(t); len(b) != 1 || b[0].Text != "hi there" {
		t.Errorf("briefs %+v", b)
	}
	if e := must(c.Transcript(ctx, "worker", 0))(t); len(e) == 0 || e[0].Kind != ledger.TranscriptMessage {
		t.Errorf("transcript %+v", e)
	}
	if l := must(c.Latency(ctx, "worker", 0))(t); len(l.Turns) != 1 || l.Turns[0].TurnMS != 250 ||
		l.Turns[0].BeginMS == nil || l.Turns[0].ModelRounds != 2 {
		t.Errorf("latency %+v", l)
	}

	timer := must(c.CreateTimer(ctx, "worker", wire.Timer{DurationMS: 1000, IntervalMS: 60_000, Summary: "look"},
		""))(t)
	if !timer.Repeat || timer.Status != ledger.TimerActive {
		t.Errorf("timer %+v", timer)
	}
	if _, err := c.CancelTimer(ctx, "main", timer.ID); !state.IsCode(err, ledger.CodeNotFound) {
		t.Errorf("a timer of another agent was cancelled: %v", err)
	}
	if gone := must(c.CancelTimer(ctx, "worker", timer.ID))(t); gone.Status != ledger.TimerCancelled {
		t.Errorf("cancelled %+v", gone)
	}
	if w := must(c.Wake(ctx, "worker", wire.Wake{Reason: "look"}))(t); w.Disposition != "triggered" {
		t.Errorf("wake %+v", w)
	}
	if m := must(c.SetModel(ctx, "worker",
		wire.Model{Model: "scripted/else", ReasoningEffort: "low"}))(
		t); m.Model.EffectiveModel != "scripted/else" || m.Model.Source != view.ModelOverride {
		t.Errorf("model %+v", m)
	}
	if m := must(c.ClearModel(ctx, "worker"))(t); m.Model.EffectiveModel != "scripted/demo" ||
		m.Model.Source != view.ModelDefault {
		t.Errorf("model %+v", m)
	}
	if i := must(c.SetImage(ctx, "worker", "other:1"))(t); i.Image != "other:1" {
		t.Errorf("image %+v", i)
	}
	if p := must(c.DebugPrompt(ctx, "worker", "x"))(t); string(p) != `{"agent_id":"worker","text":"x"}` {
		t.Errorf("debug prompt %s", p)
	}

	if s := must(c.Stop(ctx, "worker"))(t); s.Action != "stop" {
		t.Errorf("stop %+v", s)
	}
	_, err := c.Prompt(ctx, "worker", wire.Prompt{Text: "anyone?"}, "")
	if e, ok := err.(*state.Error); !ok || e.Code != "agent_stopped" || e.Hint == "" {
		t.Errorf("a stopped agent was prompted: %#v", err)
	}
	status := must(c.Status(ctx, "worker"))(t)
	if status.Agent.Status != "stopped" || !status.Lifecycle.ResumeRequired || status.Lifecycle.ResumeCLIHint == "" {
		t.Errorf("status of a stopped agent %+v", status)
	}
	must(c.Start(ctx, "worker"))(t)
	if _, err := c.Abort(ctx, "worker", wire.Abort{}); !state.IsCode(err, "no_current_run") {
		t.Errorf("aborted nothing: %v", err)
	}
	must(c.Prompt(ctx, "", wire.Prompt{Text: "to the default agent"}, ""))(t)
	claim, _, err := r.machine.Claim(ctx, "main")
	if err != nil {
		t.Fatal(err)
	}
	if a := must(c.Abort(ctx, "", wire.Abort{Mode: "stop_after_abort"}))(t); a.RunID != claim.Attempt.TurnID ||
		a.Mode != "stop_after_abort" {
		t.Errorf("aborted %+v", a)
	}
	list := must(c.Agents(ctx))(t)
	if len(list) != 2 || list[0].Identity.AgentID != "main" || !list[0].Identity.IsDefaultAgent ||
		list[0].Status != "awake_running" || list[0].CurrentRunID != claim.Attempt.TurnID {
		t.Errorf("agents %+v", list)
	}
	if s := must(c.RuntimeStatus(ctx))(t); !s.Healthy || s.Runtime.PID != 42 ||
		s.Activity.State != "processing" || s.Activity.ActiveAgentCount != 2 {
		t.Errorf("runtime %+v", s)
	}
	if err := c.Shutdown(ctx); err != nil || r.host.ended.Load() != 1 {
		t.Errorf("shutdown: %v, %d", err, r.host.ended.Load())
	}
	var doc map[string]json.RawMessage
	if err := json.Unmarshal(must(c.OpenAPI(ctx))(t), &doc); err != nil || doc["paths"] == nil {
		t.Errorf("openapi: %v", err)
	}
}

// A snapshot has everything in one piece, and says how far it reaches.
func TestState(t *testing.T) {
	r := newRig(t, control.Limits{}, control.Access{})
	c, ctx := r.client(), t.Context()
	must(c.Prompt(ctx, "", wire.Prompt{Text: "one"}, ""))(t)
	r.turn("main", "done")
	must(c.Prompt(ctx, "", wire.Prompt{Text: "two", Priority: "next"}, ""))(t)
	trig := must(c.Trigger(ctx, ""))(t)
	s := must(c.State(ctx, ""))(t)
	page := must(c.Events(ctx, "", view.EventQuery{Limit: 500}))(t)
	if s.SnapshotThrough != page.NewestSeq || s.EventLogEpoch != page.Epoch || s.Session.PendingCount != 1 ||
		len(s.Queue) != 1 || s.Session.LastTurn == nil || s.Session.LastTurn.LastAssistantMessage != "done" {
		t.Errorf("state %+v", s)
	}
	if len(s.Triggers) != 1 || s.Triggers[0].ID != trig.Trigger.ID {
		t.Errorf("triggers %+v", s.Triggers)
	}
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range []string{"tasks", "timers", "work_items", "waiting_intents", "operator_notifications"} {
		var keys map[string]json.RawMessage
		if err := json.Unmarshal(text, &keys); err != nil || string(keys[list]) != "[]" {
			t.Errorf("%s is %s", list, keys[list])
		}
	}
}
