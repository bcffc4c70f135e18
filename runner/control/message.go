package control

import (
	"encoding/json"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strings"

	"github.com/go-chi/chi/v5"

	"holon/responses"
	"holon/runner/agent/scheduler"
	"holon/runner/agent/signature"
	"holon/runner/control/wire"
	"holon/state"
	"holon/state/ledger"
)

// maxHint bounds each text that accompanies the body of a message, in bytes.
const maxHint = 256

// operator names the actor of the control routes.
const operator = "operator"

func (s *Server) postPrompt(_ http.ResponseWriter, r *http.Request, p wire.Prompt) (any, error) {
	surface, err := promptSurface(listenerOf(r.Context()), p.Surface)
	if err != nil {
		return nil, err
	}
	key, err := idempotencyKey(r, string(ledger.SurfaceControlPrompt))
	if err != nil {
		return nil, err
	}
	m, err := s.promptOf(r, s.agentID(r), key, ledger.Priority(p.Priority), p.Text, p.Parts)
	if err != nil {
		return nil, err
	}
	m.Surface, m.CorrelationID, m.CausationID = surface, p.CorrelationID, p.CausationID
	return s.admit(r, string(ledger.SurfaceControlPrompt), m)
}

// promptSurface is the surface that the operator used. Only a client on the Unix socket
// is believed to be this machine's command line.
func promptSurface(l listener, asked string) (ledger.Surface, error) {
	switch s := ledger.Surface(asked); {
	case s == "" || s == ledger.SurfaceControlPrompt:
		return ledger.SurfaceControlPrompt, nil
	case l.local && (s == ledger.SurfaceCLIPrompt || s == ledger.SurfaceRunOnce):
		return s, nil
	}
	return "", &state.Error{Code: wire.CodeAuthorityClaimed, Param: "surface",
		Message: fmt.Sprintf("a prompt can't come by %.40q this way", asked), Hint: "leave surface out"}
}

// admit queues a message. way separates the idempotency keys of different ways.
func (s *Server) admit(r *http.Request, way string, in ledger.Message) (any, error) {
	var err error
	if in.Key, err = idempotencyKey(r, way); err != nil {
		return nil, err
	}
	for param, text := range map[string]string{"correlation_id": in.CorrelationID, "causation_id": in.CausationID} {
		if len(text) > maxHint {
			return nil, invalid(param, param+" is too long", fmt.Sprintf("use at most %d bytes", maxHint))
		}
	}
	a, err := s.steps.Admit(r.Context(), in)
	if err != nil {
		return nil, err
	}
	return wire.Enqueued{OK: true, AgentID: in.AgentID, MessageID: a.MessageID, EventSeq: a.EventSeq,
		Replayed: a.Replayed}, nil
}

func missing(param, hint string) error {
	return &state.Error{Code: wire.CodeMissingField, Param: param, Message: param + " is missing", Hint: hint}
}

func (s *Server) postEnqueue(_ http.ResponseWriter, r *http.Request, e wire.Enqueue) (any, error) {
	id := s.agentID(r)
	if e.AgentID != "" {
		if chi.URLParam(r, "id") != "" && e.AgentID != id {
			return nil, invalid("agent_id", "the body names another agent than the path", "leave agent_id out")
		}
		id = e.AgentID
	}
	kind, origin, err := outside(e)
	if err != nil {
		return nil, err
	}
	body, err := enqueued(e)
	if err != nil {
		return nil, err
	}
	if len(e.Metadata) > 0 && e.Metadata[0] != '{' {
		return nil, invalid("metadata", "metadata is not an object", "send a JSON object")
	}
	return s.admit(r, string(ledger.SurfacePublicEnqueue), ledger.Message{
		AgentID: id, Kind: kind, Origin: origin, Priority: ledger.Priority(e.Priority), Body: body,
		Metadata: e.Metadata,
		Surface:  ledger.SurfacePublicEnqueue, AdmissionContext: listenerOf(r.Context()).publicContext(),
		CorrelationID: e.CorrelationID, CausationID: e.CausationID,
	})
}

// outside returns the kind and origin of a message that anyone may send. Claims that only the operator, a capability or
// the runtime can make are refused here, before the rules would refuse them.
func outside(e wire.Enqueue) (ledger.MessageKind, ledger.Origin, error) {
	claimed := func(param, message, hint string) (ledger.MessageKind, ledger.Origin, error) {
		return "", ledger.Origin{}, &state.Error{Code: wire.CodeAuthorityClaimed, Param: param, Message: message,
			Hint: hint}
	}
	switch {
	case e.Trust != nil:
		return claimed("trust", "trust is not for the sender to state", "leave trust out")
	case e.Authority != nil:
		return claimed("authority_class", "authority is not for the sender to state", "leave authority_class out")
	}
	origin := ledger.Origin{Kind: ledger.OriginWebhook, Source: "http"}
	if e.Origin != nil {
		origin = *e.Origin
	} else if e.Kind == string(ledger.KindChannelEvent) {
		return claimed("origin", "a channel_event needs its origin", `add "origin":{"kind":"channel","channel_id":"…"}`)
	}
	kinds := map[ledger.OriginKind]ledger.MessageKind{ledger.OriginWebhook: ledger.KindWebhookEvent,
		ledger.OriginChannel: ledger.KindChannelEvent}
	kind, public := kinds[origin.Kind]
	if !public {
		return claimed("origin.kind", fmt.Sprintf("a message from outside can't come from %.40q", origin.Kind),
			"use webhook or channel; the operator speaks by POST /control/agents/{id}/prompt")
	}
	if e.Kind != "" && e.Kind != string(kind) {
		return claimed("kind", fmt.Sprintf("a message of origin %s can't be of kind %.40q", origin.Kind, e.Kind),
			"use "+string(kind)+", or leave kind out; the operator speaks by POST /control/agents/{id}/prompt")
	}
	return kind, origin, nil
}

// enqueued returns the body of a message, which has one of three forms.
func enqueued(e wire.Enqueue) (ledger.Body, error) {
	forms := 0
	for _, given := range []bool{e.Text != "", len(e.JSON) > 0, e.Body != nil} {
		if given {
			forms++
		}
	}
	if forms != 1 {
		return ledger.Body{}, missing("text", "send one of text, json and body")
	}
	switch {
	case e.Text != "":
		return ledger.Body{Type: "text", Text: e.Text}, nil
	case e.Body == nil:
		return ledger.Body{Type: "json", Value: e.JSON}, nil
	}
	if b := *e.Body; b.Type == "text" && b.Text != "" && b.Value == nil ||
		b.Type == "json" && len(b.Value) > 0 && b.Text == "" {
		return ledger.Body{Type: b.Type, Text: b.Text, Value: b.Value}, nil
	}
	return ledger.Body{}, invalid("body", "the body is neither text nor JSON",
		`use {"type":"text","text":"…"} or {"type":"json","value":…}`)
}

func (s *Server) postWake(_ http.ResponseWriter, r *http.Request, body wire.Wake) (any, error) {
	if strings.TrimSpace(body.Reason) == "" {
		return nil, missing("reason", "say why the agent is to look")
	}
	id := s.agentID(r)
	d, err := s.steps.Wake(r.Context(),
		scheduler.Wake{AgentID: id, Context: listenerOf(r.Context()).operatorContext(),
			WakeHint: ledger.WakeHint{Reason: body.Reason, Description: body.Description, Source: body.Source,
				CorrelationID: body.CorrelationID, CausationID: body.CausationID}})
	if err != nil {
		return nil, err
	}
	return wire.Woken{OK: true, AgentID: id, Disposition: string(d)}, nil
}

// postWebhook is POST /webhooks/generic/{id}: JSON of any form, of a sender that knows nothing of us.
func (s *Server) postWebhook(w http.ResponseWriter, r *http.Request) (any, error) {
	q, err := queryOf(r, "source", "event_type")
	if err != nil {
		return nil, err
	}
	body, err := s.readJSON(w, r, maxCallback)
	if err != nil {
		return nil, err
	}
	if err := wire.CheckJSON(body); err != nil {
		return nil, err
	}
	if err := s.spend(w, "webhook "+s.agentID(r), len(body)); err != nil {
		return nil, err
	}
	origin := ledger.Origin{Kind: ledger.OriginWebhook, Source: q["source"], EventType: q["event_type"]}
	if origin.Source == "" {
		origin.Source = "generic"
	}
	return s.admit(r, string(ledger.SurfaceWebhook), ledger.Message{
		AgentID: s.agentID(r), Kind: ledger.KindWebhookEvent, Origin: origin,
		Body:    ledger.Body{Type: "json", Value: body},
		Surface: ledger.SurfaceWebhook, AdmissionContext: listenerOf(r.Context()).publicContext(),
	})
}

func (s *Server) postCallback(w http.ResponseWriter, r *http.Request) (any, error) {
	return s.deliver(w, r, false)
}

func (s *Server) postLegacyCallback(w http.ResponseWriter, r *http.Request) (any, error) {
	return s.deliver(w, r, true)
}

// deliver passes on a request to the URL of a trigger. Errors in the request are
// reported before the token is looked up, the same for every token.
func (s *Server) deliver(w http.ResponseWriter, r *http.Request, legacy bool) (any, error) {
	hints := []string{"source", "resource", "correlation_id", "causation_id"}
	given := r.URL.Query() // services add parameters of their own
	maps.DeleteFunc(given, func(name string, _ []string) bool { return !slices.Contains(hints, name) })
	r.URL.RawQuery = given.Encode()
	q, err := queryOf(r, hints...)
	if err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(hints, func(name string) bool { return len(q[name]) > maxHint }); i >= 0 {
		return nil, invalid(hints[i], hints[i]+" is too long", fmt.Sprintf("use at most %d bytes", maxHint))
	}
	raw, err := s.read(w, r, maxCallback)
	if err != nil {
		return nil, err
	}
	if err := s.spendTrigger(w, r, len(raw)); err != nil {
		return nil, err
	}
	kind, body := content(r.Header.Get("Content-Type"), raw)
	verify := func(t ledger.Trigger) (signature.Delivery, error) { return s.opts.Transports.Verify(t, r.Header, raw) }
	receipt, err := s.steps.Deliver(r.Context(),
		scheduler.Delivery{Token: chi.URLParam(r, "token"), LegacyMode: legacy, Verify: verify,
			WakeHint: ledger.WakeHint{Source: q["source"], Resource: q["resource"], Body: body,
				ContentType: kind, CorrelationID: q["correlation_id"], CausationID: q["causation_id"]}})
	if err != nil {
		return nil, err
	}
	return wire.Delivered{OK: true, Result: wire.DeliveryResult{AgentID: receipt.AgentID,
		ExternalTriggerID: receipt.TriggerID, Scope: "agent",
		DeliveryMode: ledger.DeliverWakeHint, Disposition: string(receipt.Disposition),
		Replayed: receipt.Replayed}, Challenge: receipt.Challenge}, nil
}

// content makes JSON of a body of any type: JSON as it is, also that of a form with a payload, anything else as a
// string. An empty one is none.
func content(header string, raw []byte) (kind string, body json.RawMessage) {
	kind, _, err := mime.ParseMediaType(header)
	if err != nil || len(kind) > maxHint {
		kind = ""
	}
	if payload := signature.Form(header, raw); payload != nil {
		kind, raw = "application/json", payload
	}
	switch {
	case len(raw) == 0:
		return kind, nil
	case (kind == "" || kind == "application/json" || strings.HasSuffix(kind, "+json")) && wire.CheckJSON(raw) == nil:
		return kind, raw
	}
	return kind, responses.AppendString(nil, string(raw))
}
