package agentd

import (
	"time"

	"holon/agentd/config"
	"holon/agentd/openapi"
	"holon/agentd/tools"
)

// SetWaits gives the server less patience than it has, before it serves.
func (s *Server) SetWaits(heartbeat, write, body time.Duration) {
	s.waits = waits{heartbeat: heartbeat, write: write, body: body}
}

// Clients returns how many clients wait for a running turn.
func (s *Server) Clients(turnID string) int {
	lt := s.lookup(turnID)
	if lt == nil {
		return 0
	}
	lt.mu.Lock()
	defer lt.mu.Unlock()
	return lt.clients
}

// Description returns the OpenAPI document of a server with the default configuration.
func Description() []byte {
	cfg := config.Default()
	return openapi.Document("test", cfg.Tools.OutputTokens, cfg.Tools.MaxOutputTokens)
}

// Transports is how Assemble configures the providers.
var Transports = transports

// Families is what a turn knows of results.
var Families = families

// MetricsOfTools returns the metrics after one call of each named tool.
func MetricsOfTools(names []string) string {
	m := newMetrics()
	for _, name := range names {
		m.toolEnded(name, tools.Outcome{})
	}
	return m.text(0, 0, 0)
}
