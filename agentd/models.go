package agentd

import (
	"fmt"
	"net/http"
	"strings"

	"holon/internal/httpserver"
	"holon/responses"
)

func (s *Server) model(ref string) responses.Model {
	provider, _, _ := strings.Cut(ref, "/")
	return responses.Model{ID: ref, Object: "model", Created: s.opened.Unix(), OwnedBy: provider} // began to offer it
}

// getModels lists the models that are known beforehand, the default first.
// Providers may take other names as well.
func (s *Server) getModels(w http.ResponseWriter, _ *http.Request) {
	list := responses.ModelList{Object: "list", Data: []responses.Model{}}
	for _, ref := range s.parts.Models.Models() {
		list.Data = append(list.Data, s.model(ref))
	}
	s.writeJSON(w, http.StatusOK, list)
}

// getModel tells whether a request may name the model, listed or not. An id
// holds a slash, which some clients escape.
func (s *Server) getModel(w http.ResponseWriter, r *http.Request) {
	ref := httpserver.PathValue(r, "*")
	if ref != "" {
		if m, err := s.parts.Models.Resolve(ref); err == nil {
			s.writeJSON(w, http.StatusOK, s.model(m.Ref))
			return
		}
	}
	s.writeError(w, responses.NotFound("model", responses.CodeModelNotFound,
		fmt.Sprintf("the model %q cannot be used here", clipID(ref))))
}
