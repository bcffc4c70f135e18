package agentd

import "time"

// SetWaits gives the server less patience than it has, before it serves.
func (s *Server) SetWaits(heartbeat, write, body time.Duration) {
	s.waits = waits{heartbeat: heartbeat, write: write, body: body}
}
