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
// that agentd adds. It asks no model and needs none: a body is refused as there, but
// for a model that is unknown.
func (s *Server) countTokens(w http.ResponseWriter, r *http.Request) {
	req, err := s.readRequest(w, r)
	if err != nil {
		s.fail(w, err)
		return
	}
	if req, err = s.refuse(req, nil); err != nil {
		s.fail(w, err)
		return
	}
	to, err := s.target(req.Model, req.Holon.ModelFallbacks)
	if err != nil {
		to = target{takes: model.Capabilities{Images: true, Files: true, Video: true}}
	}
	p, err := s.planFor(to, responses.NewID(responses.PrefixTurn), req, nil)
	if err != nil {
		s.fail(w, err)
		return
	}
	defer p.offer.Release()
	first := s.turn(&job{plan: p}).FirstRequest()
	s.writeJSON(w, http.StatusOK, tokenCount{"response.input_tokens", model.Estimate(first)})
}
