package control

import (
	"context"
	"errors"
	"math"
	"net/http"
	"time"

	"holon/internal/httpserver"
	"holon/runner/agent/view"
	"holon/runner/control/wire"
	"holon/state"
	"holon/state/ledger"
)

// agentID is the agent that a path names, or the default one.
func (s *Server) agentID(r *http.Request) string {
	if id := httpserver.PathValue(r, "id"); id != "" {
		return id
	}
	return s.host.Info().DefaultAgent
}

func (s *Server) getRoot(_ http.ResponseWriter, r *http.Request) (any, error) {
	return wire.Root{OK: true, DefaultAgent: s.host.Info().DefaultAgent}, nil
}

func (s *Server) getHandshake(_ http.ResponseWriter, r *http.Request) (any, error) {
	info := s.host.Info()
	return wire.Handshake{
		OK: true, Protocol: wire.Protocol{Name: wire.ProtocolName, Version: wire.ProtocolVersion},
		Auth:         listenerOf(r.Context()).authMode(),
		Capabilities: []string{"agents.list", "agents.state", "agents.events", "agents.control", "tui.remote"},
		Runtime: wire.HandshakeRuntime{DefaultAgent: info.DefaultAgent, Version: info.Version, HomeDir: info.HomeDir,
			WorkspaceDir: info.HomeDir,
			Listen:       info.HTTPAddr, AdvertiseURL: info.AdvertiseURL, EventLogEpoch: s.store.Epoch()},
	}, nil
}

func (s *Server) getModels(_ http.ResponseWriter, r *http.Request) (any, error) {
	return s.host.Models(r.Context())
}

func (s *Server) getReadiness(_ http.ResponseWriter, _ *http.Request) (any, error) {
	return wire.Readiness{OK: true, Ready: s.host.Info().Ready}, nil
}

// getHealth answers anyone, so that a proxy or a supervisor needs no token: 200 when the runtime is ready and its
// ledger can be read, else 503.
func (s *Server) getHealth(_ http.ResponseWriter, r *http.Request) (any, error) {
	failed, inTime := soon(func() error { return s.store.View(r.Context(), func(ledger.View) error { return nil }) })
	if !inTime || failed != nil || !s.host.Info().Ready {
		return nil, &state.Error{Code: wire.CodeNotReady, Message: "the runtime is not ready", Hint: "try again later"}
	}
	return wire.Health{OK: true}, nil
}

// ledgerWithin is how long the status of the runtime waits for a ledger that may be away.
const ledgerWithin = 2 * time.Second

// soon returns what a read of the ledger finds, which ends by itself, unless that takes longer than the status waits.
func soon[T any](read func() T) (found T, inTime bool) {
	done := make(chan T, 1)
	go func() { done <- read() }()
	select {
	case found = <-done:
		return found, true
	case <-time.After(ledgerWithin):
		return found, false
	}
}

// getRuntimeStatus also answers while the ledger is away, which is no fault of the runtime.
func (s *Server) getRuntimeStatus(_ http.ResponseWriter, r *http.Request) (any, error) {
	release, err := s.limit.enter(r.Context())
	if err != nil {
		return nil, err
	}
	defer release()
	status, inTime := soon(func() view.RuntimeStatus { return s.runtimeStatus(context.WithoutCancel(r.Context())) })
	if !inTime {
		return s.unhealthy(&state.Error{Code: ledger.CodeLedgerAway, Message: "the ledger does not answer",
			Hint: "see that its database runs and can be reached"}), nil
	}
	return status, nil
}

func (s *Server) runtimeStatus(ctx context.Context) view.RuntimeStatus {
	status := view.RuntimeStatus{OK: true, Runtime: s.host.Info()}
	status.LastFailure, status.Healthy = status.Runtime.LastFailure, status.Runtime.Ready
	err := s.store.View(ctx, func(v ledger.View) error {
		activity, failure, err := s.view(v).Activity()
		status.Activity = activity
		if failure != nil && (status.LastFailure == nil || failure.OccurredAt.After(status.LastFailure.OccurredAt)) {
			status.LastFailure = failure
		}
		return err
	})
	if err != nil {
		return s.unhealthy(err)
	}
	return status
}

// unhealthy is the status of a runtime whose ledger cannot be read.
func (s *Server) unhealthy(err error) view.RuntimeStatus {
	f := &ledger.Failure{OccurredAt: time.Now().UTC(), Phase: "ledger", Code: "internal_error", Summary: err.Error()}
	if e, ok := errors.AsType[*state.Error](err); ok {
		f.Code, f.Summary, f.Hint = string(e.Code), e.Message, e.Hint
	}
	return view.RuntimeStatus{OK: true, Runtime: s.host.Info(), LastFailure: f}
}

func (s *Server) postShutdown(_ http.ResponseWriter, _ *http.Request) (any, error) {
	s.log.Info("shutdown was asked for")
	s.host.Shutdown()
	return wire.ShuttingDown{OK: true, Accepted: true}, nil
}

func (s *Server) getAgents(_ http.ResponseWriter, r *http.Request) (any, error) {
	return limited(s, r, view.Snapshot.List)
}

// read computes a view of one snapshot.
func read[T any](s *Server, r *http.Request, compute func(view.Snapshot) (T, error)) (out T, err error) {
	err = s.store.View(r.Context(), func(v ledger.View) error {
		out, err = compute(s.view(v))
		return err
	})
	return out, err
}

// limited is read for views that cost much, of which few are computed at a time.
func limited[T any](s *Server, r *http.Request, compute func(view.Snapshot) (T, error)) (out T, err error) {
	release, err := s.limit.enter(r.Context())
	if err != nil {
		return out, err
	}
	defer release()
	return read(s, r, compute)
}

// lists makes the handler of a route that gives the newest records of an agent.
func lists[T any](s *Server, compute func(v view.Snapshot, agentID string, limit int) (T, error)) handler {
	return func(_ http.ResponseWriter, r *http.Request) (any, error) {
		q, err := queryOf(r, "limit")
		if err != nil {
			return nil, err
		}
		limit, err := q.number("limit", view.MaxLimit)
		if err != nil {
			return nil, err
		}
		id := s.agentID(r)
		return read(s, r, func(v view.Snapshot) (T, error) { return compute(v, id, int(limit)) })
	}
}

// shows makes the handler of a route that gives one thing of an agent, which a part of the path names.
func shows[T any](s *Server, part string, compute func(v view.Snapshot, agentID, id string) (T, error)) handler {
	return func(_ http.ResponseWriter, r *http.Request) (any, error) {
		agent, id := s.agentID(r), httpserver.PathValue(r, part)
		return read(s, r, func(v view.Snapshot) (T, error) { return compute(v, agent, id) })
	}
}

func (s *Server) getStatus(_ http.ResponseWriter, r *http.Request) (any, error) {
	id := s.agentID(r)
	return read(s, r, func(v view.Snapshot) (view.AgentSummary, error) { return v.Summary(id) })
}

func (s *Server) getState(_ http.ResponseWriter, r *http.Request) (any, error) {
	id := s.agentID(r)
	return limited(s, r, func(v view.Snapshot) (view.StateSnapshot, error) { return v.State(id, s.store.Epoch()) })
}

func (s *Server) getEvents(_ http.ResponseWriter, r *http.Request) (any, error) {
	q, err := queryOf(r, "after_seq", "before_seq", "limit", "order", "max_level", "projection")
	if err != nil {
		return nil, err
	}
	ask, err := q.events()
	if err != nil {
		return nil, err
	}
	if ask.BeforeSeq, err = q.number("before_seq", math.MaxInt64); err != nil {
		return nil, err
	}
	order, err := q.word("order", "asc", "desc")
	if err != nil {
		return nil, err
	}
	ask.Descending = order == "desc"
	id := s.agentID(r)
	var page view.EventPage
	err = s.store.View(r.Context(), func(v ledger.View) (err error) {
		page, err = s.view(v).Events(id, ask, s.store.Epoch())
		return err
	})
	return page, err
}

// events reads what pages and streams of events have in common.
func (q query) events() (view.EventQuery, error) {
	after, err := q.number("after_seq", math.MaxInt64)
	if err != nil {
		return view.EventQuery{}, err
	}
	limit, err := q.number("limit", view.MaxLimit)
	if err != nil {
		return view.EventQuery{}, err
	}
	level, err := q.number("max_level", 5)
	if err != nil {
		return view.EventQuery{}, err
	}
	projection, err := q.word("projection", view.ProjectionOperator, view.ProjectionDebug)
	return view.EventQuery{AfterSeq: after, Limit: int(limit), MaxLevel: int(level), Projection: projection}, err
}
