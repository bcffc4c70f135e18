package agentd

import (
	"holon/responses"
	"holon/responses/turns"
)

// planTools finds the tools of a turn: the container's, and those that servers
// offer at this moment. They stay the same while the turn runs.
func (s *Server) planTools(p *plan) (err error) {
	p.toolset = s.parts.Tools
	// Not the request's context: the turn may outlive it, and the wait is bounded.
	if p.offer, err = s.parts.MCP.Offer(s.base, p.req.MCP); err != nil {
		return err
	}
	if len(p.offer.Tools) == 0 {
		return nil
	}
	p.offer.Notes = append(p.offer.Notes, p.offer.Replaced(s.parts.Tools.Definitions())...)
	all, err := s.parts.Tools.With(p.offer.Tools...)
	if err != nil {
		return responses.Internal("the tools of MCP servers cannot be offered; the server's log has the details", err)
	}
	p.toolset = all
	return nil
}

// offered are the facts about servers and their tools that the turn begins with.
func (j *job) offered() []turns.RuntimeEvent {
	if j.offer == nil {
		return nil
	}
	var facts []turns.RuntimeEvent
	for _, note := range j.offer.Notes {
		facts = append(facts, j.scope.Warning(turns.Notice{Code: note.Code, Message: note.Message, Component: "mcp",
			Recoverable: true}))
	}
	return facts
}
