package rules_test

import (
	"slices"
	"strings"
	"testing"

	"holon/runner/agent/rules"
	"holon/state/ledger"
	"holon/test/expect"
)

var (
	allKinds = []ledger.MessageKind{
		ledger.KindOperatorPrompt, ledger.KindChannelEvent, ledger.KindWebhookEvent, ledger.KindCallbackEvent,
		ledger.KindTimerTick, ledger.KindSystemTick,
		ledger.KindTaskResult, ledger.KindTaskStatus, ledger.KindControl, ledger.KindBriefAck, ledger.KindBriefResult,
		ledger.KindInternalFollowup,
	}
	allOrigins = []ledger.OriginKind{
		ledger.OriginOperator, ledger.OriginChannel, ledger.OriginWebhook, ledger.OriginCallback, ledger.OriginTimer,
		ledger.OriginSystem, ledger.OriginTask,
	}
	allContexts = []ledger.AdmissionContext{
		ledger.PublicUnauthenticated, ledger.ControlAuthenticated, ledger.TriggerCapability, ledger.LocalProcess,
		ledger.RuntimeOwned, ledger.OperatorTransport,
	}
)

// whole is an origin of a kind with every field that it may need.
func whole(k ledger.OriginKind) ledger.Origin {
	o := ledger.Origin{Kind: k}
	switch k {
	case ledger.OriginChannel:
		o.ChannelID = "c"
	case ledger.OriginWebhook:
		o.Source = "forge"
	case ledger.OriginCallback:
		o.DescriptorID = "trg"
	case ledger.OriginTimer:
		o.TimerID = "tmr"
	case ledger.OriginSystem:
		o.Subsystem = "s"
	case ledger.OriginTask:
		o.TaskID = "task"
	}
	return o
}

// Every combination is allowed exactly when this list has it.
func TestAdmit(t *testing.T) {
	allowed := map[string]string{}
	for _, row := range []string{
		"operator_prompt operator control_authenticated,local_process,operator_transport_authenticated → trusted_operator operator_instruction " +
			"operator_input",
		"channel_event channel public_unauthenticated,control_authenticated,local_process → untrusted_external " +
			"external_evidence external_event",
		"webhook_event webhook control_authenticated,local_process → trusted_integration integration_signal " +
			"external_event",
		"webhook_event webhook public_unauthenticated → untrusted_external external_evidence external_event",
		"callback_event callback external_trigger_capability → trusted_integration integration_signal external_event",
		"timer_tick timer runtime_owned → trusted_system runtime_instruction timer_fire",
		"system_tick system runtime_owned → trusted_system runtime_instruction system_tick",
		"task_result task runtime_owned → trusted_system runtime_instruction task_result",
		"task_status task runtime_owned → trusted_system runtime_instruction task_result",
		"control operator control_authenticated,local_process → trusted_operator operator_instruction operator_input",
		"control system runtime_owned → trusted_system runtime_instruction operator_input",
		"brief_ack system runtime_owned → trusted_system runtime_instruction internal_followup",
		"brief_result system runtime_owned → trusted_system runtime_instruction internal_followup",
		"internal_followup system runtime_owned → trusted_system runtime_instruction internal_followup",
	} {
		left, right, _ := strings.Cut(row, " → ")
		f := strings.Fields(left)
		for _, via := range strings.Split(f[2], ",") {
			allowed[f[0]+" "+f[1]+" "+via] = right
		}
	}
	for _, k := range allKinds {
		for _, o := range allOrigins {
			for _, c := range allContexts {
				name := string(k) + " " + string(o) + " " + string(c)
				m := ledger.Message{Kind: k, Origin: whole(o), AdmissionContext: c, Metadata: []byte(`{"work_item_id":"w"}`)}
				if c == ledger.OperatorTransport {
					m.Surface = ledger.SurfaceRemote
				}
				g, bad := rules.Admit(m)
				want, ok := allowed[name]
				if (bad == nil) != ok {
					t.Errorf("%s: refusal %v, allowed %v", name, bad, ok)
				} else if got := string(g.Trust) + " " + string(g.Authority) + " " + string(
					g.TriggerKind); ok && got != want {
					t.Errorf("%s: %s, want %s", name, got, want)
				}
				if binds := bad == nil && g.WorkItemID == "w"; binds != (ok && c == ledger.RuntimeOwned) {
					t.Errorf("%s: binds %v", name, binds)
				}
			}
		}
	}
}

func TestAdmitNamesTheField(t *testing.T) {
	for _, c := range []struct {
		p    ledger.Message
		want string
	}{
		{ledger.Message{Kind: "prompt", Origin: whole(ledger.OriginOperator), AdmissionContext: ledger.LocalProcess}, "kind"},
		{ledger.Message{Kind: ledger.KindOperatorPrompt, Origin: whole(ledger.OriginWebhook),
			AdmissionContext: ledger.LocalProcess}, "origin.kind"},
		{ledger.Message{Kind: ledger.KindOperatorPrompt, Origin: whole(ledger.OriginOperator),
			AdmissionContext: ledger.PublicUnauthenticated}, "admission_context"},
		{ledger.Message{Kind: ledger.KindOperatorPrompt, Origin: whole(ledger.OriginOperator),
			AdmissionContext: ledger.ControlAuthenticated, Surface: ledger.SurfaceRemote}, "delivery_surface"},
		{ledger.Message{Kind: ledger.KindOperatorPrompt, Origin: whole(ledger.OriginOperator),
			AdmissionContext: ledger.OperatorTransport, Surface: ledger.SurfaceControlPrompt}, "delivery_surface"},
		{ledger.Message{Kind: ledger.KindControl, Origin: whole(ledger.OriginOperator),
			AdmissionContext: ledger.OperatorTransport, Surface: ledger.SurfaceRemote}, "kind"},
		{ledger.Message{Kind: ledger.KindChannelEvent, Origin: ledger.Origin{Kind: ledger.OriginChannel},
			AdmissionContext: ledger.LocalProcess}, "origin.channel_id"},
		{ledger.Message{Kind: ledger.KindTaskResult, Origin: ledger.Origin{Kind: ledger.OriginTask},
			AdmissionContext: ledger.RuntimeOwned}, "origin.task_id"},
	} {
		if _, bad := rules.Admit(c.p); bad == nil || bad.Param != c.want || bad.Message == "" {
			t.Errorf("%+v is refused with %+v, want %s", c.p, bad, c.want)
		}
	}
}

// tick is the tick of a hint.
func tick(h ledger.WakeHint) ledger.Message {
	m, _ := rules.Admit(ledger.Message{Kind: ledger.KindSystemTick, Origin: whole(ledger.OriginSystem),
		AdmissionContext: ledger.RuntimeOwned})
	rules.Outside(&m, h)
	return m
}

// What came to a trigger wakes the agent and instructs it in nothing.
func TestTick(t *testing.T) {
	if g := tick(ledger.WakeHint{Reason: "look"}); g.Authority != ledger.RuntimeInstruction ||
		g.Trust != ledger.TrustedSystem {
		t.Errorf("a wake of the runtime: %+v", g)
	}
	if g := tick(ledger.WakeHint{ExternalTriggerID: "trg_1"}); g.Authority != ledger.IntegrationSignal ||
		g.Trust != ledger.TrustedIntegration {
		t.Errorf("a wake from outside: %+v", g)
	}
}

func TestSourceRefs(t *testing.T) {
	public := ledger.Message{Kind: ledger.KindWebhookEvent, Origin: whole(ledger.OriginWebhook),
		AdmissionContext: ledger.PublicUnauthenticated}
	task := ledger.Message{Kind: ledger.KindTaskResult, Origin: whole(ledger.OriginTask),
		AdmissionContext: ledger.RuntimeOwned}
	many := map[string]string{}
	for i := range 16 + 1 {
		many["n"+string(rune('a'+i))] = "v"
	}
	for _, c := range []struct {
		name  string
		p     ledger.Message
		given map[string]string
		want  string // "name=value …", or the parameter of the refusal after "!"
	}{
		{"of the sender", public, map[string]string{"delivery": "7"}, "delivery=7"},
		{"none", public, nil, ""},
		{"of the origin", task, nil, "task_id=task"},
		{"the origin wins", task, map[string]string{"task_id": "other"}, "task_id=task"},
		{"a binding from outside", public, map[string]string{"work_item_id": "w"}, "!source_refs.work_item_id"},
		{"a trigger from outside", public, map[string]string{"external_trigger_id": "t"},
			"!source_refs.external_trigger_id"},
		{"a binding of the runtime", task, map[string]string{"work_item_id": "w"}, "task_id=task work_item_id=w"},
		{"a hostile name", public, map[string]string{"a\nb": ""}, "!source_refs"},
		{"a long value", public, map[string]string{"a": strings.Repeat("x", 513)}, "!source_refs.a"},
		{"no text", public, map[string]string{"a": "\xff"}, "!source_refs.a"},
		{"too many", public, many, "!source_refs"},
	} {
		c.p.SourceRefs = c.given
		m, bad := rules.Admit(c.p)
		var list []string
		for k, v := range m.SourceRefs {
			list = append(list, k+"="+v)
		}
		slices.Sort(list)
		got := strings.Join(list, " ")
		if bad != nil {
			got = "!" + bad.Param
		}
		expect.Equal(t, c.name, got, c.want)
	}
}

// of is a message that an origin may have sent.
func of(o ledger.Origin) ledger.Message {
	for _, k := range allKinds {
		for _, c := range allContexts {
			if _, bad := rules.Admit(ledger.Message{Kind: k, Origin: whole(o.Kind), AdmissionContext: c}); bad == nil {
				return ledger.Message{Kind: k, Origin: o, AdmissionContext: c}
			}
		}
	}
	return ledger.Message{Origin: o}
}

func TestOriginFields(t *testing.T) {
	for _, k := range allOrigins {
		if _, bad := rules.Admit(of(whole(k))); bad != nil {
			t.Errorf("%s: %+v", k, bad)
		}
	}
	for param, o := range map[string]ledger.Origin{
		"origin.task_id":    {Kind: ledger.OriginWebhook, Source: "s", TaskID: "t"},
		"origin.actor_id":   {Kind: ledger.OriginChannel, ChannelID: "c", ActorID: "root"},
		"origin.source":     {Kind: ledger.OriginWebhook, Source: strings.Repeat("s", 257)},
		"origin.channel_id": {Kind: ledger.OriginChannel, ChannelID: "\xff"},
	} {
		if _, bad := rules.Admit(of(o)); bad == nil || bad.Param != param {
			t.Errorf("%+v: %+v, want %s", o, bad, param)
		}
	}
}

func prioritized(p ledger.Priority, from ledger.OriginKind) (ledger.Priority, *rules.Refusal) {
	m := of(whole(from))
	m.Priority = p
	m, bad := rules.Admit(m)
	return m.Priority, bad
}

func TestPriority(t *testing.T) {
	for in, want := range map[ledger.Priority]ledger.Priority{"": "normal", "interrupt": "interject",
		"interject": "interject", "next": "next", "background": "background", "urgent": ""} {
		got, bad := prioritized(in, ledger.OriginOperator)
		if (bad == nil) != (want != "") || bad == nil && got != want {
			t.Errorf("Priority(%q) of a prompt = %q, %v", in, got, bad)
		}
		foreign := want != "" && want != "interject"
		if got, bad := prioritized(in, ledger.OriginWebhook); (bad == nil) != foreign ||
			foreign && got != want {
			t.Errorf("Priority(%q) of a webhook = %q, %v", in, got, bad)
		}
	}
	for kind, offered := range map[ledger.OriginKind]bool{ledger.OriginOperator: true, ledger.OriginWebhook: false} {
		_, bad := prioritized("urgent", kind)
		if bad == nil || strings.Contains(bad.Message, "interject") != offered {
			t.Errorf("a wrong priority of a %s is refused with %v, and offers interject: want %v", kind, bad, offered)
		}
	}
}

// FuzzAdmit looks for a way from outside to say what only the runtime or the
// operator may.
func FuzzAdmit(f *testing.F) {
	f.Add("operator_prompt", "operator", "public_unauthenticated", "task_id", "x")
	f.Add("webhook_event", "webhook", "control_authenticated", "delivery", "7")
	f.Fuzz(func(t *testing.T, kind, origin, via, ref, value string) {
		p := ledger.Message{Kind: ledger.MessageKind(kind), Origin: whole(ledger.OriginKind(origin)),
			AdmissionContext: ledger.AdmissionContext(via)}
		p.Metadata, p.WorkItemID = []byte(`{"work_item_id":"w"}`), "w"
		g, bad := rules.Admit(p)
		if bad != nil {
			return
		}
		owned := p.AdmissionContext == ledger.RuntimeOwned
		local := p.AdmissionContext == ledger.ControlAuthenticated || p.AdmissionContext == ledger.LocalProcess
		if g.Authority == ledger.RuntimeInstruction && !owned ||
			g.Authority == ledger.OperatorInstruction && !local || g.WorkItemID != "" && !owned {
			t.Fatalf("%+v is admitted as %+v", p, g)
		}
		p.SourceRefs = map[string]string{ref: value}
		g, bad = rules.Admit(p)
		if bad == nil && !owned && g.SourceRefs["work_item_id"] != "" {
			t.Fatalf("%+v refers to %v", p, g.SourceRefs)
		}
	})
}
