package agentd

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

	"holon/responses"
)

// Handler returns the API. Every route exists under / and under /v1.
func (s *Server) Handler() http.Handler {
	r := chi.NewRouter()
	r.Use(requestID, s.observe, versions, middleware.GetHead, options)
	r.NotFound(s.notFound)
	r.MethodNotAllowed(s.methodNotAllowed)
	for _, one := range s.routes() {
		r.Method(one.method, one.path, one.handle)
	}
	return r
}

// route is one way into the API. The OpenAPI document (package openapi) describes it.
type route struct {
	method, path string
	handle       http.HandlerFunc
}

// routes are all ways into the API.
func (s *Server) routes() []route {
	return []route{
		{http.MethodGet, "/health", s.getHealth},
		{http.MethodGet, "/metrics", s.getMetrics},
		{http.MethodGet, "/openapi.json", s.getOpenAPI},
		{http.MethodGet, "/models", s.getModels},
		{http.MethodGet, "/models/*", s.getModel},
		{http.MethodPost, "/shutdown", s.postShutdown},

		// Open Responses, and what OpenAI's API adds to it
		{http.MethodPost, "/responses", s.createResponse},
		{http.MethodGet, "/responses", s.getWebSocket},
		{http.MethodPost, "/responses/compact", s.compactConversation},
		{http.MethodPost, "/responses/input_tokens", s.countTokens},
		{http.MethodPost, "/responses/preview", s.previewRequest},
		{http.MethodGet, "/responses/{id}", s.getResponse},
		{http.MethodDelete, "/responses/{id}", s.deleteResponse},
		{http.MethodPost, "/responses/{id}/cancel", s.cancelResponse},
		{http.MethodGet, "/responses/{id}/input_items", s.getInputItems},

		// turns as their host sees them
		{http.MethodGet, "/turns/{id}", s.getTurn},
		{http.MethodGet, "/turns/{id}/events", s.getTurnEvents},
		{http.MethodPost, "/turns/{id}/input", s.postTurnInput},

		// commands that outlive the call that started them
		{http.MethodGet, "/tasks", s.getTasks},
		{http.MethodPost, "/tasks", s.postTask},
		{http.MethodGet, "/tasks/follow", s.followTasks},
		{http.MethodGet, "/tasks/{id}", s.getTask},
		{http.MethodGet, "/tasks/{id}/output", s.getTaskOutput},
		{http.MethodPost, "/tasks/{id}/input", s.postTaskInput},
		{http.MethodPost, "/tasks/{id}/stop", s.postTaskStop},
	}
}

func (s *Server) notFound(w http.ResponseWriter, r *http.Request) {
	s.writeError(w, responses.NotFound("", responses.CodeNotFound, fmt.Sprintf("there is no %q", clipID(r.URL.Path))))
}

func (s *Server) methodNotAllowed(w http.ResponseWriter, r *http.Request) {
	list := allowed(r)
	w.Header().Set("Allow", list)
	e := responses.Invalid("", responses.CodeMethodNotAllowed,
		fmt.Sprintf("%q does not take %q", clipID(r.URL.Path), clipID(r.Method)))
	e.Hint = "use one of " + list
	s.writeError(w, e)
}

// allowed lists the methods that the path of r takes, "" for an unknown path.
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
