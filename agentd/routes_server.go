package agentd

import (
	"net/http"
	"reflect"

	"holon/responses/openapi"
	"holon/responses/turns"
)

// serverRoutes are about the server itself.
func (s *Server) serverRoutes() []route {
	return []route{
		{http.MethodGet, "/health", s.getHealth, about{
			id: "getHealth", tag: tagServer, summary: "The state of the server",
			text:  "It is answered without asking a model or a disk.",
			gives: reflect.TypeFor[turns.Health](),
		}},
		{http.MethodGet, "/openapi.json", s.getOpenAPI, about{
			id: "getOpenAPI", tag: tagServer, summary: "This document",
			params: []openapi.Parameter{{Name: "If-None-Match", In: "header",
				Description: "the ETag of the copy that you have", Schema: openapi.Text()}},
			free: true, cached: true,
		}},
		{http.MethodGet, "/models", s.getModels, about{
			id: "listModels", tag: tagServer, summary: "The models that are known beforehand, the default first",
			text:  "Providers may take other names as well.",
			gives: reflect.TypeFor[modelList](),
		}},
		{http.MethodGet, "/models/*", s.getModel, about{
			id: "getModel", tag: tagServer, summary: "Whether a request may name a model, listed or not",
			text:  "The id is provider/model; its slash may be escaped or not.",
			gives: reflect.TypeFor[modelObject](), errors: []int{404},
		}},
		{http.MethodPost, "/shutdown", s.postShutdown, about{
			id: "shutDown", tag: tagServer, summary: "End the server",
			text:   "It takes no new turns, gives the running ones their grace, and ends. A body is not read.",
			status: http.StatusAccepted, gives: reflect.TypeFor[stopping](),
		}},
	}
}
