package agentd

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/go-chi/chi/v5"

	"holon/responses"
)

// modelObject is a model as OpenAI's API lists it.
type modelObject struct {
	ID      string `json:"id"` // provider/model
	Object  string `json:"object"`
	Created int64  `json:"created"` // when this server began to offer it
	OwnedBy string `json:"owned_by"`
}

// modelList is the answer of GET /models.
type modelList struct {
	Object string        `json:"object"`
	Data   []modelObject `json:"data"`
}

func (s *Server) model(ref string) modelObject {
	provider, _, _ := strings.Cut(ref, "/")
	return modelObject{ref, "model", s.opened.Unix(), provider}
}

// getModels lists the models that are known beforehand, the default first.
// Providers may take other names as well.
func (s *Server) getModels(w http.ResponseWriter, _ *http.Request) {
	list := modelList{"list", []modelObject{}}
	for _, ref := range s.parts.Models.Models() {
		list.Data = append(list.Data, s.model(ref))
	}
	s.writeJSON(w, http.StatusOK, list)
}

// getModel tells whether a request may name the model, listed or not. An id
// holds a slash, which some clients escape.
func (s *Server) getModel(w http.ResponseWriter, r *http.Request) {
	ref, err := url.PathUnescape(chi.URLParam(r, "*"))
	if err == nil && ref != "" {
		if m, err := s.parts.Models.Resolve(ref); err == nil {
			s.writeJSON(w, http.StatusOK, s.model(m.Ref))
			return
		}
	}
	s.writeError(w, responses.NotFound("model", responses.CodeModelNotFound,
		fmt.Sprintf("the model %q cannot be used here", clipID(ref))))
}
