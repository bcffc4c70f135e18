// Package hosttools is the host's MCP server for one container, on host.sock.
//
// The socket serves only agentd of that container, and a call needs the token of a
// running turn ([Server.Grant]), so that commands in the container cannot call. The
// invariant: a call that was answered is durable, and a repeated call id gets the
// first answer without another call, also after a restart. Input is bounded before
// it is decoded, and not trusted.
package hosttools

import (
	"context"
	"log/slog"
	"net"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"holon/internal/mcpwire"
	"holon/internal/redact"
	"holon/runner/socket"
	"holon/state"
)

const (
	maxConnections = 8       // of one container
	maxMessage     = 8 << 20 // bytes: 1 MiB of text, whatever has to be escaped in it
)

// Options say what is served.
type Options struct {
	Socket  string          // absolute path
	Owner   *socket.Owner   // of the socket; nil: this process's user
	Barrier *socket.Barrier // before which connections wait; nil for none
	// Notes is the file with the notes of the run. It must be where no container
	// can write. "": there is no turn_note.
	Notes   string
	Secrets *redact.Set // taken out of notes before they are kept, and of results; nil for none
	Tools   []Tool      // tools of the agent in addition to turn_note
	// Inside returns how agentd sees a path of the container, for the directories that results name; nil: as it is.
	Inside  func(path string) string
	Version string // of this program, for the agent
	Log     *slog.Logger
}

// Server serves one container. All methods are safe for concurrent use.
type Server struct {
	log     *slog.Logger
	notes   *notes
	secrets *redact.Set
	inside  func(string) string
	grants  *grants
	mcp     *mcp.Server
	socket  *socket.Socket
	ctx     context.Context
	stop    context.CancelFunc
	workers sync.WaitGroup

	closeOnce sync.Once
	closeErr  error
}

// Serve serves the tools until Close. The context covers the call only. Errors
// are about the socket (*state.Error) or the file with the notes.
func Serve(ctx context.Context, o Options) (*Server, error) {
	var kept *notes
	if o.Notes != "" {
		var err error
		if kept, err = openNotes(o.Notes); err != nil {
			return nil, err
		}
		o.Tools = append([]Tool{kept.tool(o.Secrets)}, o.Tools...)
	}
	if err := checkTools(o.Tools); err != nil {
		return nil, err
	}
	sock, err := socket.Listen(ctx, o.Socket, "host's tools", o.Owner)
	if err != nil {
		return nil, err
	}
	s := &Server{log: o.Log, notes: kept, secrets: o.Secrets, inside: o.Inside, grants: newGrants(), socket: sock}
	s.ctx, s.stop = context.WithCancel(context.WithoutCancel(ctx)) // calls live until Close
	s.mcp = mcp.NewServer(&mcp.Implementation{Name: "holon", Version: o.Version}, &mcp.ServerOptions{
		Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}}, // they never change
	})
	for _, t := range o.Tools {
		s.offer(t)
	}
	s.mcp.AddReceivingMiddleware(s.turnsOnly)
	listener := sock.BoundedBehind(o.Barrier, maxConnections)
	s.workers.Go(func() { socket.AcceptAll(s.ctx, listener, s.log, &s.workers, s.serve) })
	return s, nil
}

// serve serves one connection to its end.
func (s *Server) serve(conn net.Conn) {
	session, err := s.mcp.Connect(s.ctx,
		&mcpwire.Stream{Reader: conn, Writer: mcpwire.Conn{Conn: conn}, Close: conn.Close, MaxMessage: maxMessage}, nil)
	if err == nil {
		err = session.Wait()
	}
	if err != nil && s.ctx.Err() == nil {
		s.log.Debug("a connection to the host's tools ended", "err", err)
	}
}

// Path returns the socket's path.
func (s *Server) Path() string { return s.socket.Path() }

// Notes returns what the agent has noted so far, the oldest first.
func (s *Server) Notes() []state.Note { return s.notes.list() }

// Close ends every connection, waits for the calls that are being made, and
// removes the socket. The notes can still be read. It may be called more than
// once.
func (s *Server) Close() error {
	s.closeOnce.Do(func() {
		s.stop()
		s.workers.Wait()
		s.closeErr = s.socket.Remove()
	})
	return s.closeErr
}
