package tools_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"holon/runner/agent/scheduler"
	"holon/runner/agent/tools"
	"holon/runner/agent/view"
	"holon/runner/hosttools"
	"holon/state/ledger"
	"holon/state/sqlite"
	"holon/test/expect"
	"holon/test/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// rig is an agent with a real ledger and its tools.
type rig struct {
	t         *testing.T
	store     ledger.Store
	scheduler *scheduler.Scheduler
	tools     map[string]hosttools.Tool
	attempt   ledger.Attempt
}

func newRig(t *testing.T) *rig {
	t.Helper()
	store, err := sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(memory.Dir(t), "ledger.db")})
	expect.NoError(t, err)
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	now := func() time.Time { return noon }
	r := &rig{t: t, store: store, scheduler: scheduler.New(store, scheduler.Options{Owner: "boot_1", Now: now}),
		tools: make(map[string]hosttools.Tool)}
	if _, err := r.scheduler.Create(t.Context(), scheduler.NewAgent{ID: "main", Default: true}); err != nil {
		t.Fatal(err)
	}
	facts := view.Facts{
		Home: func(id string) string { return "/host/secret/" + id },
		AgentsMD: func(id string) []view.AgentsMD {
			return []view.AgentsMD{{Scope: "agent", Kind: "agents_md", Path: "/host/secret/" + id + "/AGENTS.md"}}
		},
	}
	reminder := func(current *view.WorkRecord) string {
		if current == nil {
			return ""
		}
		return current.Objective
	}
	for _, tool := range tools.New(tools.Options{AgentID: "main", Scheduler: r.scheduler,
		Plans: plans{}, Ledger: store, Reminder: reminder, Facts: facts, Triggers: r.scheduler, Info: func(ctx context.Context) (view.RuntimeInfo, error) {
			return view.RuntimeInfo{AdvertiseURL: "https://holon.example/"}, ctx.Err()
		}}) {
		r.tools[tool.Name] = tool
	}
	return r
}

// admit queues a prompt.
func (r *rig) admit() {
	r.t.Helper()
	_, err := r.scheduler.Admit(r.t.Context(), ledger.Message{AgentID: "main", Kind: ledger.KindOperatorPrompt,
		Origin: ledger.Origin{Kind: ledger.OriginOperator}, AdmissionContext: ledger.LocalProcess,
		Surface: ledger.SurfaceCLIPrompt, Body: ledger.Body{Type: "text", Text: "go"}})
	expect.NoError(r.t, err)
}

// turn begins a turn for a prompt.
func (r *rig) turn() {
	r.t.Helper()
	r.admit()
	c, ok, err := r.scheduler.Claim(r.t.Context(), "main")
	if err != nil || !ok {
		r.t.Fatal(ok, err)
	}
	r.attempt = c.Attempt
}

func (r *rig) end() {
	r.t.Helper()
	if _, err := r.scheduler.Settle(r.t.Context(), r.attempt.ID,
		scheduler.End{Turn: ledger.Turn{Kind: ledger.TurnCompleted, Last: "done", StartedAt: noon,
			CompletedAt: noon}}); err != nil {
		r.t.Fatal(err)
	}
}

// call calls a tool and returns the structured result, or the error's kind.
func (r *rig) call(name, id, arguments string) (result map[string]any, kind string) {
	r.t.Helper()
	res, err := r.tools[name].Call(r.t.Context(), hosttools.Call{ID: id, Arguments: json.RawMessage(arguments)})
	if bad, ok := errors.AsType[*hosttools.ToolError](err); ok {
		return map[string]any{"field": bad.Field}, bad.Kind
	}
	if err == nil {
		err = json.Unmarshal(res.Structured, &result)
	}
	if err != nil || res.Text == "" {
		r.t.Fatalf("%s %s: %v", name, arguments, err)
	}
	return result, ""
}

// refuses fails the test unless a tool refuses arguments, each with the field that is wrong.
func (r *rig) refuses(tool string, fields map[string]string) {
	r.t.Helper()
	for arguments, field := range fields {
		if got, kind := r.call(tool, "t/"+tool+arguments, arguments); kind != hosttools.KindInvalidInput ||
			got["field"] != field {
			r.t.Errorf("%s %.60s: %q about %v, want %s", tool, arguments, kind, got["field"], field)
		}
	}
}

func (r *rig) view(fn func(v ledger.View) error) {
	r.t.Helper()
	expect.NoError(r.t, r.store.View(r.t.Context(), fn))
}

func (r *rig) wait() (w ledger.Wait, ok bool) {
	r.t.Helper()
	r.view(func(v ledger.View) (err error) {
		w, ok, err = v.UnresolvedWait("main", ledger.OwnerAgent)
		return err
	})
	return w, ok
}

func TestSleep(t *testing.T) {
	r := newRig(t)
	if _, kind := r.call("Sleep", "turn_0/c", `{}`); kind != string(scheduler.CodeNoRun) {
		t.Errorf("outside a turn: %q", kind)
	}
	r.turn()
	first, _ := r.call("Sleep", "t/c1", `{"duration_ms":60000,"reason":" the build "}`)
	w, ok := r.wait()
	if !ok || w.WakeAt == nil {
		t.Fatalf("%v made the wait %+v", first, w)
	}
	if first["wait_id"] != w.ID || w.WaitingFor != "the build" || !w.WakeAt.Equal(noon.Add(time.Minute)) {
		t.Errorf("%v made the wait %+v", first, w)
	}
	if again, _ := r.call("Sleep", "t/c1", `{"duration_ms":60000,"reason":" the build "}`); again["wait_id"] != w.ID {
		t.Errorf("the same call gave %v", again)
	}
	for _, arguments := range []string{`{}`, `{"duration_ms":0}`} {
		r.call("Sleep", "t/"+arguments, arguments)
		if next, ok := r.wait(); !ok || next.ID != w.ID || next.WakeAt != nil {
			t.Errorf("%s made the wait %+v", arguments, next)
		}
	}
	r.refuses("Sleep", map[string]string{
		`{"duration_ms":-1}`: "duration_ms", `{"duration_ms":2592000001}`: "duration_ms",
		`{"duration_ms":"soon"}`: "duration_ms", `{"duration_ms":1.5}`: "duration_ms",
		`{"until":"noon"}`: "until", `[]`: "", `{}{}`: "", `{"reason":"` + strings.Repeat("x", 1001) + `"}`: "reason",
	})
}

func TestEnqueue(t *testing.T) {
	r := newRig(t)
	if _, kind := r.call("Enqueue", "turn_0/c", `{"text":"x"}`); kind != string(scheduler.CodeNoRun) {
		t.Errorf("outside a turn: %q", kind)
	}
	r.turn()
	first, _ := r.call("Enqueue", "t/c1", `{"text":" look at the tests ","priority":"background"}`)
	var m ledger.Message
	r.view(func(v ledger.View) (err error) {
		m, err = v.Message(fmt.Sprint(first["message_id"]))
		return err
	})
	if m.Kind != ledger.KindInternalFollowup || m.Authority != ledger.RuntimeInstruction ||
		m.Priority != ledger.Background || m.Body.Text != "look at the tests" || m.CausationID != r.attempt.MessageID {
		t.Errorf("the note is %+v", m)
	}
	if _, kind := r.call("Enqueue", "t/c1", `{"text":"something else"}`); kind != string(scheduler.CodeKeyConflict) {
		t.Errorf("the id of another call: %q", kind)
	}
	r.refuses("Enqueue", map[string]string{
		`{}`: "text", `{"text":" "}`: "text", `{"text":"x","priority":"interject"}`: "priority",
		`{"text":"x","priority":"urgent"}`: "priority", `{"text":7}`: "text",
		`{"text":"x","kind":"system_tick"}`: "kind", `{"text":"x","authority":"operator_instruction"}`: "authority",
		`{"text":"` + strings.Repeat("x", 32769) + `"}`: "text",
	})
	for i := 2; i <= 8; i++ {
		if _, kind := r.call("Enqueue", fmt.Sprintf("t/c%d", i), `{"text":"more"}`); kind != "" {
			t.Errorf("note %d: %q", i, kind)
		}
	}
	if _, kind := r.call("Enqueue", "t/c9", `{"text":"more"}`); kind != "limit_reached" {
		t.Errorf("one too many: %q", kind)
	}
	r.end()
	// The answer of the first was lost: it is given again, although the turn is over.
	if again, kind := r.call("Enqueue", "t/c1", `{"text":" look at the tests ","priority":"background"}`); kind != "" ||
		again["message_id"] != first["message_id"] {
		t.Errorf("the same call gave %v %q", again, kind)
	}
	r.view(func(v ledger.View) error {
		n, err := v.CountQueued("main")
		expect.Equal(t, "messages are queued", n, 8)
		return err
	})
}

func TestAgentGet(t *testing.T) {
	r := newRig(t)
	r.turn()
	r.call("Sleep", "t/c1", `{"reason":"the build"}`)
	_, err := r.scheduler.Spawn(t.Context(), scheduler.Spawn{ParentID: "main", CallID: "c", Message: "x", Mode: "inherit"})
	expect.NoError(t, err)
	got, _ := r.call("AgentGet", "t/c2", `{}`)
	data, err := json.Marshal(got["agent"])
	var summary view.AgentSummary
	if err == nil {
		err = json.Unmarshal(data, &summary)
	}
	if err != nil || summary.Identity.AgentID != "main" || len(summary.ActiveWaits) != 1 ||
		len(summary.LoadedAgentsMD.Sources) != 1 || len(summary.ActiveChildren) != 1 ||
		summary.ActiveChildren[0].Lifecycle.AcceptsMessages || strings.Contains(string(data), "/host/") {
		t.Errorf("the tool tells %s (%v)", data, err)
	}
	const receipt = "agent main: awake_running, 0 messages queued, 0 work items open\n"
	res, err := r.tools["AgentGet"].Call(t.Context(), hosttools.Call{ID: "t/c4", Arguments: json.RawMessage(`{}`)})
	if err != nil || !strings.HasPrefix(res.Text, receipt) || !strings.Contains(res.Text, "\nwaits (") ||
		!strings.Contains(res.Text, "\nchild main.") || strings.Contains(res.Text, "{") {
		t.Errorf("the model reads %q (%v)", res.Text, err)
	}
	if _, kind := r.call("AgentGet", "t/c3", `{"agent_id":"other"}`); kind != hosttools.KindInvalidInput {
		t.Errorf("another agent: %q", kind)
	}
}

// The URL that the agent gets wakes it, and it gets none once the operator ended it.
func TestExternalTriggerGet(t *testing.T) {
	r := newRig(t)
	got, _ := r.call("ExternalTriggerGet", "t/c1", `{}`)
	token, ok := strings.CutPrefix(fmt.Sprint(got["trigger_url"]), "https://holon.example/callbacks/wake/")
	if !ok || got["target_agent_id"] != "main" || got["delivery_mode"] != "wake_hint" || got["status"] != "active" {
		t.Fatalf("the tool tells %v", got)
	}
	if _, err := r.scheduler.Deliver(t.Context(), scheduler.Delivery{Token: token}); err != nil {
		t.Error(err)
	}
	if again, _ := r.call("ExternalTriggerGet", "t/c2", `{}`); again["trigger_url"] != got["trigger_url"] {
		t.Errorf("asked again it tells %v", again)
	}
	if _, err := r.scheduler.RevokeTrigger(t.Context(), "main", ""); err != nil {
		t.Fatal(err)
	}
	if _, kind := r.call("ExternalTriggerGet", "t/c3", `{}`); kind != "no_external_trigger" {
		t.Errorf("after it was revoked: %q", kind)
	}
}

// A call that changed an item renews the reminder with the current one as it is then; no other call does.
func TestRenewedReminder(t *testing.T) {
	r := newRig(t)
	r.turn()
	call := func(id, tool, arguments string) hosttools.Result {
		t.Helper()
		result, err := r.tools[tool].Call(t.Context(), hosttools.Call{ID: id, Arguments: json.RawMessage(arguments)})
		if err != nil {
			t.Fatalf("%s: %v", tool, err)
		}
		return result
	}
	made := call("t/1", "CreateWorkItem", `{"objective":"first"}`)
	var out struct {
		Item struct{ ID string } `json:"work_item"`
	}
	expect.NoError(t, json.Unmarshal(made.Structured, &out))
	id := fmt.Sprintf(`{"work_item_id":%q}`, out.Item.ID)
	changed := strings.Replace(id, "}", `,"objective":"second"}`, 1)
	for _, step := range []struct{ tool, arguments, want string }{
		{"PickWorkItem", id, "first"}, {"UpdateWorkItem", changed, "second"},
		{"CreateWorkItem", `{"objective":"another"}`, "second"}, {"CompleteWorkItem", id, ""},
	} {
		got := call("t/"+step.tool, step.tool, step.arguments).Directive.Reminder
		if got == nil || *got != step.want {
			t.Errorf("after %s the reminder is %v, want %q", step.tool, got, step.want)
		}
	}
	if made.Directive.Reminder == nil || *made.Directive.Reminder != "" {
		t.Errorf("without a current item the reminder is %v, want an empty one", made.Directive.Reminder)
	}
	for tool, arguments := range map[string]string{"GetWorkItem": id, "ListWorkItems": "{}", "AgentGet": "{}"} {
		if got := call("t/"+tool, tool, arguments).Directive.Reminder; got != nil {
			t.Errorf("%s renews the reminder to %q, want that it does not", tool, *got)
		}
	}
}

// plans keeps no plans.
type plans struct{}

func (plans) SeedPlan(context.Context, string, string, string) error { return nil }

// The model does not see why the host failed.
func TestHostFailure(t *testing.T) {
	r := newRig(t)
	r.turn()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, tool := range r.tools {
		arguments := `{}`
		switch name {
		case "Enqueue":
			arguments = `{"text":"x"}`
		case "CreateWorkItem":
			arguments = `{"objective":"x"}`
		case "PickWorkItem", "GetWorkItem", "UpdateWorkItem", "CompleteWorkItem":
			arguments = `{"work_item_id":"x"}`
		}
		_, err := tool.Call(ctx, hosttools.Call{ID: "t/c", Arguments: json.RawMessage(arguments)})
		if _, shown := errors.AsType[*hosttools.ToolError](err); err == nil || shown {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// No tool makes what only the runtime makes, and every schema is one that can be
// offered.
func TestOffer(t *testing.T) {
	r := newRig(t)
	for name, tool := range r.tools {
		var schema struct {
			Type       string
			Properties map[string]any
			Additional *bool `json:"additionalProperties"`
		}
		if err := json.Unmarshal(tool.Schema, &schema); err != nil || schema.Type != "object" ||
			schema.Additional == nil || *schema.Additional {
			t.Errorf("%s: %s (%v)", name, tool.Schema, err)
		}
		r.refuses(name, map[string]string{`{"unknown":1}`: "unknown"})
		for key := range schema.Properties {
			if strings.Contains(key, "agent") || strings.Contains(key, "kind") {
				t.Errorf("%s takes %s", name, key)
			}
		}
	}
	schema := string(r.tools["Enqueue"].Schema)
	for _, part := range []string{`"enum":["next","normal","background"]`, `"required":["text"]`} {
		expect.Contains(t, "the schema of Enqueue", schema, part)
	}
	expect.Equal(t, "tools", len(r.tools), 10)
}

// The error of a call without an argument that its tool needs names it, as does that of one with an empty text.
func TestMissingArguments(t *testing.T) {
	r := newRig(t)
	r.turn()
	for tool, field := range map[string]string{"CreateWorkItem": "objective", "PickWorkItem": "work_item_id",
		"UpdateWorkItem": "work_item_id", "CompleteWorkItem": "work_item_id", "GetWorkItem": "work_item_id",
		"Enqueue": "text"} {
		r.refuses(tool, map[string]string{`{}`: field, fmt.Sprintf(`{%q:""}`, field): field})
	}
	if got, kind := r.call("PickWorkItem", "t/none", `{"work_item_id":"work_none"}`); kind != "not_found" {
		t.Errorf("an item that is not there: %q about %v, want not_found", kind, got)
	}
}
