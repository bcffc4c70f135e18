package control

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/go-chi/chi/v5"

	"holon/responses/agentruntime"
	"holon/runner/agent/readmodel"
	"holon/runner/agent/scheduler"
	"holon/runner/agent/view"
	"holon/runner/control/wire"
	"holon/state"
	"holon/state/ledger"
)

// recordPage is how many events are read from the ledger at a time.
const recordPage = 500

// record gives the events of an agent's record in order, up to a number; 0 is the last one that the snapshot has.
func (s *Server) record(ctx context.Context, v ledger.View, agentID string, through int64,
	each func(*agentruntime.Event) error) error {
	a, err := v.Agent(agentID)
	if err != nil {
		return err
	}
	if a.Visibility == ledger.Private {
		return &state.Error{Code: scheduler.CodeAgentPrivate, Param: "agent_id",
			Message: fmt.Sprintf("agent %s is private", a.ID), Hint: "look at the agent or the run that it belongs to"}
	}
	ask := ledger.EventQuery{Limit: recordPage}
	if through > 0 {
		ask.Before = through + 1
	}
	for more := true; more; {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		page, err := v.Events(agentID, ask)
		if err != nil {
			return err
		}
		for _, e := range page.Events {
			told := view.RuntimeEvent(e, s.recordLog())
			if err := each(&told); err != nil {
				return err
			}
			ask.After = e.Seq
		}
		more = len(page.Events) == recordPage
	}
	return nil
}

// getRuntimeEvents is GET /runtime/events: a page of an agent's record, after the number of an event.
func (s *Server) getRuntimeEvents(_ http.ResponseWriter, r *http.Request) (any, error) {
	q, err := queryOf(r, "agent_id", "after", "limit")
	if err != nil {
		return nil, err
	}
	after, err := q.number("after", 1<<53)
	if err != nil {
		return nil, err
	}
	limit, err := q.number("limit", view.MaxLimit)
	if err != nil {
		return nil, err
	}
	var page view.RecordPage
	err = s.store.View(r.Context(), func(v ledger.View) (err error) {
		page, err = s.view(v).Record(cmp.Or(q["agent_id"], s.host.Info().DefaultAgent), after, int(limit), s.recordLog())
		return err
	})
	return page, err
}

// recordLog names the log of the ledger.
func (s *Server) recordLog() view.Log {
	return view.Log{RuntimeID: s.store.RuntimeID(), Epoch: s.store.Epoch()}
}

// fold folds the whole record of an agent, as one snapshot of the ledger has it.
func (s *Server) fold(ctx context.Context, agentID string) (*readmodel.Fold, error) {
	release, err := s.limit.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	f := readmodel.New(agentID)
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
	return s.readModel(r.Context(), cmp.Or(q["agent_id"], s.host.Info().DefaultAgent), chi.URLParam(r, "model"))
}

func (s *Server) readModel(ctx context.Context, agentID, name string) (any, error) {
	if _, ok := readmodel.New(agentID).Model(name); !ok { // before a long record is folded in vain
		return nil, &state.Error{Code: ledger.CodeNotFound, Param: "model",
			Message: fmt.Sprintf("there is no read model %.80q", name),
			Hint:    "use one of " + strings.Join(readmodel.Names(), ", ")}
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
	through, err := q.number("through", 1<<53)
	if err != nil {
		return nil, err
	}
	return s.export(r.Context(), cmp.Or(q["agent_id"], s.host.Info().DefaultAgent), chi.URLParam(r, "kind"), through)
}

// export cuts the record of an agent in one snapshot of the ledger, so that what it says belongs together. The same cut
// taken again is the same document.
func (s *Server) export(ctx context.Context, agentID, kind string, through int64) (*readmodel.Document, error) {
	doc, ok := readmodel.NewDocument(kind, agentID)
	if !ok {
		return nil, &state.Error{Code: ledger.CodeNotFound, Param: "kind",
			Message: fmt.Sprintf("there is no export %.80q", kind), Hint: "use evidence, replay or review"}
	}
	release, err := s.limit.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	err = s.store.View(ctx, func(v ledger.View) error {
		return s.record(ctx, v, agentID, through, func(e *agentruntime.Event) error {
			if doc.Add(e) {
				return nil
			}
			return &state.Error{Code: wire.CodeTooLarge, Param: "through", Message: "the record is too long for one document",
				Hint: "cut it earlier with through, or page through GET /runtime/events"}
		})
	})
	if err != nil {
		return nil, err
	}
	return doc, doc.Close()
}
