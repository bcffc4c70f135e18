package rules

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"unicode/utf8"

	"holon/state/ledger"
)

// Admit gives the draft of a message what follows from its provenance, which is its kind, origin and admission context:
// trust, authority, trigger, references and what it belongs to. Nothing that a caller states can change that (runtime
// specification, "Authority Classes And Compatibility Trust"). The refusal of a draft that cannot come from there, or
// has a field that its sender may not set, names the field.
func Admit(m ledger.Message) (ledger.Message, *Refusal) {
	row, known := kinds[m.Kind]
	switch {
	case !known:
		return m, refuse("kind", "%.40q is not a kind of message", m.Kind)
	case !slices.Contains(row.origins, m.Origin.Kind):
		return m, refuse("origin.kind", "a message of kind %s can't come from %.40q", m.Kind, m.Origin.Kind)
	case !slices.Contains(contexts[m.Origin.Kind], m.AdmissionContext):
		return m, refuse("admission_context", "a message of origin %s can't come in as %.40q", m.Origin.Kind,
			m.AdmissionContext)
	case (m.AdmissionContext == ledger.OperatorTransport) != (m.Surface == ledger.SurfaceRemote):
		return m, refuse("delivery_surface", "a message can't come by %.40q as %.40q", m.Surface, m.AdmissionContext)
	case m.AdmissionContext == ledger.OperatorTransport && m.Kind != ledger.KindOperatorPrompt:
		return m, refuse("kind", "only prompts of the operator come by %s", m.Surface)
	}
	if bad := checkOrigin(m.Origin); bad != nil {
		return m, bad
	}
	var bad *Refusal
	if m.SourceRefs, bad = sourceRefs(m); bad != nil {
		return m, bad
	}
	if m.Priority, bad = priority(m.Priority, m.Kind); bad != nil {
		return m, bad
	}
	m.TriggerKind, m.TaskID = row.trigger, m.Origin.TaskID
	m.Trust, m.Authority = standing(m.Origin.Kind, m.AdmissionContext)
	if m.AdmissionContext != ledger.RuntimeOwned {
		m.WorkItemID = ""
		return m, nil
	}
	var of struct { // what the runtime says in its metadata that a message belongs to
		WorkItemID string `json:"work_item_id"`
		TaskID     string `json:"task_id"`
	}
	if json.Unmarshal(m.Metadata, &of) == nil { // other metadata binds nothing
		m.WorkItemID, m.TaskID = cmp.Or(m.WorkItemID, of.WorkItemID), cmp.Or(m.TaskID, of.TaskID)
	}
	return m, nil
}

// Refusal says which field of something from outside is wrong, and why.
type Refusal struct{ Param, Message string }

func refuse(param, format string, args ...any) *Refusal {
	return &Refusal{Param: param, Message: fmt.Sprintf(format, args...)}
}

// kinds lists the origins of each kind and what it triggers. The trigger
// classifies every kind; whether it continues work is decided by Continue.
var kinds = map[ledger.MessageKind]struct {
	origins []ledger.OriginKind
	trigger ledger.TriggerKind
}{
	ledger.KindOperatorPrompt: {[]ledger.OriginKind{ledger.OriginOperator}, ledger.TriggerOperatorInput},
	ledger.KindChannelEvent:   {[]ledger.OriginKind{ledger.OriginChannel}, ledger.TriggerExternalEvent},
	ledger.KindWebhookEvent:   {[]ledger.OriginKind{ledger.OriginWebhook}, ledger.TriggerExternalEvent},
	ledger.KindCallbackEvent:  {[]ledger.OriginKind{ledger.OriginCallback}, ledger.TriggerExternalEvent},
	ledger.KindTimerTick:      {[]ledger.OriginKind{ledger.OriginTimer}, ledger.TriggerTimerFire},
	ledger.KindSystemTick:     {[]ledger.OriginKind{ledger.OriginSystem}, ledger.TriggerSystemTick},
	ledger.KindTaskResult:     {[]ledger.OriginKind{ledger.OriginTask}, ledger.TriggerTaskResult},
	ledger.KindTaskStatus:     {[]ledger.OriginKind{ledger.OriginTask}, ledger.TriggerTaskResult},
	ledger.KindControl: {[]ledger.OriginKind{ledger.OriginOperator, ledger.OriginSystem},
		ledger.TriggerOperatorInput},
	ledger.KindBriefAck:         {[]ledger.OriginKind{ledger.OriginSystem}, ledger.TriggerInternalFollowup},
	ledger.KindBriefResult:      {[]ledger.OriginKind{ledger.OriginSystem}, ledger.TriggerInternalFollowup},
	ledger.KindInternalFollowup: {[]ledger.OriginKind{ledger.OriginSystem}, ledger.TriggerInternalFollowup},
}

// contexts lists the admission contexts of each origin. A message of the runtime
// itself cannot come from outside.
var contexts = map[ledger.OriginKind][]ledger.AdmissionContext{
	ledger.OriginOperator: {ledger.ControlAuthenticated, ledger.LocalProcess, ledger.OperatorTransport},
	ledger.OriginChannel:  {ledger.PublicUnauthenticated, ledger.ControlAuthenticated, ledger.LocalProcess},
	ledger.OriginWebhook:  {ledger.PublicUnauthenticated, ledger.ControlAuthenticated, ledger.LocalProcess},
	ledger.OriginCallback: {ledger.TriggerCapability},
	ledger.OriginTimer:    {ledger.RuntimeOwned},
	ledger.OriginSystem:   {ledger.RuntimeOwned},
	ledger.OriginTask:     {ledger.RuntimeOwned},
}

// standing is the table of "Trust Defaults" with the authority that goes with it. A
// webhook without a credential or a trusted socket is evidence.
func standing(origin ledger.OriginKind, via ledger.AdmissionContext) (ledger.Trust, ledger.Authority) {
	switch origin {
	case ledger.OriginOperator:
		return ledger.TrustedOperator, ledger.OperatorInstruction
	case ledger.OriginSystem, ledger.OriginTask, ledger.OriginTimer:
		return ledger.TrustedSystem, ledger.RuntimeInstruction
	case ledger.OriginCallback:
		return ledger.TrustedIntegration, ledger.IntegrationSignal
	case ledger.OriginWebhook:
		if via != ledger.PublicUnauthenticated {
			return ledger.TrustedIntegration, ledger.IntegrationSignal
		}
	}
	return ledger.UntrustedExternal, ledger.ExternalEvidence
}

// Inherit gives a message that a turn made no more authority than the message of that
// turn had: what came from outside doesn't become an instruction by a note.
func Inherit(msg *ledger.Message, cause ledger.Message) {
	if cause.Authority == ledger.IntegrationSignal || cause.Authority == ledger.ExternalEvidence {
		msg.Trust, msg.Authority = cause.Trust, cause.Authority
	}
}

// Outside takes from the tick of a wake hint what came to an external trigger: that does not become an instruction by
// waking the agent.
func Outside(tick *ledger.Message, h ledger.WakeHint) {
	outside := func(n ledger.WakeNote) bool { return n.ExternalTriggerID != "" }
	if outside(noteOf(h)) || slices.ContainsFunc(h.Also, outside) {
		tick.Trust, tick.Authority = ledger.TrustedIntegration, ledger.IntegrationSignal
	}
}

// Bounds of source references.
const (
	maxSourceRefs   = 16
	maxRefName      = 64
	maxRefValue     = 512
	maxOriginLength = 256
)

// References of a message that came by a transport of the operator: its binding, and the route back to its sender.
const (
	RefBinding    = "operator_binding_id"
	RefReplyRoute = "reply_route_id"
)

// RefAction is the reference of an operator's message to the action that it answers.
const RefAction = "action_id"

// runtimeRefs are references to the runtime's own records, which only it makes.
var runtimeRefs = []string{
	RefBinding, RefReplyRoute, "callback_descriptor_id", "external_trigger_id", "message_id", "queued_event_id", "task_id",
	"task_result_id", "timer_id", "turn_id", "wait_id", "waiting_intent_id", "work_item_id",
}

// sourceRefs are the references that a message keeps: those given, as far as
// its sender may state them, and those that follow from its origin.
func sourceRefs(m ledger.Message) (map[string]string, *Refusal) {
	given := m.SourceRefs
	if len(given) > maxSourceRefs {
		return nil, refuse("source_refs", "at most %d source references are kept, these are %d", maxSourceRefs,
			len(given))
	}
	refs := make(map[string]string, len(given)+1)
	for name, value := range given {
		switch {
		case !refName(name):
			return nil, refuse("source_refs", "%.80q cannot name a source reference: a-z, 0-9 and _, %d at most",
				name, maxRefName)
		case len(value) > maxRefValue || !utf8.ValidString(value):
			return nil, refuse("source_refs."+name, "a source reference is text of at most %d bytes", maxRefValue)
		case m.AdmissionContext != ledger.RuntimeOwned && slices.Contains(runtimeRefs, name):
			return nil, refuse("source_refs."+name, "only the runtime refers to its own records")
		}
		refs[name] = value
	}
	for name, value := range originRefs(m.Origin) {
		if value != "" {
			refs[name] = value
		}
	}
	if len(refs) == 0 {
		return nil, nil
	}
	return refs, nil
}

func originRefs(o ledger.Origin) map[string]string {
	return map[string]string{
		"channel_id":             o.ChannelID,
		"callback_descriptor_id": o.DescriptorID,
		"timer_id":               o.TimerID,
		"task_id":                o.TaskID,
	}
}

func refName(s string) bool {
	for i := range len(s) {
		if c := s[i]; c != '_' && (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return false
		}
	}
	return s != "" && len(s) <= maxRefName
}

// checkOrigin bounds the texts of an origin, and refuses one without the field that its kind needs or with one that its
// kind does not have.
func checkOrigin(o ledger.Origin) *Refusal {
	for _, f := range []struct {
		name, value string
		of          []ledger.OriginKind
		needs       ledger.OriginKind
	}{
		{"actor_id", o.ActorID, []ledger.OriginKind{ledger.OriginOperator}, ""},
		{"channel_id", o.ChannelID, []ledger.OriginKind{ledger.OriginChannel}, ledger.OriginChannel},
		{"sender_id", o.SenderID, []ledger.OriginKind{ledger.OriginChannel}, ""},
		{"source", o.Source, []ledger.OriginKind{ledger.OriginWebhook, ledger.OriginCallback}, ledger.OriginWebhook},
		{"event_type", o.EventType, []ledger.OriginKind{ledger.OriginWebhook}, ""},
		{"descriptor_id", o.DescriptorID, []ledger.OriginKind{ledger.OriginCallback}, ledger.OriginCallback},
		{"timer_id", o.TimerID, []ledger.OriginKind{ledger.OriginTimer}, ledger.OriginTimer},
		{"subsystem", o.Subsystem, []ledger.OriginKind{ledger.OriginSystem}, ledger.OriginSystem},
		{"task_id", o.TaskID, []ledger.OriginKind{ledger.OriginTask}, ledger.OriginTask},
	} {
		switch {
		case f.value == "" && f.needs == o.Kind:
			return refuse("origin."+f.name, "an origin of kind %s names its %s", o.Kind, f.name)
		case f.value != "" && !slices.Contains(f.of, o.Kind):
			return refuse("origin."+f.name, "an origin of kind %.40s has no %s", o.Kind, f.name)
		case len(f.value) > maxOriginLength || !utf8.ValidString(f.value):
			return refuse("origin."+f.name, "%s is text of at most %d bytes", f.name, maxOriginLength)
		}
	}
	return nil
}

// priority reads the priority of a message of a kind; "" is normal and interrupt
// another word for interject, which only a prompt of the operator may have.
func priority(p ledger.Priority, kind ledger.MessageKind) (ledger.Priority, *Refusal) {
	switch p {
	case "":
		return ledger.Normal, nil
	case ledger.Interject, "interrupt":
		if kind != ledger.KindOperatorPrompt {
			return p, refuse("priority", "only a prompt of the operator interjects; next comes before normal")
		}
		return ledger.Interject, nil
	case ledger.Next, ledger.Normal, ledger.Background:
		return p, nil
	}
	use := "next, normal or background"
	if kind == ledger.KindOperatorPrompt {
		use = "interject, " + use
	}
	return p, refuse("priority", "%.40q is not a priority: use %s", p, use)
}
