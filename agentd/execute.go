package agentd

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"holon/agentd/record"
	"holon/agentd/tools/command"
	"holon/agentd/turn"
	"holon/responses"
	"holon/responses/turns"
)

// run waits for the turn's place in the queue, runs it and commits it.
func (s *Server) run(ctx context.Context, lt *liveTurn, j *job) {
	defer j.offer.Release()
	log := s.log.With("turn", j.turnID, "session", j.sessionID)
	result, err := s.execute(ctx, j)
	j.inbox.end() // all that came in is in the record that follows
	err = errors.Join(err, s.settleTree(j))
	if err == nil {
		err = s.commit(lt, j, result, log)
	}
	if err != nil {
		log.Error("the turn could not be recorded", "err", err)
		cause := recordError(err)
		s.breakOff(j, cause)
		s.metrics.turnEnded(responses.StatusFailed, j.emitter.Response().Usage)
		lt.finish(nil, cause, nil)
	}
	s.forget(lt)
	lt.close()
	s.quiet.Reset(quietTime)
}

// commit records the end of a turn, then shows it.
func (s *Server) commit(lt *liveTurn, j *job, result *turn.Result, log *slog.Logger) error {
	resp := j.emitter.Response()
	s.promote(j, resp.Status)
	err := j.rec.Commit(resp, turns.Totals{Rounds: result.Rounds, ToolCalls: result.ToolCalls,
		Attempts: result.Attempts, Failure: result.Failure}, j.closing(&resp, result, s))
	if err != nil {
		return err
	}
	s.metrics.turnEnded(resp.Status, resp.Usage)
	log.Info("turn ended", "status", resp.Status, "rounds", result.Rounds, "tool_calls", result.ToolCalls.Total,
		"took", s.parts.Now().Sub(j.created))
	lt.finish(&resp, nil, result.Conversation)
	return nil
}

// promote makes the skills that a completed turn used part of its session,
// before anybody can see that it is complete and go on.
func (s *Server) promote(j *job, status responses.Status) {
	if status != responses.StatusCompleted || j.watch == nil {
		return
	}
	if err := s.sessions.Promote(j.sessionID, j.turnID, j.watch.Active()); err != nil {
		s.log.Warn("the skills of the turn are not noted for its session", "turn", j.turnID, "session", j.sessionID,
			"err", err)
	}
}

// breakOff ends a turn that cannot be recorded any further. Nothing is left of
// one that was not even acknowledged.
func (s *Server) breakOff(j *job, cause *responses.Error) {
	if j.rec.Acknowledged() != nil {
		_ = j.rec.Discard() // the disk does not write: what it keeps is released at the next start
		return
	}
	j.rec.Abort(cause)
	rec := j.rec.Record()
	s.settleLater(rec.ResponseID, brokenTurn{record: rec, dir: j.turnDir, cause: cause})
	s.settle()
}

// brokenTurn is a turn that is over and whose end could not be recorded yet. On disk it is under open/.
type brokenTurn struct {
	record   turns.Record // zero for a turn of an earlier process, which has what is on disk
	dir      string
	cause    *responses.Error // nil for the end of its process
	reported bool             // in the log, that it could not be settled yet
}

// settleLater notes a turn to be settled as soon as its record can be written again, or at the next start.
func (s *Server) settleLater(id string, b brokenTurn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unsettled[id] = b
	select {
	case s.broke <- struct{}{}:
	default: // keepSettling has one to wait for already
	}
}

// settle tries to end the records of the turns that are over, and reports whether none is left.
func (s *Server) settle() bool {
	s.settling.Lock()
	defer s.settling.Unlock()
	s.mu.Lock()
	list := maps.Clone(s.unsettled)
	s.mu.Unlock()
	for id, broken := range list {
		turnID, err := s.store.SettleTurn(id, broken.cause, s.parts.Now)
		switch {
		case err == nil:
			s.log.Warn("settled a turn that was interrupted or broke off", "turn", turnID, "response", id)
		case errors.Is(err, record.ErrNotFound): // it was never acknowledged
		case !broken.reported:
			s.log.Error("a turn could not be settled yet", "response", id, "err", err)
			broken.reported = true
		}
		s.mu.Lock()
		if s.unsettled[id] = broken; err == nil || errors.Is(err, record.ErrNotFound) {
			delete(s.unsettled, id)
		}
		s.mu.Unlock()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.unsettled) == 0
}

// broken returns the turn turnID if it is one that could not be settled yet.
func (s *Server) broken(turnID string) (b brokenTurn, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.unsettled {
		if b.record.TurnID == turnID {
			return b, true
		}
	}
	return brokenTurn{}, false
}

// How often settling is tried: seldom where it goes on failing. The end of a condition that keeps records from being
// written, such as a full disk, is not announced.
const (
	settleEvery  = time.Second
	settleSeldom = 10 * time.Second
)

// keepSettling settles turns when that is possible, also if no request comes: others may wait for their end.
func (s *Server) keepSettling(ctx context.Context) {
	for {
		select {
		case <-s.broke:
		case <-ctx.Done():
			return
		}
		for wait, settled := settleEvery, false; !settled; wait = min(2*wait, settleSeldom) {
			select {
			case <-time.After(wait):
				settled = s.settle()
			case <-ctx.Done():
				return
			}
		}
	}
}

// execute runs the turn loop when its turn has come, within its limits. The error is
// not nil only when the turn could not be recorded any further.
func (s *Server) execute(ctx context.Context, j *job) (*turn.Result, error) {
	waited := s.parts.Now()
	if err := s.queue.Wait(ctx, j.ticket); err != nil {
		return &turn.Result{}, j.endQueued(err)
	}
	defer s.queue.Leave(j.ticket)
	ctx, cancel := context.WithTimeoutCause(ctx, j.limits.time, turn.ErrTimeout)
	defer cancel()
	if limit := j.limits.output; limit > 0 {
		j.output = &outputGauge{turn: j.rec, dir: j.turnDir, state: s.cfg.Dirs.State, limit: limit,
			users: s.parts.Users}
		var end context.CancelCauseFunc
		ctx, end = context.WithCancelCause(ctx)
		var watch sync.WaitGroup
		defer watch.Wait()
		defer end(nil)
		watch.Go(func() { j.output.watch(ctx, end) })
	}
	j.rec.Running()
	t := s.turn(j)
	if err := s.announce(j, s.parts.Now().Sub(waited), t.Excluded()); err != nil {
		return nil, err
	}
	result, err := t.Run(ctx)
	if err == nil {
		s.memories.keep(modelKey(j), result.Memory)
		result.Conversation = j.lead.Restore(result.Conversation)
	}
	return result, err
}

// environment is where the turn's tools work.
func (j *job) environment() *turns.Environment {
	return &turns.Environment{OutputDir: j.turnDir, InputDir: j.inputDir, Isolation: j.req.Holon.Isolation,
		OS: runtime.GOOS, Arch: runtime.GOARCH, Shell: command.DefaultShell()}
}

// routing is the fact about the model that the turn asks, and why, or about those that cannot be asked.
func (j *job) routing(excluded []turns.Excluded) turns.RuntimeEvent {
	if len(excluded) > 0 {
		return j.scope.Event(turns.RoutingNone, turns.Unrouted{RequestedModel: j.req.Model,
			ReasonCode: responses.CodeUnsupportedParameter, Excluded: excluded})
	}
	class := turns.RoutingDecided
	if len(j.Fallbacks) == 0 {
		class = turns.RoutingSingle
	}
	r := turns.Routing{RoutingMode: "fixed", RequestedModel: j.req.Model, FallbackChain: j.Fallbacks,
		CandidateCount: 1 + len(j.Fallbacks), DecisionSource: "request", DecisionReason: "the request names it"}
	r.SelectedProvider, r.SelectedModel, _ = strings.Cut(j.Ref, "/")
	if j.req.Model == "" {
		r.DecisionSource, r.DecisionReason = "default", "the request names none"
	}
	return j.scope.Event(class, r)
}

// announce records the facts that a turn begins with.
func (s *Server) announce(j *job, waited time.Duration, excluded []turns.Excluded) error {
	facts := append([]turns.RuntimeEvent{
		j.scope.Event(turns.TurnStarted, turns.Started{Attempt: 1, QueueWaitMS: waited.Milliseconds(), Model: j.Ref,
			WorkDir: j.workDir, Environment: j.environment()}),
		j.scope.SandboxApplied(j.workDir), j.scope.CatalogResolved(s.catalog(j)),
		j.scope.ContextResolved(j.resolved()), j.routing(excluded),
	}, j.offerFacts()...)
	for _, fact := range facts {
		if err := j.rec.Event(fact); err != nil {
			return err
		}
	}
	return nil
}

// endQueued ends a turn that never left the queue.
func (j *job) endQueued(cause error) error {
	if errors.Is(cause, turn.ErrShutdown) {
		return j.emitter.Incomplete(responses.ReasonShutdown, responses.Usage{})
	}
	return j.emitter.Cancel(&responses.Error{Type: responses.TypeServerError, Code: responses.CodeCancelled,
		Message: turn.ErrCancelled.Error()}, responses.Usage{})
}

// closing is the runtime event that ends the turn's facts.
func (j *job) closing(resp *responses.Response, result *turn.Result, s *Server) turns.RuntimeEvent {
	end := turns.End{DurationMS: s.parts.Now().Sub(j.created).Milliseconds(), Rounds: result.Rounds,
		ToolCalls: result.ToolCalls.Total, OpenActions: turns.ActionIDs(resp.Output)}
	switch {
	case resp.Status == responses.StatusCompleted:
		end.Usage = new(turns.UsageOf(result.Usage))
	case resp.Usage != nil:
		end.Usage = new(turns.UsageOf(*resp.Usage))
	}
	return j.scope.TurnEnded(resp, end)
}

// recordError explains why a turn could not be written down.
func recordError(err error) *responses.Error {
	if e, ok := errors.AsType[*responses.Error](err); ok {
		return e
	}
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return &responses.Error{Type: responses.TypeServerError, Code: responses.CodeDiskFull,
			Message: "the disk is full", Hint: "free some space; what was recorded until then is kept", Cause: err}
	}
	return responses.Internal(turns.Unrecorded+"; the server's log has the details", err)
}
