package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"holon/internal/httpserver"
	"holon/runner/agent/scheduler"
	"holon/runner/agent/signature"
	"holon/runner/agent/view"
	"holon/runner/control/wire"
	"holon/state/ledger"
)

// Transports bring notifications to the operator outside of this host, and keep the secrets of the bindings and of the
// triggers whose deliveries are signed.
type Transports interface {
	Bind(ctx context.Context, n scheduler.NewBinding) (scheduler.Bound, error)
	Revoke(ctx context.Context, agentID, id string) (ledger.OperatorBinding, error)
	Forget(ctx context.Context) error // the secrets of what was revoked
	CreateTrigger(ctx context.Context, agentID, scheme, secret string) (t ledger.Trigger, token string, err error)
	Verify(t ledger.Trigger, h http.Header, body []byte) (signature.Delivery, error)
}

// noTransports are those of a runtime that has none.
type noTransports struct{}

func (noTransports) Bind(context.Context, scheduler.NewBinding) (scheduler.Bound, error) {
	return scheduler.Bound{}, invalid("transport", "this runtime has no transports", "use holon serve")
}

func (noTransports) Revoke(context.Context, string, string) (ledger.OperatorBinding, error) {
	return ledger.OperatorBinding{}, invalid("transport", "this runtime has no transports", "use holon serve")
}

func (noTransports) Forget(context.Context) error { return nil }

func (noTransports) CreateTrigger(context.Context, string, string, string) (ledger.Trigger, string, error) {
	return ledger.Trigger{}, "", invalid("signature", "this runtime keeps no secrets", "use holon serve")
}

func (noTransports) Verify(ledger.Trigger, http.Header, []byte) (signature.Delivery, error) {
	return signature.Delivery{}, errors.New("this runtime keeps no secrets")
}

func (s *Server) operatorRoutes() []route {
	const agent, control = "/agents/{id}", "/control/agents/{id}"
	const one = control + "/operator-bindings/{binding_id}"
	return []route{
		{method: "GET", path: agent + "/operator-bindings", handle: s.getBindings},
		{method: "GET", path: agent + "/notifications", handle: lists(s, view.Snapshot.Notices), queries: true},
		{method: "POST", path: control + "/notifications/{notification_id}/acknowledge", handle: s.postAcknowledge},
		{method: "POST", path: control + "/operator-bindings", take: takes(s, maxSmall, required, s.postBinding), live: true},
		{method: "POST", path: one + "/revoke", handle: s.postRevokeBinding},
		{method: "POST", path: one + "/test", handle: s.postTestBinding, live: true},
		{method: "POST", path: control + "/operator-ingress", take: takes(s, maxPrompt, required, s.postIngress),
			capability: true},
	}
}

func (s *Server) getBindings(_ http.ResponseWriter, r *http.Request) (any, error) {
	id := s.agentID(r)
	return read(s, r, func(v view.Snapshot) ([]ledger.OperatorBinding, error) { return v.Bindings(id) })
}

func (s *Server) postBinding(_ http.ResponseWriter, r *http.Request, b wire.Bind) (any, error) {
	if b.BindingID == "" {
		return nil, missing("binding_id", "choose a name")
	}
	n := scheduler.NewBinding{URL: b.CallbackURL, Secret: b.Auth.SigningSecret, OperatorBinding: ledger.OperatorBinding{
		ID: b.BindingID, Transport: b.Transport, ActorID: b.ActorID, AgentID: s.agentID(r), RouteID: b.RouteID,
		Auth: ledger.DeliveryAuth{Kind: b.Auth.Kind, KeyID: b.Auth.KeyID}, AllowPrivate: b.AllowPrivate, Ingress: b.Ingress,
		Capabilities: ledger.Capabilities{Text: true}, Provider: b.Provider, ProviderIdentity: b.ProviderIdentity,
		Metadata: b.Metadata}}
	if n.Transport == "" {
		n.Transport = ledger.TransportWebhook
	}
	if n.Auth.Kind == "" && n.Secret != "" { // with neither, it stays as it was
		n.Auth.Kind = ledger.AuthHMAC
	} else if n.Auth.Kind == "" && b.Auth.BearerToken != "" {
		n.Auth.Kind = ledger.AuthBearer
	}
	if n.Auth.Kind == ledger.AuthBearer {
		n.Secret = b.Auth.BearerToken
	}
	if b.Capabilities != nil {
		n.Capabilities = *b.Capabilities
	}
	bound, err := s.opts.Transports.Bind(r.Context(), n)
	if err != nil {
		return nil, err
	}
	return wire.Bound{OK: true, Binding: bound.OperatorBinding, SigningSecret: bound.SigningSecret,
		IngressToken: bound.IngressToken}, nil
}

func (s *Server) postAcknowledge(_ http.ResponseWriter, r *http.Request) (any, error) {
	return s.steps.Acknowledge(r.Context(), s.agentID(r), httpserver.PathValue(r, "notification_id"))
}

func (s *Server) postRevokeBinding(_ http.ResponseWriter, r *http.Request) (any, error) {
	return s.opts.Transports.Revoke(r.Context(), s.agentID(r), httpserver.PathValue(r, "binding_id"))
}

// testTime is how long the first attempt of a test is waited for.
const testTime = 15 * time.Second

// postTestBinding notifies the operator by one binding, and waits until the first attempt has ended.
func (s *Server) postTestBinding(w http.ResponseWriter, r *http.Request) (any, error) {
	agent := s.agentID(r)
	s.mayTake(w, testTime)
	n, err := s.steps.TestBinding(r.Context(), agent, httpserver.PathValue(r, "binding_id"))
	if err != nil {
		return nil, err
	}
	patience := time.NewTimer(testTime)
	defer patience.Stop()
	for {
		changed := s.store.Changed(agent)
		found, err := ledger.Read(r.Context(), s.store, func(v ledger.View) ([]ledger.Delivery, error) {
			return v.DeliveriesOf(n.ID)
		})
		if err != nil {
			return nil, err
		}
		if len(found) == 0 || found[0].Status != ledger.DeliveryPending || found[0].Failure != "" {
			return view.Notice{Notification: n, Deliveries: found}, nil
		}
		select {
		case <-changed:
		case <-patience.C:
			return view.Notice{Notification: n, Deliveries: found}, nil
		case <-s.ending:
			return view.Notice{Notification: n, Deliveries: found}, nil
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
}

// postIngress takes a message of the operator from a transport, which the token of its binding authenticates. The
// caller is no operator of the control plane, whichever way it came.
func (s *Server) postIngress(w http.ResponseWriter, r *http.Request, in wire.Ingress) (any, error) {
	if strings.TrimSpace(in.Text) == "" {
		return nil, missing("text", "say what the operator sent")
	}
	for param, text := range map[string]string{"reply_route_id": in.ReplyRoute, "provider": in.Provider,
		"upstream_provider": in.UpstreamProvider, "provider_message_ref": in.MessageRef,
		"correlation_id": in.CorrelationID, "causation_id": in.CausationID} {
		if len(text) > maxHint {
			return nil, invalid(param, param+" is too long", fmt.Sprintf("use at most %d bytes", maxHint))
		}
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if token = strings.TrimSpace(token); !strings.EqualFold(scheme, "Bearer") {
		token = ""
	}
	key, err := idempotencyKey(r, string(ledger.SurfaceRemote)+":"+in.BindingID)
	if err != nil {
		return nil, err
	}
	if err := s.spendBinding(w, r, in, token); err != nil {
		return nil, err
	}
	meta, err := json.Marshal(struct {
		Provider         string          `json:"provider,omitempty"`
		UpstreamProvider string          `json:"upstream_provider,omitempty"`
		MessageRef       string          `json:"provider_message_ref,omitempty"`
		Transport        json.RawMessage `json:"transport,omitempty"`
	}{in.Provider, in.UpstreamProvider, in.MessageRef, in.Metadata})
	if err != nil {
		return nil, fmt.Errorf("encode the metadata: %w", err)
	}
	a, err := s.steps.AdmitOperator(r.Context(), in.BindingID, token, in.ReplyRoute, ledger.Message{AgentID: s.agentID(r),
		Key: key, Origin: ledger.Origin{ActorID: in.ActorID}, Body: ledger.Body{Type: "text", Text: in.Text},
		Metadata: meta, CorrelationID: in.CorrelationID, CausationID: in.CausationID})
	if err != nil {
		return nil, err
	}
	return wire.Enqueued{OK: true, AgentID: s.agentID(r), MessageID: a.MessageID, EventSeq: a.EventSeq,
		Replayed: a.Replayed}, nil
}

// spendBinding is spend for the binding by which a message comes. One that does not authenticate delivers nothing.
func (s *Server) spendBinding(w http.ResponseWriter, r *http.Request, in wire.Ingress, token string) error {
	var b ledger.OperatorBinding
	err := s.store.View(r.Context(), func(v ledger.View) (err error) {
		b, _, err = v.OperatorBinding(in.BindingID)
		return err
	})
	if err != nil || !scheduler.Authenticates(b, token) {
		return err
	}
	return s.spend(w, "binding "+b.ID, len(in.Text)+len(in.Metadata))
}
