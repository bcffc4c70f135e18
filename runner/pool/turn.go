package pool

import (
	"context"
	"errors"
	"sync"
	"time"

	"holon/responses"
	"holon/responses/turns"
	"holon/runner"
	"holon/runner/gateway"
	"holon/runner/sessions"
	"holon/state"
)

// Turn makes a turn and returns when it is over. began is called once, as soon as
// agentd has accepted the turn, which is then on its disk; watch receives what it
// does. An error, an *Error, means that no turn was begun, with one exception:
// CodeLeft, of a turn that ctx ended with runner.ErrLeft as its cause, and that goes
// on without a holon. Any other end of ctx ends the turn. A container that dies
// before it took the turn is replaced once, and so is an agent's that can take none
// because of what it keeps; see setAside.
func (k *Pool) Turn(ctx context.Context, t Turn, began func(), watch runner.Observer) (runner.End, error) {
	u, err := k.use(ctx, t.AgentID)
	if err != nil {
		return runner.End{}, k.typed(ctx, err)
	}
	defer u.end()
	a := u.agent
	ask := func() (runner.End, error) { return k.tried(ctx, u, t, began, watch) }
	if a.unrecorded >= maxUnrecorded {
		return k.setAside(ctx, a, &Error{Code: responses.CodeServerError, Message: turns.Unrecorded}, ask)
	}
	result, err := ask()
	if !spoiled(err) || ctx.Err() != nil || !k.ofAgents() {
		return result, err
	}
	return k.setAside(ctx, a, err, ask)
}

// tried asks for a turn, of another container if need be.
func (k *Pool) tried(ctx context.Context, u *use, t Turn, began func(), watch runner.Observer) (runner.End, error) {
	for again := true; ; {
		fresh, err := k.ready(ctx, u.agent, t)
		if errors.Is(err, errInUse) {
			if err = u.wait(ctx); err == nil {
				continue
			}
		}
		if err != nil {
			return runner.End{}, k.typed(ctx, err)
		}
		u.kept = false
		result, err := k.ask(ctx, u, t, began, watch)
		if err == nil {
			result.Fresh = fresh
			k.noteUnrecorded(ctx, u, result)
			return result, nil
		}
		if spoiled(err) && ctx.Err() == nil && k.ofAgents() {
			k.closeLogged(ctx, u.agent) // what it holds of its files may be wrong, and the files right
			u.kept = false
		}
		if fresh != "" || !again || u.kept || ctx.Err() != nil { // it refused, or a second one would too
			return runner.End{}, err
		}
		again = false
	}
}

// ofAgents reports whether the containers are those of agents.
func (k *Pool) ofAgents() bool { return k.kind() == sessions.Agents }

func (k *Pool) kind() sessions.Kind { return k.opts.Key("").Kind() }

// Interject gives the turn that the agent makes a message of its user, under an id
// by which it may be sent again. It returns when agentd has it on its disk: it is
// given to the model, unless the turn ends first (End.Inserted). An agent that
// does not make that turn, or not any more, is CodeNoTurn.
func (k *Pool) Interject(ctx context.Context, agentID, turnID, id, text string) error {
	k.mu.Lock()
	var live *sessions.Session
	if a := k.agents[agentID]; a != nil && a.turn == turnID {
		live = a.live
	}
	k.mu.Unlock()
	over := &Error{Code: CodeNoTurn, Param: "run_id", Message: "agent " + agentID + " does not make that turn",
		Hint: "send it as a message of its own"}
	if live == nil {
		return over
	}
	_, err := live.Client().Input(ctx, turnID, id, text)
	if e, ok := errors.AsType[*responses.Error](err); ok &&
		(e.Code == responses.CodeTurnEnded || e.Code == responses.CodeTurnNotFound) {
		return over
	}
	if err != nil {
		return k.typed(ctx, err)
	}
	return nil
}

// ask asks the agent's container for the turn.
func (k *Pool) ask(ctx context.Context, u *use, t Turn, began func(), watch runner.Observer) (runner.End, error) {
	session, req := u.agent.session, k.request(t)
	req.Admitted = u.share
	return k.follow(ctx, u, t, began, watch, func(ctx context.Context, w runner.Observer) runner.End {
		return session.Turn(ctx, req, w)
	})
}

// follow watches a turn that run asks for or joins to its end.
func (k *Pool) follow(ctx context.Context, u *use, t Turn, began func(), watch runner.Observer,
	run func(context.Context, runner.Observer) runner.End) (runner.End, error) {
	a, session := u.agent, u.agent.session
	k.begin(a, t.ID())
	defer k.end(a)
	a.dirty = true
	w := &watcher{Observer: watch, began: began, begun: make(chan struct{})}
	turn, giveUp := context.WithCancelCause(ctx)
	nudged := make(chan struct{})
	go func() {
		defer close(nudged)
		k.nudge(turn, session, w.begun, giveUp)
	}()
	end := run(turn, w)
	giveUp(nil)
	<-nudged
	if u.session == nil {
		a.checked = k.opts.Now()
	}
	switch {
	case errors.Is(end.Err, runner.ErrLeft):
		return runner.End{}, &Error{Code: CodeLeft, Message: "the turn goes on by itself"}
	case end.Err == nil:
		w.once.Do(w.begin)
		k.noteTasks(ctx, a, session, end)
		k.replayRest(ctx, a, w, end.TurnID)
		return end, nil
	case end.Response == nil && refused(end.Err):
		u.kept = true
		return runner.End{}, k.typed(ctx, end.Err)
	}
	k.opts.Log.Info("the end of a turn was not seen", "agent", a.id, "turn", end.TurnID, "err", end.Err)
	// The end was not seen. The container is ended before the end is looked for on the disk.
	if u.own() {
		k.closeLogged(ctx, a)
	}
	end = k.sessions.Unseen(ctx, a.key, end, false)
	if end.NotBegun {
		return runner.End{}, k.typed(ctx, end.Err)
	}
	w.once.Do(w.begin) // its answer may have been lost
	k.replayRest(ctx, a, w, end.TurnID)
	return end, nil
}

// replayRest reports the facts to a watcher that did not see the end of the turn.
func (k *Pool) replayRest(ctx context.Context, a *agent, w *watcher, turnID string) {
	if !w.ended {
		k.sessions.Replay(ctx, a.key, turnID, w)
	}
}

// agentd accepts a turn at once. After nudgeAfter without an answer its container is resumed, and after
// silentAfter it is given up.
const (
	nudgeAfter  = 3 * time.Second
	silentAfter = 30 * time.Second
)

// nudge sees to a turn that is not accepted: somebody else may have paused the
// container, and an agentd that never answers is given up.
func (k *Pool) nudge(ctx context.Context, session *sessions.Session, begun <-chan struct{},
	giveUp context.CancelCauseFunc) {
	select {
	case <-begun:
		return
	case <-ctx.Done():
		return
	case <-time.After(nudgeAfter):
	}
	if err := session.Resume(ctx); err != nil {
		k.opts.Log.Debug("a silent container cannot be resumed", "container", session.ID(), "err", err)
	}
	for broken := true; broken; _, broken = session.Linked() {
		select {
		case <-begun:
			return
		case <-ctx.Done():
			return
		case <-time.After(silentAfter - nudgeAfter):
		}
	}
	giveUp(runner.ErrSilent)
}

// refused reports whether a turn was not begun because the gateway or agentd said
// no: the container is as it was.
func refused(err error) bool {
	if e, ok := errors.AsType[*responses.Error](err); ok {
		return e.Code != responses.CodeServerUnreachable && e.Code != responses.CodeServerDisconnected
	}
	return errors.Is(err, sessions.ErrNotAsked) || state.IsCode(err, gateway.CodeInvalidGrant) ||
		state.IsCode(err, gateway.CodeNoPrice)
}

// request is the turn as the session is asked for it: within the quota, and with a history that is summed up when it
// does not fit, because a conversation grows beyond any window.
func (k *Pool) request(t Turn) runner.Turn {
	req := *t.Request
	req.Truncation = "auto"
	t.Request, t.DiskBytes = &req, k.opts.Quota.Run
	return t.Turn
}

// watcher reports the begin of a turn before anything else of it, and each event once.
type watcher struct {
	runner.Observer
	facts int64 // number of the newest that was passed on
	ended bool  // that was the end of the turn
	began func()
	begun chan struct{} // closed then
	once  sync.Once
}

func (w *watcher) Event(ev responses.Event) {
	if ev.Response != nil {
		w.once.Do(w.begin)
	}
	w.Observer.Event(ev)
}

func (w *watcher) Fact(ev turns.RuntimeEvent) {
	w.once.Do(w.begin)
	if ev.Sequence <= w.facts {
		return
	}
	w.facts, w.ended = ev.Sequence, ev.Type == turns.TurnCompleted || ev.Type == turns.TurnFailed
	w.Observer.Fact(ev)
}

func (w *watcher) begin() {
	close(w.begun)
	if w.began != nil {
		w.began()
	}
}
