package agentd

import (
	"fmt"
	"net/http"
	"slices"
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
	for _, one := range s.routes() {
		r.Method(one.method, one.path, one.handle)
	}
	return r
}

// route is one way into the API, with what the OpenAPI document says of it.
type route struct {
	method, path string
	handle       http.HandlerFunc
	about        about
}

// routes are all ways into the API. A test finds handlers that are registered
// in another way.
func (s *Server) routes() []route {
	return slices.Concat(s.serverRoutes(), s.responseRoutes(), s.turnRoutes(), s.taskRoutes())
}

func notFound(w http.ResponseWriter, r *http.Request) {
	writeError(w, responses.NotFound("", responses.CodeNotFound, fmt.Sprintf("there is no %q", clipID(r.URL.Path))))
}

func methodNotAllowed(w http.ResponseWriter, r *http.Request) {
	list := allowed(r)
	w.Header().Set("Allow", list)
	e := responses.Invalid("", responses.CodeMethodNotAllowed,
		fmt.Sprintf("%q does not take %q", clipID(r.URL.Path), clipID(r.Method)))
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
