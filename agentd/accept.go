package agentd

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"holon/agentd/record"
	"holon/agentd/turn"
	"holon/agentd/turntoken"
	"holon/responses"
)

// accept takes a request in: it returns the turn that answers it, running or
// queued, or, when the request repeats an earlier one with the same turn_id,
// the turn of that one. When accept returns a new turn, its record is on disk.
// The caller must release the view. mem is a conversation that the request may
// continue although it is not stored, or nil.
func (s *Server) accept(req *responses.Request, from origin, mem *memory) (*view, error) {
	turnID, chosen := req.Holon.TurnID, true
	if turnID == "" {
		turnID, chosen = responses.NewID(responses.PrefixTurn), false
	}
	for {
		lt, owner := s.claim(turnID, req.Digest)
		if !owner {
			if v, err := lt.await(req.Digest); v != nil || err != nil {
				return v, err
			}
			continue // it ended in this moment and is on disk now
		}
		return s.settleClaim(lt, func() (*view, error) { return s.begin(lt, req, from, chosen, mem) })
	}
}

// settleClaim begins the turn that lt claims and notifies the requests that wait for it,
// even when begin panics: an open claim would block its id.
func (s *Server) settleClaim(lt *liveTurn, begin func() (*view, error)) (v *view, err error) {
	err = responses.Internal("the turn could not be begun", nil)
	defer func() {
		if err != nil || v.liveTurn != lt {
			s.forget(lt) // there is no new turn
		}
		lt.began(err)
	}()
	return begin()
}

// begin checks the request, records the turn and starts it. When the caller
// chose the turn's id and the turn is on disk already, it returns that one.
func (s *Server) begin(lt *liveTurn, req *responses.Request, from origin, chosen bool, mem *memory) (*view, error) {
	s.settle() // the turn may be one that a full disk kept from its end
	if chosen {
		if v, err := s.onDisk(lt.id, req.Digest); v != nil || err != nil {
			return v, err
		}
	}
	if err := errors.Join(s.checkResponseID(req.Holon.ResponseID, from), s.checkDisk()); err != nil {
		return nil, err
	}
	p, err := s.plan(lt.id, req, mem, true)
	if err != nil {
		return nil, err
	}
	p.above = from.above
	j, err := s.admit(p, from.source)
	if err != nil {
		p.offer.Release()
		return nil, err
	}
	return s.launch(lt, j, from.token)
}

// admit takes a planned turn into the queue and records it. After an error
// nothing is left of it but the plan.
func (s *Server) admit(p *plan, source string) (*job, error) {
	if err := s.enter(); err != nil {
		return nil, err
	}
	ticket, err := s.queue.Admit(p.sessionID)
	if err != nil {
		s.running.Done()
		return nil, err
	}
	var j *job
	p.goesOn = p.req.Store && source != sourceRun
	if err = s.isolate(p); err == nil {
		j, err = s.record(p, ticket, source)
	}
	if err != nil {
		if p.private != nil {
			s.leaveTree(p, p.private.Release)
		}
		s.queue.Leave(ticket)
		s.running.Done()
		return nil, err
	}
	return j, nil
}

// launch runs an admitted turn in a goroutine of its own, and returns a view of
// it once its record is acknowledged.
func (s *Server) launch(lt *liveTurn, j *job, token string) (*view, error) {
	ctx, cancel := context.WithCancelCause(turntoken.With(s.lifetime, token))
	lt.turn, lt.journal, lt.response, lt.stop = j.rec, j.rec.Journal, j.emitter.Response(), cancel
	lt.input, lt.fragile, lt.stored, lt.inbox = j.req.Input, j.fragile, j.stored, j.inbox
	v := lt.view() // before the turn can end and close its files
	go func() {
		defer s.running.Done()
		defer cancel(nil)
		s.run(ctx, lt, j)
	}()
	s.quiet.Reset(quietTime)
	// The model is asked meanwhile; nothing is shown and no tool starts before.
	if err := j.rec.Acknowledge(); err != nil {
		cancel(record.ErrUnacknowledged)
		<-lt.done
		v.release()
		return nil, recordError(err)
	}
	return v, nil
}

// checkResponseID refuses the id of a response that the host did not choose, or that there is already.
func (s *Server) checkResponseID(id string, from origin) error {
	switch {
	case id == "":
		return nil
	case from.token == "":
		return &responses.Error{Type: responses.TypeInvalidRequest, Code: responses.CodeUnsupportedParameter,
			Param:   "holon.response_id",
			Message: "only the host, which gives each turn a model token, chooses the id of a response",
			Hint:    "leave it out; holon.turn_id makes a request repeatable"}
	}
	if _, err := s.store.Load(id); err == nil || s.byResponse(id) != nil {
		return responses.Invalid("holon.response_id", responses.CodeTurnConflict,
			"another turn made the response "+clipID(id))
	}
	return nil
}

// checkDisk refuses a turn while it could still be refused cleanly.
func (s *Server) checkDisk() error {
	for _, dir := range []string{s.cfg.Dirs.Output, s.cfg.Dirs.State} {
		var st syscall.Statfs_t
		if err := syscall.Statfs(dir, &st); err != nil {
			return responses.Internal("the disk cannot be examined", err)
		}
		if free := int64(st.Bavail) * int64(st.Bsize); free < s.cfg.Turns.MinFree {
			return &responses.Error{Type: responses.TypeServerError, Code: responses.CodeDiskFull,
				Message: fmt.Sprintf("only %d MiB are free on the disk of %s", free>>20, dir),
				Hint:    "free some space, then send the request again"}
		}
	}
	return nil
}

// Once runs one turn and returns its final response in any terminal status. When
// ctx ends first, the turn is ended in good order and its response, which then
// is incomplete, is returned all the same.
func (s *Server) Once(ctx context.Context, req *responses.Request) (*responses.Response, error) {
	v, err := s.accept(req, origin{source: sourceRun}, nil)
	if err != nil {
		return nil, s.logged(err)
	}
	defer v.release()
	select {
	case <-v.done:
	case <-ctx.Done():
		v.stop(turn.ErrShutdown)
		<-v.done
	}
	resp, failure := v.result()
	if failure != nil {
		return nil, failure
	}
	return resp, nil
}
