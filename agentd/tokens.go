package agentd

import (
	"cmp"
	"net/http"

	"holon/agentd/model"
	"holon/responses"
	"holon/responses/turns"
)

// tokenCount is the answer of POST /responses/input_tokens.
type tokenCount struct {
	Object      string `json:"object"`
	InputTokens int    `json:"input_tokens"`
}

// countTokens is POST /responses/input_tokens: about how many tokens the model
// would be told first if the same body were sent to POST /responses, with all
// that agentd adds. It asks no model and needs none: a body is refused as there, but
// for a model that is unknown.
func (s *Server) countTokens(w http.ResponseWriter, r *http.Request) {
	p, err := s.planned(w, r, false)
	if err != nil {
		s.fail(w, err)
		return
	}
	defer p.offer.Release()
	s.writeJSON(w, http.StatusOK, tokenCount{"response.input_tokens", model.Estimate(s.firstRequest(p))})
}

// planned is the plan of a request whose turn is not made.
func (s *Server) planned(w http.ResponseWriter, r *http.Request, needsModel bool) (*plan, error) {
	req, err := s.readRequest(w, r)
	if err != nil {
		return nil, err
	}
	return s.plan(cmp.Or(req.Holon.TurnID, responses.NewID(responses.PrefixTurn)), req, nil, needsModel)
}

// firstRequest is what the model would be asked first in a planned turn.
func (s *Server) firstRequest(p *plan) model.Request {
	return s.turn(&job{plan: p, scope: turns.Scope{SessionID: p.sessionID, Now: s.parts.Now}}).FirstRequest()
}
