package runner

import (
	"context"
	"errors"
	"iter"
	"sync"
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
	factsGrace    = 2 * time.Second
)

// Turn is one turn of a session: what agentd is asked for, and what the host bounds and keeps while it runs.
type Turn struct {
	// Request is complete but for what the session adds: its models, its id and the directories of the container.
	Request *responses.Request
	Bounds
}

// Bounds are those of a turn that the host keeps. A bound of 0 means none.
type Bounds struct {
	Budget gateway.Budget        // of what goes through the gateway
	Taken  gateway.Account       // by this turn, of a gateway that is gone; counts against Budget
	Note   func(gateway.Account) // gateway.Grant.Note; may be nil
	Token  gateway.Secret        // with which the turn asks models through the gateway
	Grant  gateway.TokenHash     // of Token; zero: a new token

	DiskBytes int64        // that it may write while it runs, to its session and its working directory
	Beat      func() error // called from time to time while the turn runs; may be nil
}

// NewTurn returns a turn with an id and a prompt, whose other fields have their defaults.
func NewTurn(id, prompt string) Turn {
	r := responses.NewRequest("", responses.UserMessage(prompt))
	r.Holon.TurnID, r.Holon.Limits = id, new(responses.Limits)
	return Turn{Request: r}
}

// ID is the id of the turn.
func (t Turn) ID() string { return t.Request.Holon.TurnID }

// Prompt is the text that the turn begins with.
func (t Turn) Prompt() string {
	if len(t.Request.Input) == 0 {
		return ""
	}
	m, _ := t.Request.Input[0].(*responses.Message)
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

// Observer watches a turn. Its methods are called from two goroutines, never
// for the same kind of event at once, and must return quickly.
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
	trace := s.trace(ctx, req, false)
	agent := s.client.WithModelToken(req.Token.Reveal()).WithSpan(trace.Span())
	told := tracing{watch, trace}
	return s.settled(ctx, trace, s.admitted(ctx, req, told, func(ctx context.Context, w Observer) End {
		return s.watchTurn(ctx, req, w, func(ctx context.Context) iter.Seq2[responses.Event, error] {
			return agent.Follow(ctx, s.request(req))
		})
	}))
}

// Rejoin watches a turn that another process began, from its first event on. It
// asks for nothing to be done: a turn that agentd never accepted is an error of
// agentd's with code turn_not_found.
func (s *Session) Rejoin(ctx context.Context, req Turn, watch Observer) End {
	rec, err := s.client.Turn(ctx, req.ID())
	if err != nil {
		end := End{TurnID: req.ID(), SessionID: s.id, Err: s.turnError(ctx, ctx, err)}
		end.Settle(context.Cause(ctx), s.cfg.Secrets)
		return end
	}
	trace := s.trace(ctx, req, true)
	told := tracing{watch, trace}
	return s.settled(ctx, trace, s.admitted(ctx, req, told, func(ctx context.Context, w Observer) End {
		return s.watchTurn(ctx, req, w, func(ctx context.Context) iter.Seq2[responses.Event, error] {
			return s.client.Rejoin(ctx, rec.ResponseID, client.FromStart)
		})
	}))
}

// runTurn watches a turn to its end, and asks for it first if need be.
type runTurn func(context.Context, Observer) End

// admitted runs a turn within its disk quota. As long as it runs it may call the host's tools, and ask models through
// the gateway where there is one.
func (s *Session) admitted(ctx context.Context, req Turn, watch Observer, run runTurn) End {
	defer s.hostTools.Grant(req.ID(), req.Grant)()
	if s.gateway == nil {
		s.gate.Open()
		return s.watched(ctx, req, watch, run)
	}
	lease, err := s.gateway.Grant(gateway.Grant{TurnID: req.ID(), Token: req.Grant, Models: s.cfg.GatewayModels(),
		Budget: req.Budget, Taken: req.Taken, Note: req.Note})
	if err != nil {
		return End{TurnID: req.ID(), SessionID: s.id, Err: err}
	}
	defer lease.Revoke()
	// A turn that goes on may be asking already: it is heard from now on.
	s.gate.Open()
	result := s.watched(ctx, req, watch, run)
	lease.Revoke() // what it cuts is in the account
	account := lease.Account()
	result.Account, result.trouble = &account, lease.Trouble()
	return result
}

// watchTurn reads the events of the turn to their end.
func (s *Session) watchTurn(ctx context.Context, req Turn, watch Observer,
	events func(context.Context) iter.Seq2[responses.Event, error]) (result End) {
	result = End{TurnID: req.ID(), SessionID: s.id}
	if s.cfg.Scenario != "" {
		result.scenario = [2]string{s.inside(hostPath) + "/" + scenarioFile, s.cfg.Scenario}
	}
	// The stream must outlive ctx: the end of a cancelled turn is read from it.
	streaming, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stop(nil)
	if limit := req.Limits().TimeoutMS; limit > 0 {
		var cancel context.CancelFunc
		streaming, cancel = context.WithTimeoutCause(streaming, time.Duration(limit)*time.Millisecond+deadlineGrace,
			ErrDeadline)
		defer cancel()
	}
	var group sync.WaitGroup
	defer group.Wait()
	known := make(chan string, 1)
	var facts chan struct{} // closed when there are no more, nil before the turn has begun
	group.Go(func() { s.cancelWith(ctx, streaming, stop, known) })
	defer func() { result.interrupted = errors.Is(context.Cause(ctx), ErrInterrupted) && !completed(result) }()
	for ev, err := range events(streaming) {
		if err != nil {
			result.Err = namingMCPConfig(s.turnError(ctx, streaming, err), s.cfg.MCPConfig)
			break
		}
		if ev.Response != nil {
			if result.Response == nil {
				known <- ev.Response.ID
				turnID, ended := result.TurnID, make(chan struct{})
				facts = ended
				group.Go(func() {
					defer close(ended)
					s.follow(streaming, turnID, watch)
				})
			}
			result.Response = ev.Response
		}
		watch.Event(ev)
	}
	if result.Err == nil && result.Response == nil {
		result.Err = &Error{Code: codeBadStream, Message: "agentd's stream had no response in it"}
	}
	if facts != nil && result.Err == nil {
		select { // the facts end with the turn, on a connection of their own
		case <-facts:
		case <-time.After(factsGrace):
		}
	}
	stop(nil)
	return result
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
		s.gate.Open()
	}
	return s.client.Preview(ctx, s.request(req))
}

// request is the request to agentd.
func (s *Session) request(t Turn) *responses.Request {
	r := *t.Request
	r.Model = s.model()
	r.Holon.SessionID, r.Holon.OnDisconnect, r.Holon.ModelFallbacks = s.id, "continue", s.cfg.Fallbacks
	if s.cfg.InputDir != "" {
		r.Holon.InputDir = s.inside(inputPath)
	}
	if s.tree != nil {
		r.Holon.WorkspaceDir = s.inside(s.workDir())
	} else {
		r.Holon.WorkspaceDir = s.treeDir()
	}
	return &r
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

// follow hands the turn's runtime events to watch until the turn is over. They
// are for show; the record of them is in the turn directory.
func (s *Session) follow(ctx context.Context, turnID string, watch Observer) {
	for line, err := range s.client.TurnEvents(ctx, turnID, 0, true) {
		if err != nil {
			if ctx.Err() == nil {
				s.cfg.Log.Debug("runtime events broke off", "turn", turnID, "err", err)
			}
			return
		}
		ev, err := turns.DecodeRuntimeEvent(line)
		if err != nil {
			s.cfg.Log.Debug("a runtime event is malformed", "turn", turnID, "err", err)
			continue
		}
		watch.Fact(Named(ev, s.cfg.Model))
	}
}

// cancelWith cancels the turn when ctx ends, and gives up on its stream if the
// turn does not end soon after, whether or not agentd has answered at all. known
// gives the response's id once it is.
func (s *Session) cancelWith(ctx, streaming context.Context, stop context.CancelCauseFunc, known <-chan string) {
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
	case id := <-known:
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
	select {
	case exit := <-s.exited:
		s.ended(exit)
		return s.diedError(ctx, "the container ended during the turn")
	case <-time.After(2 * time.Second):
		return err
	}
}
