package runner

import (
	"context"
	"errors"
	"path"
	"sync"
	"sync/atomic"
	"time"

	"holon/responses"
	"holon/responses/client"
	"holon/responses/turns"
	"holon/runner/gateway"
)

// The host waits cancelGrace for a cancelled turn to end in good order, and deadlineGrace beyond a turn's own
// time limit.
const (
	cancelGrace   = 5 * time.Second
	deadlineGrace = 15 * time.Second
)

// Turn is one turn of a session: what agentd is asked for, and what the host bounds and keeps while it runs.
type Turn struct {
	// Request is complete but for what the session adds: its models, its id and the directories of the container.
	Request *responses.Request
	// WorkDir is where the turn works below Config.Workspaces, "" for the session's own tree or home; AnchorDir is where
	// it reads instructions and workspace skills below Config.Anchors, "" for where it works.
	WorkDir, AnchorDir string
	Ask                Ask  // nil: the request is sent, to run in the background
	NoDeltas           bool // the Observer is not called for deltas
	bounds
}

// Ask asks agentd for a turn in another way than by its Request, of which then only id and limits count, with the
// token of the turn. It returns once agentd has accepted the turn, with what is known of its response by then: nil, or
// one that has at least an id. Its answer may be read on. ctx ends with the turn. It may be called again with another
// agentd, after an error of the one before.
type Ask func(ctx context.Context, agent *client.Client, token string) (*responses.Response, error)

// bounds are those of a turn that the host keeps. A bound of 0 means none.
type bounds struct {
	Budget gateway.Budget        // of what goes through the gateway
	Pool   *gateway.Pool         // that shares the budget with other turns; nil for none
	Taken  gateway.Account       // by this turn, of a gateway that is gone; counts against Budget
	Shared *gateway.Shared       // what the turn draws from together with others; nil for none
	Note   func(gateway.Account) // gateway.Grant.Note; may be nil
	Token  gateway.Secret        // with which the turn asks models through the gateway
	Grant  gateway.TokenHash     // of Token; zero: a new token

	DiskBytes int64        // that may be written while it runs, to its session and its working directory
	Beat      func() error // called from time to time while the turn runs; may be nil
	Admitted  func()       // called when what the turn may do is settled, before it is asked for; may be nil

	started *atomic.Bool // agentd makes the turn, which does not wait any more
}

// NewTurn returns a turn with an id and a prompt, whose other fields have their defaults.
func NewTurn(id, prompt string) Turn {
	r := responses.NewRequest("", responses.UserMessage(prompt))
	r.Holon.TurnID, r.Holon.Limits = id, new(responses.Limits)
	return Turn{Request: r}
}

// ID is the id of the turn.
func (t Turn) ID() string { return t.Request.Holon.TurnID }

// Prompt is the text of the message that the turn is about, the last one of its input.
func (t Turn) Prompt() string {
	if len(t.Request.Input) == 0 {
		return ""
	}
	m, _ := t.Request.Input[len(t.Request.Input)-1].(*responses.Message)
	if m == nil {
		return ""
	}
	return m.Text()
}

// Limits are those that agentd keeps; 0 leaves one to agentd.
func (t Turn) Limits() *responses.Limits { return t.Request.Holon.Limits }

// Optional returns nil for the zero value, which leaves a key of a request out.
func Optional[T comparable](value T) *T {
	if value == *new(T) {
		return nil
	}
	return &value
}

// Observer watches a turn. Its methods are called from one goroutine, in the order in which things happened, and must
// return quickly. An item is complete before the runtime event that names it.
type Observer interface {
	// Event is called for every event of the response stream.
	Event(ev responses.Event)
	// Fact is called for every runtime event of the turn.
	Fact(ev turns.RuntimeEvent)
}

// Turn runs one turn and returns when it is over. When ctx ends first, the turn
// is cancelled, given a moment to end in good order, and then left to Stop.
func (s *Session) Turn(ctx context.Context, req Turn, watch Observer) End {
	if req.Grant == (gateway.TokenHash{}) {
		req.Token, req.Grant = gateway.NewToken()
	}
	return s.play(ctx, req, watch, false)
}

// Rejoin watches a turn that another process began, from its first entry on. It
// asks for nothing to be done: a turn that agentd never accepted is an error of
// agentd's with code turn_not_found. With Gone there is nothing to watch: agentd is
// asked for the end if it still runs.
func (s *Session) Rejoin(ctx context.Context, req Turn, watch Observer) End {
	if s.gone != nil {
		return s.reported(ctx, req.ID())
	}
	return s.play(ctx, req, watch, true)
}

// begin asks agentd for a turn, and returns the first snapshot of its response, if there is one. It is nil for a turn
// that was begun before.
type begin func(context.Context) (*responses.Response, error)

// play asks for a turn, or rejoins it, and watches it to its end.
func (s *Session) play(ctx context.Context, req Turn, watch Observer, rejoined bool) End {
	trace := s.trace(ctx, req, rejoined)
	var ask begin
	if !rejoined {
		token, plain := req.Token.Reveal(), s.request(req)
		agent := s.client.WithModelToken(token).WithSpan(trace.Span())
		ask = func(ctx context.Context) (*responses.Response, error) {
			if req.Ask != nil {
				return req.Ask(ctx, agent, token)
			}
			return agent.Background(ctx, plain)
		}
	}
	req.started = new(atomic.Bool)
	if s.shares() && !rejoined { // the host may have changed files since the turn before
		if err := s.push(ctx); err != nil {
			return End{TurnID: req.ID(), SessionID: s.id, Err: err}
		}
	}
	end := s.settled(ctx, trace, s.admitted(ctx, req, tracing{watch, trace, req.started}, ask))
	s.explain(ctx, &end)
	s.after(ctx, s.sync)
	return end
}

// admitted runs a turn within its disk quota. As long as it runs it may call the host's tools, and ask models through
// the gateway where there is one.
func (s *Session) admitted(ctx context.Context, req Turn, watch Observer, ask begin) End {
	run := func(ctx context.Context) End { return s.watchTurn(ctx, req, watch, ask) }
	defer s.hostTools.Grant(req.ID(), req.Grant)()
	if s.gateway == nil {
		s.admit(req, ask == nil)
		return s.watched(ctx, req, run)
	}
	lease, err := s.gateway.Grant(gateway.Grant{TurnID: req.ID(), Token: req.Grant, Models: s.cfg.GatewayModels(),
		Budget: req.Budget, Pool: req.Pool, Shared: req.Shared, Taken: req.Taken, Note: req.Note})
	if err != nil {
		return End{TurnID: req.ID(), SessionID: s.id, Err: err}
	}
	defer lease.Revoke()
	s.admit(req, ask == nil)
	result := s.watched(ctx, req, run)
	lease.Revoke() // what it cuts is in the account
	account := lease.Account()
	result.Account, result.trouble = &account, lease.Trouble()
	return result
}

// admit lets the turn, and those that go on, ask from now on, unless one that goes on is to be rejoined before.
func (s *Session) admit(req Turn, rejoined bool) {
	if s.complete(req.ID(), rejoined) {
		s.barrier.Open()
	}
	if req.Admitted != nil {
		req.Admitted()
	}
}

// complete reports whether all turns that go on were rejoined, with this one.
func (s *Session) complete(turnID string, rejoined bool) bool {
	if rejoined {
		delete(s.awaited, turnID)
	}
	return len(s.awaited) == 0
}

// Await holds back what turns ask of the host until all of these, which go on, were rejoined: a turn is refused what it
// asks before that. It comes before the first turn of a session that was taken up.
func (s *Session) Await(turnIDs []string) {
	s.awaited = make(map[string]bool)
	for _, id := range turnIDs {
		s.awaited[id] = true
	}
}

// watchTurn reads the journal of the turn to its end.
func (s *Session) watchTurn(ctx context.Context, req Turn, watch Observer, ask begin) (result End) {
	result = End{TurnID: req.ID(), SessionID: s.id}
	// The journal must outlive ctx: the end of a cancelled turn is read from it.
	reading, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stop(nil)
	if limit := req.Limits().TimeoutMS; limit > 0 {
		var cancel context.CancelFunc
		reading, cancel = context.WithTimeoutCause(reading, time.Duration(limit)*time.Millisecond+deadlineGrace,
			ErrDeadline)
		defer cancel()
	}
	var group sync.WaitGroup
	defer group.Wait()
	begun := make(chan string, 1)
	group.Go(func() { s.cancelWith(ctx, reading, stop, begun) })
	err := s.read(reading, req, ask, func(resp *responses.Response) {
		if result.Response == nil {
			begun <- resp.ID
		}
		result.Response = resp
	}, watch)
	if err == nil && result.Response == nil {
		err = &Error{Code: codeBadStream, Message: "agentd's stream had no response in it"}
	}
	if err != nil {
		result.Err = namingMCPConfig(s.turnError(ctx, reading, err), s.cfg.MCPConfig)
	}
	result.interrupted = errors.Is(context.Cause(ctx), ErrInterrupted) && !completed(result)
	stop(nil)
	return result
}

// read begins a turn, if ask is not nil, and passes what it does to watch, and each snapshot of its response to note.
func (s *Session) read(ctx context.Context, req Turn, ask begin, note func(*responses.Response),
	watch Observer) error {
	if ask != nil {
		resp, err := ask(ctx)
		if err != nil {
			return err
		}
		if resp != nil {
			note(resp)
		}
	}
	for e, err := range s.client.Entries(ctx, req.ID(), !req.NoDeltas) {
		switch {
		case err != nil:
			return err
		case e.Runtime != nil:
			watch.Fact(*e.Runtime)
			continue
		case e.Stream.Response != nil:
			note(e.Stream.Response)
		}
		watch.Event(*e.Stream)
	}
	return nil
}

// completed reports whether the turn came to its own end.
func completed(r End) bool {
	return r.Err == nil && r.Response != nil && r.Response.Status == responses.StatusCompleted
}

// Preview returns what a model would be asked first in a turn, which is not made. It may be called while another turn
// runs, by another goroutine.
func (s *Session) Preview(ctx context.Context, req Turn) (turns.Preview, error) {
	health, err := s.client.Health(ctx)
	if err != nil {
		return turns.Preview{}, err
	}
	if health.ActiveTurns+health.QueuedTurns == 0 { // a turn that another process began is heard once it is admitted
		s.barrier.Open()
	}
	return s.client.Preview(ctx, s.request(req))
}

// request is the request to agentd.
func (s *Session) request(t Turn) *responses.Request {
	r := *t.Request
	r.Model = s.cfg.Model
	r.Holon.SessionID, r.Holon.OnDisconnect, r.Holon.ModelFallbacks = s.id, "continue", s.cfg.Fallbacks
	if s.cfg.InputDir != "" {
		r.Holon.InputDir = s.inside(inputPath)
	}
	switch {
	case t.WorkDir != "":
		r.Holon.WorkspaceDir = s.WorkspaceDir(t.WorkDir)
	case s.tree != nil:
		r.Holon.WorkspaceDir = s.inside(s.workDir())
	default:
		r.Holon.WorkspaceDir = s.treeDir()
	}
	if t.AnchorDir != "" {
		r.Holon.AnchorDir = s.inside(path.Join(anchorsPath, t.AnchorDir))
	}
	return &r
}

// WorkspaceDir is a directory below Config.Workspaces as the program sees it.
func (s *Session) WorkspaceDir(workDir string) string {
	return s.inside(path.Join(WorkspacesPath, workDir))
}

// workDir is where the agent starts within the tree: the user may have run
// holon in a folder below the top of the repository.
func (s *Session) workDir() string {
	dir := s.treePath()
	if prefix := s.tree.Info().Prefix; prefix != "" {
		dir += "/" + prefix
	}
	return dir
}

// cancelWith cancels the turn when ctx ends, and gives up on its stream if the
// turn does not end soon after, whether or not agentd has answered at all. begun
// gives the response's id once agentd accepted the turn.
func (s *Session) cancelWith(ctx, streaming context.Context, stop context.CancelCauseFunc, begun <-chan string) {
	select {
	case <-streaming.Done():
		return
	case <-ctx.Done():
	}
	if errors.Is(context.Cause(ctx), ErrLeft) {
		stop(ErrLeft)
		return
	}
	grace, cancel := context.WithTimeout(streaming, cancelGrace)
	defer cancel()
	select {
	case id := <-begun:
		if _, err := s.client.Cancel(grace, id); err != nil {
			s.cfg.Log.Debug("the turn did not end when it was cancelled", "err", err)
			cancel()
		}
	case <-grace.Done():
	}
	<-grace.Done() // at once when the stream has come to its end
	stop(context.Cause(ctx))
}

// turnError says why a stream broke off, by the cause that lies deepest.
func (s *Session) turnError(ctx, streaming context.Context, err error) error {
	if cause := context.Cause(streaming); cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if e, ok := errors.AsType[*responses.Error](err); ok && e.Code != responses.CodeServerUnreachable &&
		e.Code != responses.CodeServerDisconnected {
		return err // the server's own refusal
	}
	// A broken connection usually means that the container is going down; its
	// exit tells more than the connection does.
	if !s.endsWithin(ctx, endingTime) {
		return err
	}
	s.ended(s.last)
	return s.diedError(ctx, "the container ended during the turn")
}
