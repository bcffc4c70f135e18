package control

import (
	"cmp"
	"net/http"

	"holon/internal/httpserver"
	"holon/responses"
	"holon/runner/agent/scheduler"
	"holon/runner/agent/view"
	"holon/runner/control/wire"
)

func (s *Server) workItem(r *http.Request, id, itemID string) (any, error) {
	return read(s, r, func(v view.Snapshot) (view.WorkRecord, error) { return v.Work(id, itemID) })
}

// postWorkItem makes a work item without a message: the agent sees it when it is idle, or in its next turn.
func (s *Server) postWorkItem(_ http.ResponseWriter, r *http.Request, n wire.WorkItem) (any, error) {
	if n.Objective == "" {
		return nil, missing("objective", "say what is to be reached")
	}
	key, err := idempotencyKey(r, "http_work_item")
	if err != nil {
		return nil, err
	}
	item, _, err := s.steps.CreateWork(r.Context(), scheduler.NewWork{AgentID: s.agentID(r),
		Key: cmp.Or(key, responses.NewID("key_")), Objective: n.Objective})
	if err != nil {
		return nil, err
	}
	return s.workItem(r, s.agentID(r), item.ID)
}

func (s *Server) postPickWork(_ http.ResponseWriter, r *http.Request) (any, error) {
	item := httpserver.PathValue(r, "work_item_id")
	if _, err := s.steps.PickWork(r.Context(), s.agentID(r), item, responses.NewID("key_")); err != nil {
		return nil, err
	}
	return s.workItem(r, s.agentID(r), item)
}

// postBlockWork says for the operator what blocks an item.
func (s *Server) postBlockWork(_ http.ResponseWriter, r *http.Request, b wire.Block) (any, error) {
	item := httpserver.PathValue(r, "work_item_id")
	if _, err := s.steps.UpdateWork(r.Context(), s.agentID(r), item, responses.NewID("key_"),
		scheduler.WorkChange{BlockedBy: &b.BlockedBy}); err != nil {
		return nil, err
	}
	return s.workItem(r, s.agentID(r), item)
}

// postCompleteWork completes an item for the operator, without a report of the agent.
func (s *Server) postCompleteWork(_ http.ResponseWriter, r *http.Request) (any, error) {
	item := httpserver.PathValue(r, "work_item_id")
	if _, err := s.steps.CompleteWork(r.Context(), s.agentID(r), item, responses.NewID("key_"), nil); err != nil {
		return nil, err
	}
	return s.workItem(r, s.agentID(r), item)
}
