package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"holon/agentd/turntoken"
	"holon/responses/turns"
)

// How a connection is tried again after it broke or failed.
const (
	maxFailures  = 6                // in a row, after which somebody has to need the server
	healthyAfter = time.Minute      // a connection that lasted so long did not fail
	retryAfter   = 30 * time.Second // pause before a server that was given up is tried for a turn
	relistPause  = time.Second      // between two readings of the list of tools
	maxPages     = 64               // of a list of tools
)

// server is one server and the connection to it, which keep maintains.
type server struct {
	name string
	cfg  Server
	dial dialer
	host bool // its tools have their own names, and it knows calls by their ids
	log  *slog.Logger
	impl *sdk.Implementation

	kick    chan struct{} // somebody needs it
	relist  chan struct{} // its tools have changed
	broken  chan struct{} // a call found the session so
	closing <-chan struct{}

	mu       sync.Mutex
	state    string        // one of turns.MCP…
	changed  chan struct{} // closed and replaced when the fields here change
	settled  bool          // it has answered or failed once
	session  *sdk.ClientSession
	offered  []listed // of the last list that was read; kept while it is away
	refused  []Note   // of the same list
	failure  string   // why it is away
	lastTry  time.Time
	attempts int
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
		if s.host || failures < maxFailures { // a turn begins only where the host is back
			s.pause(ctx, s.backoff(failures), failures > 1)
			continue
		}
		s.pause(ctx, retryAfter, false)
		select {
		case <-s.kick:
		case <-ctx.Done():
		}
	}
	s.update(func() { s.session, s.state = nil, turns.MCPFailed })
}

// backoff is the pause after so many failures in a row. The host comes back soon
// or not at all, and calls wait for it.
func (s *server) backoff(failures int) time.Duration {
	first, limit := time.Second, 30*time.Second
	if s.host {
		first, limit = 50*time.Millisecond, time.Second
	}
	return min(first<<min(failures-1, 10), limit)
}

// pause waits. A call that needs the server ends a pause that may be ended.
func (s *server) pause(ctx context.Context, d time.Duration, mayEnd bool) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	var kick <-chan struct{}
	if mayEnd && s.host {
		kick = s.kick
	}
	select {
	case <-timer.C:
	case <-kick:
	case <-ctx.Done():
	}
}

// live opens one connection, keeps it until it ends, and says why it did.
func (s *server) live(ctx context.Context, failures int) error {
	s.update(func() { s.lastTry, s.attempts = time.Now(), failures })
	starting, cancel := context.WithTimeout(ctx, s.cfg.ConnectTimeout.or(defaultConnectTimeout))
	defer cancel()
	l, err := s.dial(starting)
	if err != nil {
		return err
	}
	defer l.close()
	session, err := s.connect(starting, l, failures)
	if err != nil {
		return s.because(l, err)
	}
	ended := make(chan error, 1)
	go func() { ended <- session.Wait() }()
	defer func() { // the transport first: a session waits for what is open
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

// connect begins a session. Every second attempt after a failure speaks the
// older form of the protocol at once, for servers that fall over the newer one.
func (s *server) connect(ctx context.Context, l *link, failures int) (*sdk.ClientSession, error) {
	client := sdk.NewClient(s.impl, &sdk.ClientOptions{
		// Nothing is offered to servers: no sampling, no roots, no questions to users.
		Capabilities:   &sdk.ClientCapabilities{},
		MultiRoundTrip: &sdk.MultiRoundTripOptions{Disabled: true},
		Logger:         slog.New(slog.DiscardHandler),
		ToolListChangedHandler: func(context.Context, *sdk.ToolListChangedRequest) {
			select {
			case s.relist <- struct{}{}:
			default: // one is as good as many
			}
		},
	})
	var opts *sdk.ClientSessionOptions
	if failures%2 == 1 {
		opts = &sdk.ClientSessionOptions{ProtocolVersion: "2025-06-18"}
	}
	type opened struct {
		session *sdk.ClientSession
		err     error
	}
	// The SDK may be writing to a server that does not read when ctx ends.
	done := make(chan opened, 1)
	go func() {
		session, err := client.Connect(ctx, l.transport, opts)
		done <- opened{session, err}
	}()
	select {
	case o := <-done:
		return o.session, o.err
	case <-ctx.Done():
		l.close()
		if o := <-done; o.session != nil {
			_ = o.session.Close()
		}
		return nil, fmt.Errorf("it did not answer in time: %w", ctx.Err())
	}
}

// watch sees to a session until it ends.
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
			continue // it was an earlier one
		case <-s.relist:
		}
		reading, cancel := context.WithTimeout(ctx, s.cfg.ConnectTimeout.or(defaultConnectTimeout))
		err := s.list(reading, session)
		cancel()
		if err != nil {
			return err
		}
		s.log.Info("the tools of an MCP server changed", "tools", len(s.offered), "refused", len(s.refused))
		s.pause(ctx, relistPause, false)
	}
}

// list reads what the server offers and makes it what turns get from now on.
func (s *server) list(ctx context.Context, session *sdk.ClientSession) error {
	found := newListing(s)
	params := &sdk.ListToolsParams{}
	for range maxPages {
		page, err := call(ctx, func(ctx context.Context) (*sdk.ListToolsResult, error) {
			return session.ListTools(ctx, params)
		})
		if err != nil {
			return fmt.Errorf("list its tools: %w", err)
		}
		for _, tool := range page.Tools {
			found.add(tool)
		}
		if page.NextCursor == "" || found.full() {
			break
		}
		params = &sdk.ListToolsParams{Cursor: page.NextCursor}
	}
	offered, refused := found.result()
	s.update(func() {
		s.offered, s.refused, s.session = offered, refused, session
		s.state, s.settled, s.failure = turns.MCPReady, true, ""
	})
	return nil
}

// call waits for an answer, but not longer than ctx lets it: the SDK may be
// writing to a server that does not read. What it then still does ends with the
// connection's own bounds.
func call[T any](ctx context.Context, do func(context.Context) (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	answered := make(chan answer, 1)
	go func() {
		value, err := do(ctx)
		answered <- answer{value, err}
	}()
	select {
	case a := <-answered:
		return a.value, a.err
	case <-ctx.Done():
		var zero T
		return zero, ctx.Err()
	}
}

// because adds what a link knows of its end.
func (s *server) because(l *link, err error) error {
	if errors.Is(err, context.Canceled) {
		return err // by us
	}
	if why := l.why(); why != "" {
		return fmt.Errorf("%w; %s", err, why)
	}
	return err
}

// lost notes that the connection is gone.
func (s *server) lost(err error, failures int) {
	message := clean(s.discreet(err.Error()), 300)
	state := turns.MCPConnecting
	if failures >= maxFailures && !s.host {
		state = turns.MCPFailed
	}
	level := slog.LevelWarn
	s.update(func() {
		if s.failure == message && s.settled {
			level = slog.LevelDebug // said before
		}
		s.session, s.state, s.settled, s.failure = nil, state, true, message
	})
	s.log.Log(context.Background(), level, "MCP server is not connected", "err", message, "failures", failures)
}

// discreet takes the query out of addresses in errors, in which people put keys.
func (s *server) discreet(text string) string {
	_, query, found := strings.Cut(s.cfg.URL, "?")
	if !found {
		return text
	}
	return strings.ReplaceAll(text, "?"+query, "")
}

// update changes what mu guards and tells those who wait.
func (s *server) update(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
	close(s.changed)
	s.changed = make(chan struct{})
}

// drop has a session replaced that a call found broken, and keeps further calls
// from it.
func (s *server) drop(session *sdk.ClientSession) {
	s.update(func() {
		if s.session == session {
			s.session, s.state = nil, turns.MCPConnecting
		}
	})
	select {
	case s.broken <- struct{}{}:
	default: // somebody said so
	}
}

func (s *server) dropped() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.session == nil
}

// wake has a server tried again that was given up. What awaits the host then waits
// for what comes of that.
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

// awaitSession returns a session other than old. Of a server that is not coming
// back, or not soon enough for ctx, it returns none and why.
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

// offers reports whether the server has the tool now, by its own name.
func (s *server) offers(tool string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.offered {
		if t.tool == tool {
			return true
		}
	}
	return false
}

func (s *server) health() turns.MCPServer {
	s.mu.Lock()
	defer s.mu.Unlock()
	return turns.MCPServer{Name: s.name, State: s.state, Tools: len(s.offered), Refused: len(s.refused),
		Error: s.failure}
}

// invoke calls a tool in a session.
func (s *server) invoke(ctx context.Context, session *sdk.ClientSession, tool string, arguments json.RawMessage,
	callID string) (*sdk.CallToolResult, error) {
	params := &sdk.CallToolParams{Name: tool, Arguments: arguments, Meta: sdk.Meta{MetaCallID: callID}}
	if s.host {
		params.Meta[MetaTurnToken] = turntoken.Of(ctx)
	}
	return call(ctx, func(ctx context.Context) (*sdk.CallToolResult, error) { return session.CallTool(ctx, params) })
}
