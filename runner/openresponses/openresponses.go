// Package openresponses is the HTTP server behind /v1/ of the host: every Open Responses client speaks with the agentd
// of a session, or with a long-lived agent, as if it were on the socket of that agentd.
//
//	client ─▶ read, check ─▶ route ─▶ edit holon ─▶ Session.Turn(ask) ─▶ agentd
//	   ▲                       │                                            │
//	   │                       └─ model agent/ID ─▶ Agents                  │
//	   └──────────── bytes, one flush for each read ◀───────────────────────┘
//
// A request that makes a turn is routed by what it continues: previous_response_id, the name in holon.session_id, the
// item of an item_reference, a turn that it repeats; any other opens a session. What reads or ends a response is
// routed by the id in its path.
//
// Invariants:
//   - The answer is agentd's: status, content type and body are copied and never encoded again. Of the client's body
//     only keys of holon change, and previous_response_id of a request that names its session alone; other keys, their
//     order and the spelling of numbers stay.
//   - A turn runs within Session.Turn, which grants, meters and records it. A request that agentd has is not sent
//
// again.
//   - A client that goes is gone for agentd too, once agentd has the turn. Before that a turn is not asked for, or its
//     answer is waited for, so that no turn runs unwatched. What becomes of the turn is agentd's decision.
//   - An answer that breaks is cut off, so that no client takes it for whole.
//   - Ids of others are unknown ids. Errors name no path of the host and no socket.
//
// Chat Completions are a mapping onto POST /v1/responses (package chat) and not passed byte for byte.
//
// It promises no order between the requests of a session: agentd queues them.
package openresponses

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

	"holon/responses"
	"holon/responses/client"
	"holon/responses/websocket"
	"holon/runner"
	"holon/runner/access"
)

// Sessions are those of all callers. Owners see their own only; an id or a name of another is not found. An id that
// agentd has sent is found, also when the watcher of its turn has not come to it. What was compacted in one session of
// an owner opens in another. Methods return *state.Error or *responses.Error for what a client may be shown.
type Sessions interface {
	Start(ctx context.Context, a Ask) (Session, error)
	Find(owner, idOrName string) (Session, error)
	OfResponse(owner, id string) (Session, error)
	OfTurn(owner, id string) (Session, error)
	OfItem(owner, id string) (Session, error)
}

// Ask is what a session is opened with.
type Ask struct {
	Owner, Name, Model, Workspace, Image string

	Once bool // nothing can continue it, so that it may be closed early
}

// Session is one container with its agentd. Its methods are called by several goroutines at once.
type Session interface {
	Info() Info
	// AgentSession is holon.session_id, and WorkDir holon.workspace_dir, of the session's turns. They are asked for
	// while the container is there.
	AgentSession() string
	WorkDir() string
	// Line is the ids of the responses that agentd has accepted, up to the one that the session's next turn follows.
	Line() []string
	// Turn runs one turn to its end. input is what it is asked, as far as that is kept. ask is called when agentd is
	// ready, and returns when it has the turn. It may be called again, with another agentd, after an error of the one
	// before.
	Turn(ctx context.Context, turnID, model, input string, ask runner.Ask) (runner.End, error)
	// Note records the id of the response of a turn that is there, and Deleted that a response is there no more.
	Note(turnID, responseID string)
	Deleted(responseID string)
	// Do calls fn with an agentd that stays while fn runs.
	Do(ctx context.Context, fn func(ctx context.Context, agent *client.Client) error) error
}

// Info is what a request is routed by.
type Info struct {
	ID, Name, Model string
	Closed          bool
}

// Agents are the long-lived agents, whose turns are responses as well.
type Agents interface {
	// Create is POST /v1/responses with the model agent/<agentID>. The same body with the same key, which is not "" and
	// no other caller's, is the same response. It has answered unless it returns an error.
	Create(ctx context.Context, c access.Caller, agentID, key string, body []byte, w http.ResponseWriter) error
	// Serve is GET, DELETE, cancel and input_items of a response of an agent.
	Serve(ctx context.Context, c access.Caller, responseID string, w http.ResponseWriter,
		r *http.Request) (found bool, err error)
	Models(ctx context.Context, c access.Caller) ([]responses.Model, error)
}

// Options are what the server needs.
type Options struct {
	Sessions Sessions
	Agents   Agents                                               // nil: there are none
	Models   func(ctx context.Context) ([]responses.Model, error) // of providers, the default first
	HoldEnds bool                                                 // answers end after Session.Turn, which saves them
	Log      *slog.Logger
}

// Server answers requests whose context has an access.Caller. Close it.
type Server struct {
	o       Options
	handler http.Handler
	sockets *websocket.Connections
	ctx     context.Context // of all turns; it ends when they are left to go on
	leave   context.CancelCauseFunc

	mu     sync.Mutex // orders begin and Close
	closed bool
	making map[string]chan struct{} // turns with ids of their callers, and next turns of sessions, until agentd has them
	turns  sync.WaitGroup
}

// New returns a server that answers at once.
func New(o Options) *Server {
	s := &Server{o: o, sockets: websocket.New(), making: make(map[string]chan struct{})}
	s.ctx, s.leave = context.WithCancelCause(context.Background()) // turns outlive their requests
	r := chi.NewRouter()
	r.Use(requestID, middleware.GetHead, s.admit)
	r.NotFound(s.notFound)
	r.MethodNotAllowed(s.methodNotAllowed)
	r.Post("/v1/responses", s.serve(s.create))
	r.Get("/v1/responses", s.serve(s.webSocket))
	r.Post("/v1/chat/completions", s.serve(s.complete))
	r.Post("/v1/responses/compact", s.serve(s.compact))
	r.Post("/v1/responses/input_tokens", s.serve(s.countTokens))
	r.Get("/v1/responses/{id}", s.serve(s.stored))
	r.Delete("/v1/responses/{id}", s.serve(s.stored))
	r.Post("/v1/responses/{id}/cancel", s.serve(s.stored))
	r.Get("/v1/responses/{id}/input_items", s.serve(s.stored))
	r.Get("/v1/models", s.serve(s.getModels))
	r.Get("/v1/models/*", s.serve(s.getModel))
	s.handler = r
	return s
}

// Close leaves the turns that run to go on without this process, and waits until nothing watches them any more.
// Requests that come later are refused.
func (s *Server) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.leave(runner.ErrLeft)
	s.sockets.Close(socketGrace)
	s.turns.Wait()
}

// begin counts the watcher of a turn; it reports false after Close.
func (s *Server) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.turns.Add(1)
	}
	return !s.closed
}

// ServeHTTP implements http.Handler. A router above it has no part in the routing.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.handler.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), chi.RouteCtxKey, (*chi.Context)(nil))))
}

// serve is a handler whose error is the answer.
func (s *Server) serve(handle func(w http.ResponseWriter, r *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		switch err := handle(w, r); {
		case errors.Is(err, errCut):
			panic(http.ErrAbortHandler)
		case err != nil:
			s.fail(w, r, err)
		}
	}
}
