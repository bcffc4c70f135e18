package control

import (
	"context"
	"net/http"

	"holon/internal/httpserver"
	"holon/runner/agent/view"
	"holon/state"
	"holon/state/ledger"
)

// Memory is what agents remember: *memorysearch.Service.
type Memory interface {
	Search(ctx context.Context, agentID string, q view.MemoryQuery) (view.MemoryResults, error)
	Get(ctx context.Context, agentID, ref string, limit int) (view.MemorySource, error)
	Rebuild(ctx context.Context, agentID string) (view.MemoryRebuilt, error)
}

// ofMemory makes the handler of a route that asks the memory of an agent, for which its index may have to be made
// first.
func (s *Server) ofMemory(ask func(r *http.Request, q query, agentID string) (any, error), names ...string) handler {
	return func(w http.ResponseWriter, r *http.Request) (any, error) {
		q, err := queryOf(r, names...)
		if err != nil {
			return nil, err
		}
		if s.opts.Memory == nil {
			return nil, &state.Error{Code: ledger.CodeNotFound, Param: "memory", Message: "this daemon keeps no memory"}
		}
		s.mayTake(w, containerTime)
		return ask(r, q, s.agentID(r))
	}
}

func (s *Server) searchMemory(r *http.Request, q query, id string) (any, error) {
	limit, err := q.number("limit", view.MaxMemories)
	if err != nil {
		return nil, err
	}
	all, err := q.word("all_workspaces", "false", "true")
	if err != nil {
		return nil, err
	}
	return s.opts.Memory.Search(r.Context(), id, view.MemoryQuery{Text: q["query"], Limit: int(limit),
		AllWorkspaces: all == "true"})
}

func (s *Server) showMemory(r *http.Request, q query, id string) (any, error) {
	limit, err := q.number("max_chars", view.MaxMemoryChars)
	if err != nil {
		return nil, err
	}
	return s.opts.Memory.Get(r.Context(), id, httpserver.PathValue(r, "source_ref"), int(limit))
}

func (s *Server) rebuildMemory(r *http.Request, _ query, id string) (any, error) {
	return s.opts.Memory.Rebuild(r.Context(), id)
}
