package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"holon/internal/httpserver"
	"holon/responses/agentruntime"
	"holon/runner/agent/record"
	"holon/runner/agent/view"
	"holon/runner/control/wire"
	"holon/state"
	"holon/state/ledger"
)

// record gives the events of an agent's record in order, up to a number; 0 is the last one that the snapshot has.
func (s *Server) record(ctx context.Context, v ledger.View, agentID string, through int64,
	each func(*agentruntime.Event) error) error {
	for after, more := int64(0), true; more; {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		page, err := s.view(v).Record(agentID, after, view.MaxLimit, s.recordLog())
		if err != nil {
			return err
		}
		for i := range page.Events {
			e := &page.Events[i]
			if through > 0 && e.Sequence > through {
				return nil
			}
			if err := each(e); err != nil {
				return err
			}
			after = e.Sequence
		}
		more = page.HasMore
	}
	return nil
}

// getRuntimeEvents is GET /runtime/events: a page of an agent's record after the number of an event, or, for a client
// that accepts server-sent events, those and what follows, as it is recorded.
func (s *Server) getRuntimeEvents(w http.ResponseWriter, r *http.Request) {
	page, more, err := s.askRecord(r)
	switch {
	case err != nil:
		s.fail(w, r, byAgentID(err))
	case more == nil:
		w.Header().Set(wire.HeaderEventEpoch, s.store.Epoch())
		s.send(w, http.StatusOK, page)
	default:
		s.streamRecord(w, r, *more)
	}
}

// recordCursor is where a reader of an agent's record is.
type recordCursor struct {
	agentID string
	after   int64
	epoch   string // of the event there; "" when the reader does not say
	limit   int
}

// askRecord reads what is asked for: a page, or a stream that begins at a cursor.
func (s *Server) askRecord(r *http.Request) (page view.RecordPage, more *recordCursor, err error) {
	q, err := queryOf(r, "agent_id", "after", "epoch", "limit")
	if err != nil {
		return page, nil, err
	}
	at := recordCursor{agentID: cmp.Or(q["agent_id"], s.host.Info().DefaultAgent), epoch: q["epoch"]}
	streams := strings.Contains(r.Header.Get("Accept"), "text/event-stream")
	if last := r.Header.Get("Last-Event-ID"); streams &&
		last != "" { // newer than the query of a reader that comes back
		at.after, err = (query{"Last-Event-ID": last}).number("Last-Event-ID", 1<<53)
	} else {
		at.after, err = q.number("after", 1<<53)
	}
	if err != nil {
		return page, nil, err
	}
	limit, err := q.number("limit", view.MaxLimit)
	if err != nil {
		return page, nil, err
	}
	at.limit = int(limit)
	if page, err = s.recordPage(r.Context(), at); err == nil && streams {
		more = &at
	}
	return page, more, err
}

// recordPage reads what follows a cursor. What a reader of another history has to take back is shown as a gap, after
// which it gets all that came in its place.
func (s *Server) recordPage(ctx context.Context, at recordCursor) (page view.RecordPage, err error) {
	after, parted := at.after, s.parted(at.agentID, at.epoch, at.after)
	if parted {
		after = s.store.SharedThrough(at.agentID, at.epoch)
	}
	err = s.store.View(ctx, func(v ledger.View) (err error) {
		page, err = s.view(v).Record(at.agentID, after, at.limit, s.recordLog())
		return err
	})
	if err == nil && parted {
		gap := view.RecordGap{After: at.after, Next: after + 1, Reason: reasonEpoch}
		if page.Gap != nil { // retention took the beginning of that
			gap.Next = page.Gap.Next
		}
		page.Gap = &gap
	}
	return page, err
}

// streamRecord sends an agent's record from a cursor on until its reader goes, is too slow, or the server ends. Each
// event has its sequence as id.
func (s *Server) streamRecord(w http.ResponseWriter, r *http.Request, at recordCursor) {
	at.limit = streamPage
	st := &eventStream{server: s, w: w, agentID: at.agentID, frames: []byte(": events\n\n")}
	s.stream(w, r, st, func() error {
		_, err := st.tail(r.Context(), func() (bool, <-chan struct{}, error) {
			page, err := s.recordPage(r.Context(), at)
			if err != nil {
				return false, nil, ignoreCancelled(r.Context(), err)
			}
			at.epoch = "" // what follows is of this ledger
			if page.Gap != nil {
				at.after = page.Gap.Next - 1
				err = st.add(at.after, "gap", page.Gap)
			}
			for i := range page.Events {
				at.after = page.Events[i].Sequence
				err = errors.Join(err, st.add(at.after, "", &page.Events[i]))
			}
			return page.HasMore, nil, errors.Join(err, st.flush())
		})
		return err
	})
}

// recordLog names the log of the ledger.
func (s *Server) recordLog() record.Log {
	return record.Log{RuntimeID: s.store.RuntimeID(), Epoch: s.store.EpochOf}
}

// byAgentID names the parameter by which these paths have their agent.
func byAgentID(err error) error {
	e, ok := errors.AsType[*state.Error](err)
	if !ok || e.Param != "agent" {
		return err
	}
	named := *e
	named.Param = "agent_id"
	return &named
}

// fold folds the whole record of an agent, as one snapshot of the ledger has it.
func (s *Server) fold(ctx context.Context, agentID string) (*record.Fold, error) {
	release, err := s.limit.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	f := record.New(agentID)
	err = s.store.View(ctx, func(v ledger.View) error {
		return s.record(ctx, v, agentID, 0, func(e *agentruntime.Event) error {
			f.Apply(e)
			return nil
		})
	})
	return f, err
}

// getReadModel is GET /runtime/read/{model}.
func (s *Server) getReadModel(_ http.ResponseWriter, r *http.Request) (any, error) {
	q, err := queryOf(r, "agent_id")
	if err != nil {
		return nil, err
	}
	model, err := s.readModel(r.Context(), cmp.Or(q["agent_id"], s.host.Info().DefaultAgent),
		httpserver.PathValue(r, "model"))
	return model, byAgentID(err)
}

func (s *Server) readModel(ctx context.Context, agentID, name string) (any, error) {
	if _, ok := record.New(agentID).Model(name); !ok { // before a long record is folded in vain
		return nil, &state.Error{Code: ledger.CodeNotFound, Param: "model",
			Message: fmt.Sprintf("there is no read model %.80q", name),
			Hint:    "use one of " + strings.Join(record.Names(), ", ")}
	}
	f, err := s.fold(ctx, agentID)
	if err != nil {
		return nil, err
	}
	model, _ := f.Model(name)
	return model, nil
}

// getExport is GET /runtime/export/{kind}.
func (s *Server) getExport(_ http.ResponseWriter, r *http.Request) (any, error) {
	q, err := queryOf(r, "agent_id", "through")
	if err != nil {
		return nil, err
	}
	var last *int64
	if text, given := q["through"]; given {
		through, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, invalid("through", fmt.Sprintf("through can't be %.40q", text),
				"give the number of an event, or leave through out for all")
		}
		last = &through // export knows which events there are
	}
	doc, err := s.export(r.Context(), cmp.Or(q["agent_id"], s.host.Info().DefaultAgent),
		httpserver.PathValue(r, "kind"), last)
	if err != nil {
		return nil, byAgentID(err)
	}
	return doc.Encode()
}

// export cuts the record of an agent in one snapshot of the ledger, so that what it says belongs together. The same cut
// taken again is the same document until retention lets events of it go. last is the last event, nil for the newest.
func (s *Server) export(ctx context.Context, agentID, kind string, last *int64) (*record.Document, error) {
	doc, ok := record.NewDocument(kind, agentID)
	if !ok {
		return nil, &state.Error{Code: ledger.CodeNotFound, Param: "kind",
			Message: fmt.Sprintf("there is no export %.80q", kind), Hint: "use evidence, replay or review"}
	}
	release, err := s.limit.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	var through int64
	err = s.store.View(ctx, func(v ledger.View) error {
		newest, err := v.Events(agentID, ledger.EventQuery{Limit: 1, Descending: true})
		if err != nil {
			return err
		}
		if through = newest.Newest; last != nil {
			through = *last
		}
		if oldest := max(1, newest.Oldest); last != nil && through < oldest || through > newest.Newest {
			return invalid("through", fmt.Sprintf("the record of agent %s has no event %d", agentID, through),
				fmt.Sprintf("use %d to %d, or leave through out for all", oldest, newest.Newest))
		}
		return s.record(ctx, v, agentID, through, func(e *agentruntime.Event) error {
			e.Payload = s.opts.Hide(e.Payload) // before digests are made of it
			if doc.Add(e) {
				return nil
			}
			return &state.Error{
				Code:    wire.CodeTooLarge,
				Param:   "through",
				Message: "the record is too long for one document",
				Hint:    "cut it earlier with through, or page through GET /runtime/events",
			}
		})
	})
	if err != nil {
		return nil, err
	}
	return doc, doc.Close(through)
}
