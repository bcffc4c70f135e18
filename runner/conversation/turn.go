package conversation

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"holon/internal/folder"
	"holon/responses"
	"holon/responses/client"
	"holon/responses/turns"
	"holon/runner"
	"holon/runner/gateway"
	"holon/runner/pool"
	"holon/state"
)

// containers are those of the sessions: *pool.Pool, with sessions.OfConversation as its key and with AtOnce.
type containers interface {
	Turn(ctx context.Context, t pool.Turn, began func(), watch runner.Observer) (runner.End, error)
	// Recover watches a turn that another process asked for, to its end.
	Recover(ctx context.Context, t pool.Turn, began func(), watch runner.Observer) (runner.End, error)
	// Do calls fn with the agentd of a container, which is made if need be and stays while fn runs.
	Do(ctx context.Context, t pool.Turn, fn func(ctx context.Context, agent *client.Client) error) error
	// Still runs fn while nothing in the container runs. The tree may be resumed meanwhile.
	Still(ctx context.Context, id string, fn func(ctx context.Context, owner *folder.Owner) error) error
	// Stop ends the container once nothing is asked of it. Without one it is success.
	Stop(ctx context.Context, id string) error
	// Stored reports whether a response is stored here.
	Stored(id, responseID string) bool
	// Isolation is nil where there is no container.
	Isolation(id string) *state.Isolation
}

// errClosing ends the turns of a session that is closed.
var errClosing = fmt.Errorf("the session is closed: %w", runner.ErrInterrupted)

// Turn makes a turn of the session and returns when it is over. It is in the log before ask is called, which may be
// more than once if a container breaks off, and so are the ids of its response and its items once agentd gave them.
// input is what the turn is asked, of which the log keeps the beginning. An error means that no turn was begun; see
// pool.Pool.Turn.
func (x *Session) Turn(ctx context.Context, turnID, model, input string, ask runner.Ask) (runner.End, error) {
	if err := responses.CheckID("holon.turn_id", turnID); err != nil {
		return runner.End{}, err
	}
	if err := x.sessions.checkDisk(ctx, x.snapshot().Owner); err != nil {
		return runner.End{}, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	release, err := x.holdSettled(ctx)
	if err != nil {
		return runner.End{}, err
	}
	budget, err := x.begin(turnID, input, cancel)
	release()
	if err != nil {
		return runner.End{}, err
	}
	t := x.turn(turnID, model)
	t.Budget = budget
	r := &recorder{session: x, turn: turnID}
	t.Ask = func(ctx context.Context, agent *client.Client, token string) (*responses.Response, error) {
		resp, err := ask(ctx, agent, token)
		if err == nil && resp != nil {
			r.accepted(resp.ID)
		}
		return resp, err
	}
	end, err := x.sessions.opts.Pool.Turn(ctx, t, nil, r)
	x.end(turnID, end, err)
	x.save()
	return end, err
}

// turn is what the pool needs of a turn.
func (x *Session) turn(turnID, model string) pool.Turn {
	r := x.snapshot()
	t := runner.NewTurn(turnID, "")
	t.NoDeltas = true // the log has items and ends
	return pool.Turn{Turn: t, AgentID: r.ID, Image: r.Image, Model: cmp.Or(model, r.Model)}
}

func errClosed(id string) error {
	return &state.Error{Code: CodeClosed, Param: "previous_response_id", Message: "the session " + id + " is closed",
		Hint: "begin another one: leave previous_response_id out"}
}

// begin records that a turn is about to be asked for. That comes to the disk while agentd is asked: its client sees no
// response before it is there, from which the next start finds the response again.
func (x *Session) begin(turnID, input string, cancel func(error)) (budget gateway.Budget, err error) {
	x.writing.Lock()
	defer x.writing.Unlock()
	left, err := x.admit(turnID)
	if err != nil {
		return budget, err
	}
	if err := x.append(line{Turn: turnID, Input: preview(input)}); err != nil {
		return budget, err
	}
	c := &call{cancel: cancel, kept: make(chan struct{})}
	go func() { // forget waits for it
		defer close(c.kept)
		if err := x.sync(); err != nil {
			x.sessions.opts.Log.Warn("a turn may be lost in a power cut", "session", x.id, "turn", turnID, "err", err)
		}
	}()
	x.sessions.mu.Lock()
	defer x.sessions.mu.Unlock()
	x.calls[turnID] = c
	return gateway.Budget{MaxTokens: left.Tokens, MaxCost: left.Cost}, nil
}

// admit refuses a turn that the session cannot make, and returns what it may take.
func (x *Session) admit(turnID string) (Usage, error) {
	s := x.sessions
	s.mu.Lock()
	defer s.mu.Unlock()
	if !x.record.open() {
		return Usage{}, errClosed(x.id)
	}
	if slices.ContainsFunc(s.index[turnID], func(other *Session) bool { return other.isOf(x.record.Owner) }) {
		return Usage{}, &state.Error{Code: responses.CodeTurnConflict, Param: "holon.turn_id",
			Message: "there is a turn " + turnID}
	}
	return x.left()
}

// end records how a turn ended. One that goes on without this process is left as it is.
func (x *Session) end(turnID string, end runner.End, err error) {
	s := x.sessions
	defer s.wake()
	defer x.forget(turnID)
	if state.IsCode(err, pool.CodeLeft) {
		return
	}
	x.Note(turnID, end.ResponseID)
	l, release := line{Ended: turnID, Begun: err == nil && !end.NotBegun}, func() {}
	if l.Begun {
		l = l.of(cmp.Or(end.Claimed, end.Response)) // clients get what agentd has stored
		if l.Idle = x.leftAlone(turnID, end); !l.Idle {
			release = x.settle(turnID)
		}
	}
	l.At = s.now()
	if end.Account != nil {
		l.Account = &state.Account{Usage: end.Account.Usage}
	} else if end.Response != nil && end.Response.Usage != nil { // no provider was asked: a model of a script
		l.Account = &state.Account{Usage: countedUsage(*end.Response.Usage)}
	}
	defer release()
	x.writing.Lock()
	defer x.writing.Unlock()
	if err := x.append(l); err != nil { // the next turn brings it to the disk
		s.opts.Log.Warn("the end of a turn is not recorded: the next start looks for it", "session", x.id, "err", err)
		x.take([]line{l})
	}
}

// countedUsage is what a turn took as its container counts, which is not trusted: no count is less than 0, or wraps the
// session's sum around.
func countedUsage(u responses.Usage) (used state.Usage) {
	const most = 1 << 40
	used.Input, used.Output = min(max(u.InputTokens, 0), most), min(max(u.OutputTokens, 0), most)
	used.Total = used.Input + used.Output
	return used
}

// forget ends a call.
func (x *Session) forget(key string) {
	s := x.sessions
	x.awaitKept(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(x.calls, key)
	s.grown.Broadcast()
}

// awaitKept waits until a turn that goes on is on the disk.
func (x *Session) awaitKept(turnID string) {
	x.sessions.mu.Lock()
	c := x.calls[turnID]
	x.sessions.mu.Unlock()
	if c != nil && c.kept != nil {
		<-c.kept
	}
}

// recorder puts the ids of a turn into the log as agentd gives them.
type recorder struct {
	session *Session
	turn    string
}

// Event implements runner.Observer.
func (r *recorder) Event(ev responses.Event) {
	if ev.Response != nil {
		r.accepted(ev.Response.ID)
	}
	if id := itemID(ev); id != "" && ev.Type == responses.EventItemAdded {
		r.record(line{Item: id})
	}
}

// accepted records the response of the turn.
func (r *recorder) accepted(id string) {
	if responses.CheckID("response_id", id) != nil {
		return
	}
	s := r.session.sessions
	s.mu.Lock()
	if c := r.session.calls[r.turn]; c != nil {
		c.begun = true
	}
	s.grown.Broadcast()
	s.mu.Unlock()
	r.record(line{Turn: r.turn, Response: id})
}

// Note records the id of the response of a turn, which may be known already, and returns when it is found again after a
// power cut too. One that is not an id is ignored.
func (x *Session) Note(turnID, responseID string) {
	defer x.awaitKept(turnID)
	if responses.CheckID("response_id", responseID) == nil {
		(&recorder{x, turnID}).record(line{Turn: turnID, Response: responseID})
	}
}

// Deleted records that a response was deleted.
func (x *Session) Deleted(responseID string) {
	x.writing.Lock()
	err := x.append(line{Deleted: responseID})
	x.writing.Unlock()
	if err != nil {
		x.sessions.opts.Log.Warn("a deletion is not recorded", "session", x.id, "err", err)
	}
	x.save()
}

// record adds a line to the log unless it has the id: events say it again, and all over for a turn that is taken up.
func (r *recorder) record(l line) {
	x := r.session
	x.writing.Lock()
	defer x.writing.Unlock()
	if x.knows(l) {
		return
	}
	l.At = x.sessions.now()
	lines := []line{l}
	x.take(lines) // first: a client may be about to use the id
	if err := x.write(lines); err != nil {
		x.sessions.opts.Log.Warn("an id is not recorded: it is not found after a restart", "session", x.id, "err", err)
	}
}

// knows reports whether the log has the id of a line, or has room for no more.
func (x *Session) knows(l line) bool {
	x.sessions.mu.Lock()
	defer x.sessions.mu.Unlock()
	id, _ := l.id()
	return x.log.known[id] != 0 || len(x.log.known) >= maxIDs
}

// Fact implements runner.Observer.
func (r *recorder) Fact(ev turns.RuntimeEvent) {
	if ev.Type != turns.TurnCompleted && ev.Type != turns.TurnFailed {
		return
	}
	s := r.session.sessions
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := r.session.calls[r.turn]; c != nil {
		c.over = true
	}
}

// Do calls fn with the session's agentd, for what is no turn: a container that was stopped is started. Also a closed
// session has what was said in it.
func (x *Session) Do(ctx context.Context, fn func(ctx context.Context, agent *client.Client) error) error {
	s := x.sessions
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s.mu.Lock()
	x.next++
	key := fmt.Sprint(x.next) // no id of a turn
	x.calls[key] = &call{cancel: cancel}
	s.mu.Unlock()
	defer s.wake()
	defer x.forget(key)
	return s.opts.Pool.Do(ctx, x.turn("", ""), fn)
}

// recover watches the turns that another process left under way.
func (x *Session) recover(ctx context.Context, turnID string) error {
	s := x.sessions
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s.mu.Lock()
	x.calls[turnID] = &call{cancel: cancel}
	s.mu.Unlock()
	end, err := s.opts.Pool.Recover(ctx, x.turn(turnID, ""), nil, &recorder{x, turnID})
	if err != nil { // nothing is decided
		x.forget(turnID)
		return err
	}
	x.end(turnID, end, nil)
	x.save()
	return nil
}

// leftTurns are the turns that an earlier process asked for, by session.
func (s *Sessions) leftTurns() map[*Session][]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	left := make(map[*Session][]string)
	for _, x := range s.all {
		for _, id := range x.log.going {
			if x.calls[id] == nil {
				left[x] = append(left[x], id)
			}
		}
	}
	return left
}
