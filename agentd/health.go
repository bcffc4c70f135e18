package agentd

import (
	"net/http"

	"holon/responses/turns"
)

func (s *Server) getHealth(w http.ResponseWriter, _ *http.Request) {
	s.writeJSON(w, http.StatusOK, s.Health())
}

// Health tells what state the server is in, without asking a model or a disk.
func (s *Server) Health() turns.Health {
	h := turns.Health{Status: turns.HealthReady, Version: s.parts.Version, Engine: turns.EngineAgentd,
		Models: s.parts.Models.Models(), Instance: s.instance, RuntimeID: s.store.RuntimeID(),
		Skills: s.enabled, MCP: s.parts.MCP.Health()}
	h.ActiveTurns, h.QueuedTurns = s.queue.Load()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining {
		h.Status = turns.HealthDraining
	}
	return h
}

// stopping is the answer of POST /shutdown.
type stopping struct {
	Status  string `json:"status"`
	Running int    `json:"active_turns"`
	Queued  int    `json:"queued_turns"`
}

func (s *Server) postShutdown(w http.ResponseWriter, _ *http.Request) {
	running, queued := s.queue.Load()
	s.writeJSON(w, http.StatusAccepted, stopping{turns.HealthDraining, running, queued})
	s.Shutdown()
}
