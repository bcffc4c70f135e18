package agentd

import (
	"net/http"

	"holon/agentd/model"
	"holon/responses"
)

// tokenCount is the answer of POST /responses/input_tokens.
type tokenCount struct {
	Object      string `json:"object"`
	InputTokens int    `json:"input_tokens"`
}

// countTokens is POST /responses/input_tokens: about how many tokens the model
// would be told first if the same body were sent to POST /responses, with all
// that agentd adds. It asks no model and needs none.
func (s *Server) countTokens(w http.ResponseWriter, r *http.Request) {
	req, err := s.readRequest(w, r)
	if err != nil {
		s.fail(w, err)
		return
	}
	p := &plan{req: req, turnID: responses.NewID(responses.PrefixTurn)}
	anything := model.Capabilities{Images: true, Files: true, Video: true} // which model is meant is open
	if err = s.planInput(p, nil, anything); err == nil {
		err = s.planDirs(p)
	}
	if err == nil {
		err = s.planTools(p)
	}
	defer p.offer.Release()
	if err != nil {
		s.fail(w, err)
		return
	}
	s.tell(p)
	first := s.turn(&job{plan: p}).FirstRequest()
	writeJSON(w, http.StatusOK, tokenCount{"response.input_tokens", model.Estimate(first)})
}
