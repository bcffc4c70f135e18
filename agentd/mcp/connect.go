package mcp

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"holon/internal/visible"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// lastWithInitialize is the last version of the protocol that begins with initialize.
const lastWithInitialize = "2025-11-25"

// probeTimeout is the time for a server to say that it knows the version after it.
const probeTimeout = 2 * time.Second

// begin opens a connection and begins a session on it. A server from before 2026 may end, or be silent, when it is
// asked what it is before it is initialized: after a short time it is connected to once more and initialized at once.
// Every second attempt gives the first question all the time, for a newer server that starts slowly.
func (s *server) begin(ctx context.Context, failures int) (*link, *sdk.ClientSession, error) {
	if s.host || failures%2 == 1 {
		return s.open(ctx, nil)
	}
	asking, cancel := context.WithTimeout(ctx, min(probeTimeout, s.cfg.ConnectTimeout.or(defaultConnectTimeout)/2))
	defer cancel()
	l, session, err := s.open(asking, nil)
	if err == nil || l == nil || ctx.Err() != nil {
		return l, session, err
	}
	s.log.Debug("an MCP server is connected to as an older one", "err", visible.OneLine(s.discreet(err.Error()), 300))
	return s.open(ctx, &sdk.ClientSessionOptions{ProtocolVersion: lastWithInitialize})
}

// open opens one connection, nil if there is none, and begins a session on it. It closes a connection without one.
func (s *server) open(ctx context.Context, opts *sdk.ClientSessionOptions) (*link, *sdk.ClientSession, error) {
	l, err := s.dial(ctx)
	if err != nil {
		return nil, nil, err
	}
	session, err := s.connect(ctx, l, opts)
	if err != nil {
		err = s.because(l, err)
		l.close()
	}
	return l, session, err
}

// connect begins a session.
func (s *server) connect(ctx context.Context, l *link, opts *sdk.ClientSessionOptions) (*sdk.ClientSession, error) {
	client := sdk.NewClient(s.impl, &sdk.ClientOptions{
		// Nothing is offered to servers: no sampling, no roots, no questions to users.
		Capabilities:   &sdk.ClientCapabilities{},
		MultiRoundTrip: &sdk.MultiRoundTripOptions{Disabled: true},
		Logger:         slog.New(slog.DiscardHandler),
		ToolListChangedHandler: func(context.Context, *sdk.ToolListChangedRequest) {
			select {
			case s.relist <- struct{}{}:
			default: // one pending signal is enough
			}
		},
	})
	session, err := client.Connect(ctx, l.transport, opts)
	if ctx.Err() != nil {
		return nil, fmt.Errorf("it did not answer in time: %w", ctx.Err())
	}
	return session, err
}
