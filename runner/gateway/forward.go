package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"holon/internal/httpserver"
	"holon/internal/providers"
	"holon/responses"
)

// handle passes one request of the container on, or refuses it.
func (s *Server) handle(w http.ResponseWriter, r *http.Request) {
	if !s.running.TryRLock() { // Close waits for it, or has it
		refuse(w, &responses.Error{Type: responses.TypeServerError, Code: responses.CodeDraining,
			Message: "the host is stopping this container"})
		return
	}
	defer s.running.RUnlock()

	httpserver.Begin(w, r)
	t, refusal := s.gateway.admit(r)
	var lease *Lease
	if refusal == nil {
		lease, refusal = s.leaseOf(r)
	}
	if refusal != nil {
		s.noteRefusal(r, refusal)
		refuse(w, refusal)
		return
	}
	httpserver.Admit(r)
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	connection := http.NewResponseController(w)
	_ = connection.SetWriteDeadline(time.Time{}) // of a request before this one
	defer context.AfterFunc(lease.ctx, func() {
		cancel(errRevoked)
		// for a body that never ends, and a reader that does not read; package http sets the first anew for the next
		// request
		now := time.Now()
		_, _ = connection.SetReadDeadline(now), connection.SetWriteDeadline(now)
	})()
	s.forward(ctx, w, r, t, lease)
}

// forward passes a request of a turn on.
func (s *Server) forward(ctx context.Context, w http.ResponseWriter, r *http.Request, t target, lease *Lease) {
	body, release, err := s.readBody(ctx, r, t.grammar)
	defer release()
	var charge *reservation
	refusal, _ := errors.AsType[*responses.Error](err)
	if err == nil {
		charge, refusal = s.charge(ctx, t, lease, body)
	}
	if refusal != nil {
		lease.ledger.note(refusal)
		s.log.Debug("request refused", "turn", lease.grant.TurnID, "target", r.RequestURI, "err", refusal.Message)
		refuse(w, refusal)
		return
	}
	if charge == nil { // the container is gone or too slow, or the turn is over: an answer would not be read
		panic(http.ErrAbortHandler)
	}
	s.exchange(ctx, w, r, t, lease, body, charge)
}

// exchange asks the provider and passes its answer on.
func (s *Server) exchange(ctx context.Context, w http.ResponseWriter, r *http.Request, t target, lease *Lease,
	body *requestBody, charge *reservation) {
	var reading *usageReader // nil: the answer has no usage
	whole := false
	lease.change()
	defer func() {
		if reading != nil {
			reading.close()
		}
		charge.settle(s.usage(t.upstream.name, charge, reading, body, whole))
		lease.change()
	}()

	key, err := t.upstream.keys.key(ctx)
	if err != nil {
		s.keyless(w, t.upstream, lease, err)
		return
	}
	w.Header().Set(providers.AddressHeader, t.upstream.address())
	w.WriteHeader(http.StatusEarlyHints) // agentd knows whom it waits for, should that take too long
	start := time.Now()
	resp, err := s.ask(ctx, t, r, key, body)
	if err != nil {
		s.failed(ctx, w, t.upstream, lease, err)
		return
	}
	defer resp.Body.Close()
	s.log.Debug("provider answered", "provider", t.upstream.name, "turn", lease.grant.TurnID, "status", resp.StatusCode,
		"after", time.Since(start))
	lease.ledger.trouble(t.upstream.answered(resp.StatusCode, resp.Header.Get("Content-Type")))
	if resp.StatusCode < 300 {
		reading = newUsageReader(resp.Header.Get("Content-Type"))
	}
	s.relay(w, r, t.upstream, resp, reading)
	whole = true
}

// charge decides by the body whether the turn may make a request, and counts it. Both results are nil when ctx ends
// before it is decided.
func (s *Server) charge(ctx context.Context, t target, lease *Lease, body *requestBody) (*reservation,
	*responses.Error) {
	ref := t.upstream.name + "/" + body.model
	if !lease.allows(ref) {
		return nil, &responses.Error{Type: responses.TypeInvalidRequest, Code: responses.CodeModelNotAllowed,
			Param:   "model",
			Message: fmt.Sprintf("this turn may not ask the model %.100q", ref),
			Hint:    fmt.Sprintf("it may ask %.300s", strings.Join(lease.grant.Models, ", "))}
	}
	return lease.ledger.reserve(ctx, ref, s.gateway.price(ref), int64(len(body.data)))
}

// usage returns what a request took beyond being one.
func (s *Server) usage(provider string, charge *reservation, reading *usageReader, body *requestBody,
	whole bool) Usage {
	if reading == nil {
		return Usage{}
	}
	tokens, estimated, doubt := reading.tokens(body, whole)
	if doubt != "" {
		charge.ledger.record("the usage that " + provider + " claims: " + doubt)
		s.log.Warn("the provider's usage is refused", "provider", provider, "err", doubt)
	}
	return usageOf(tokens, charge.price, estimated)
}

// ask makes the provider's request, and makes it once more with a new key where
// the provider refuses one that can be renewed.
func (s *Server) ask(ctx context.Context, t target, r *http.Request, key Secret, body *requestBody) (*http.Response,
	error) {
	keys := t.upstream.keys
	resp, err := t.upstream.send(ctx, t, r, key, body.data)
	if err != nil || resp.StatusCode != http.StatusUnauthorized {
		return resp, err
	}
	renewed, ok, err := keys.renew(ctx, key)
	if err != nil {
		s.log.Warn("the provider refuses the key", "provider", t.upstream.name, "err",
			keys.hide(err.Error()))
	}
	if !ok {
		return resp, nil
	}
	_ = resp.Body.Close() // it only says what the status did
	return t.upstream.send(ctx, t, r, renewed, body.data)
}

// send makes one request. It follows no redirect.
func (u *upstream) send(ctx context.Context, t target, r *http.Request, key Secret, body []byte) (*http.Response,
	error) {
	req, err := u.request(ctx, t, r, key, body)
	if err != nil {
		return nil, fmt.Errorf("make the request: %w", err)
	}
	return u.transport.RoundTrip(req)
}

// admit decides by the request target as it was sent: a target that is not,
// byte for byte, one of ours has no second reading that could be.
func (g *Gateway) admit(r *http.Request) (target, *responses.Error) {
	if r.Header.Get("Upgrade") != "" || r.Method == http.MethodConnect {
		return target{}, forbidden("connections can't be upgraded or tunnelled")
	}
	if !r.ProtoAtLeast(1, 1) || r.Header.Get("Expect") != "" {
		return target{}, forbidden("requests are HTTP/1.1 and expect nothing")
	}
	t, ok := g.routes[r.RequestURI]
	if ok && r.Method == http.MethodPost {
		return t, nil
	}
	if ok {
		return target{}, forbidden("only POST is allowed on " + r.RequestURI)
	}
	if strings.ContainsAny(r.RequestURI, "?%\\#") || !strings.HasPrefix(r.RequestURI, "/") ||
		strings.Contains(r.RequestURI, "//") || strings.Contains(r.RequestURI, "/.") {
		return target{}, forbidden(fmt.Sprintf("the target %.100q is not a plain path", r.RequestURI))
	}
	if up, ok := g.providerOf(r.RequestURI); ok {
		return target{}, responses.NotFound("path", responses.CodeNotFound,
			fmt.Sprintf("%.100q is not among the calls allowed to provider %s", r.RequestURI, up.name))
	}
	e := forbidden(fmt.Sprintf("no provider for %.100q is configured on the host", r.RequestURI))
	e.Hint = "configured: " + strings.Join(g.Providers(), ", ")
	if len(g.upstreams) == 0 {
		e.Hint = "start holon with the provider's API key set"
	}
	return target{}, e
}
