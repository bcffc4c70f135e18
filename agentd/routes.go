package agentd

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/go-chi/chi/v5"

	"holon/responses"
)

// Handler returns the API. Every route exists under / and under /v1.
func (s *Server) Handler() http.Handler {
	r := chi.NewRouter()
	r.Use(requestID, s.observe, versions, methods)
	r.NotFound(notFound)
	r.MethodNotAllowed(methodNotAllowed)
	s.routes(r)
	return r
}

func (s *Server) routes(r chi.Router) {
	r.Get("/health", s.getHealth)
	r.Get("/models", s.getModels)
	r.Get("/models/*", s.getModel)
	r.Post("/responses", s.createResponse)
	r.Get("/responses", s.getWebSocket)
	r.Post("/responses/compact", s.compactConversation)
	r.Post("/responses/input_tokens", s.countTokens)
	r.Get("/responses/{id}", s.getResponse)
	r.Delete("/responses/{id}", s.deleteResponse)
	r.Post("/responses/{id}/cancel", s.cancelResponse)
	r.Get("/responses/{id}/input_items", s.getInputItems)
	r.Get("/turns/{id}", s.getTurn)
	r.Get("/turns/{id}/events", s.getTurnEvents)
	s.taskRoutes(r)
	r.Post("/shutdown", s.postShutdown)
}

func notFound(w http.ResponseWriter, r *http.Request) {
	writeError(w, responses.NotFound("", responses.CodeNotFound, fmt.Sprintf("there is no %q", clipID(r.URL.Path))))
}

func methodNotAllowed(w http.ResponseWriter, r *http.Request) {
	list := allowed(r)
	w.Header().Set("Allow", list)
	e := responses.Invalid("", responses.CodeMethodNotAllowed, fmt.Sprintf("%q does not take %q", clipID(r.URL.Path), clipID(r.Method)))
	e.Hint = "use one of " + list
	writeError(w, e)
}

// allowed lists the methods that the path of r takes, "" when there is no such path.
func allowed(r *http.Request) string {
	route := chi.RouteContext(r.Context())
	var list []string
	for _, m := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
		if !route.Routes.Match(chi.NewRouteContext(), m, route.RoutePath) {
			continue
		}
		if list = append(list, m); m == http.MethodGet {
			list = append(list, http.MethodHead)
		}
	}
	if len(list) == 0 {
		return ""
	}
	return strings.Join(append(list, http.MethodOptions), ", ")
}
