package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"holon/agentd/turntoken"
	"holon/internal/mcpwire"
	"holon/internal/tracecontext"
	"holon/internal/visible"
	"holon/responses/turns"
)

// Limits of reconnecting after a connection broke or failed.
const (
	maxFailures  = 6                // in a row, after which the server waits until it is needed
	healthyAfter = time.Minute      // a connection that lasted longer did not fail
	retryAfter   = 30 * time.Second // pause before a server that failed is tried for a turn
	relistPause  = time.Second      // between two readings of the list of tools
)

// server is one server and the connection to it, which keep maintains.
type server struct {
	name string
	cfg  Server
	dial dialer
	host bool // its tools have their own names, and it knows calls by their ids
	log  *slog.Logger
	impl *sdk.Implementation

	kick    chan struct{} // the server is needed
	relist  chan struct{} // its tools have changed
	broken  chan struct{} // a call found the session broken
	closing <-chan struct{}

	mu      sync.Mutex
	state   string        // one of turns.MCP…
	changed chan struct{} // closed and replaced when the fields here change
	settled bool          // it has answered or failed once
	session *sdk.ClientSession
	offered []listed // of the last list that was read; kept while it is away
	refused []note   // of the same list
	failure string   // why it is away
}

func (m *Manager) newServer(name string, cfg Server, dial dialer, host bool) *server {
	return &server{
		name: name, cfg: cfg, dial: dial, host: host, log: m.log.With("server", name),
		impl: &sdk.Implementation{Name: "agentd", Version: m.options.Version},
		kick: make(chan struct{}, 1), relist: make(chan struct{}, 1), broken: make(chan struct{}, 1),
		closing: m.ctx.Done(),
		state:   turns.MCPConnecting, changed: make(chan struct{}),
	}
}

// keep connects, and connects again, until ctx ends.
func (s *server) keep(ctx context.Context) {
	for failures := 0; ctx.Err() == nil; {
		began := time.Now()
		err := s.live(ctx, failures)
		if ctx.Err() != nil {
			break
		}
		if time.Since(began) > healthyAfter {
			failures = 0
		}
		failures++
		s.lost(err, failures)
		if s.host || failures < maxFailures { // turns wait for the host
			pause(ctx, s.backoff(failures))
			continue
		}
		pause(ctx, retryAfter)
		select {
		case <-s.kick:
		case <-ctx.Done():
		}
	}
	s.update(func() { s.session, s.state = nil, turns.MCPFailed })
}

// backoff returns the pause after a number of failures in a row. It is short for the
// host, which returns soon or not at all, since calls wait for it.
func (s *server) backoff(failures int) time.Duration {
	first, limit := time.Second, 30*time.Second
	if s.host {
		first, limit = 50*time.Millisecond, time.Second
	}
	return min(first<<min(failures-1, 10), limit)
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// live opens one connection, keeps it until it ends, and returns why it ended.
func (s *server) live(ctx context.Context, failures int) error {
	starting, cancel := context.WithTimeout(ctx, s.cfg.ConnectTimeout.or(defaultConnectTimeout))
	defer cancel()
	l, session, err := s.begin(starting, failures)
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- session.Wait() }()
	defer func() { // the transport first: a session waits for open requests
		l.close()
		_ = session.Close()
		<-ended
	}()
	if err := s.list(starting, session); err != nil {
		return s.because(l, err)
	}
	s.log.Info("MCP server connected", "tools", len(s.offered), "refused", len(s.refused))
	return s.because(l, s.watch(ctx, session, ended))
}

// watch handles the events of a session until it ends.
func (s *server) watch(ctx context.Context, session *sdk.ClientSession, ended chan error) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-ended:
			ended <- err // for live
			if err == nil {
				err = errors.New("it ended the connection")
			}
			return err
		case <-s.broken:
			if s.dropped() {
				return errors.New("the connection broke during a call")
			}
			continue // an earlier session
		case <-s.relist:
		}
		reading, cancel := context.WithTimeout(ctx, s.cfg.ConnectTimeout.or(defaultConnectTimeout))
		err := s.list(reading, session)
		cancel()
		if err != nil {
			return err
		}
		s.log.Info("the tools of an MCP server changed", "tools", len(s.offered), "refused", len(s.refused))
		pause(ctx, relistPause)
	}
}

// list reads the tools of the server, which later turns get.
func (s *server) list(ctx context.Context, session *sdk.ClientSession) error {
	found := newListing(s)
	for tool, err := range session.Tools(ctx, nil) {
		if err != nil {
			return fmt.Errorf("list its tools: %w", err)
		}
		if found.add(tool); found.full() {
			break
		}
	}
	offered, refused := found.result()
	s.update(func() {
		s.offered, s.refused, s.session = offered, refused, session
		s.state, s.settled, s.failure = turns.MCPReady, true, ""
	})
	return nil
}

// because adds a link's reason for its end to an error.
func (s *server) because(l *link, err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err // by us
	}
	if why := l.why(); why != "" {
		return fmt.Errorf("%w; %s", err, why)
	}
	return err
}

// lost records that the connection ended.
func (s *server) lost(err error, failures int) {
	message := visible.OneLine(s.discreet(err.Error()), 300)
	state := turns.MCPConnecting
	if failures >= maxFailures && !s.host {
		state = turns.MCPFailed
	}
	level := slog.LevelWarn
	s.update(func() {
		if s.failure == message && s.settled {
			level = slog.LevelDebug // logged before
		}
		s.session, s.state, s.settled, s.failure = nil, state, true, message
	})
	s.log.Log(context.Background(), level, "MCP server is not connected", "err", message, "failures", failures)
}

// discreet removes the query of the address from errors, since it may contain keys.
func (s *server) discreet(text string) string {
	_, query, found := strings.Cut(s.cfg.URL, "?")
	if !found {
		return text
	}
	return strings.ReplaceAll(text, "?"+query, "")
}

// update changes the fields guarded by mu and wakes waiting goroutines.
func (s *server) update(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
	close(s.changed)
	s.changed = make(chan struct{})
}

// drop marks a session that a call found broken: further calls do not use it, and
// keep replaces it.
func (s *server) drop(session *sdk.ClientSession) {
	s.update(func() {
		if s.session == session {
			s.session, s.state = nil, turns.MCPConnecting
		}
	})
	select {
	case s.broken <- struct{}{}:
	default: // signaled already
	}
}

func (s *server) dropped() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.session == nil
}

// wake makes keep try a server again that failed. Goroutines that wait for the host
// wait for the result.
func (s *server) wake() {
	if s.host {
		s.mu.Lock()
		s.settled = s.settled && s.session != nil
		s.mu.Unlock()
	}
	select {
	case s.kick <- struct{}{}:
	default:
	}
}

// awaitSettled waits until the server has answered or failed once.
func (s *server) awaitSettled(ctx context.Context) {
	for {
		s.mu.Lock()
		settled, changed := s.settled, s.changed
		s.mu.Unlock()
		if settled {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// awaitSession returns a session other than old. If the server failed, or does not
// return before the end of ctx, it returns nil and the reason.
func (s *server) awaitSession(ctx context.Context, old *sdk.ClientSession) (*sdk.ClientSession, string) {
	s.wake()
	for {
		s.mu.Lock()
		session, state, failure, changed := s.session, s.state, s.failure, s.changed
		s.mu.Unlock()
		switch {
		case session != nil && session != old:
			return session, ""
		case state == turns.MCPFailed:
			return nil, failure
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, failure
		case <-s.closing:
			return nil, "agentd is shutting down"
		}
	}
}

// offers reports whether the server has the tool now; tool is its own name for it.
func (s *server) offers(tool string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.offered, func(t listed) bool { return t.tool == tool })
}

func (s *server) health() turns.MCPServer {
	s.mu.Lock()
	defer s.mu.Unlock()
	return turns.MCPServer{Name: s.name, State: s.state, Tools: len(s.offered), Refused: len(s.refused),
		Error: s.failure}
}

// invoke calls a tool in a session.
func (s *server) invoke(ctx context.Context, session *sdk.ClientSession, tool string, arguments json.RawMessage,
	meta sdk.Meta) (*sdk.CallToolResult, error) {
	params := &sdk.CallToolParams{Name: tool, Arguments: arguments, Meta: maps.Clone(meta)}
	if s.host {
		params.Meta[mcpwire.MetaTurnToken] = turntoken.Of(ctx)
	}
	if span := tracecontext.Of(ctx); span.Valid() {
		params.Meta[tracecontext.MetaKey] = span.String()
	}
	return session.CallTool(ctx, params)
}
