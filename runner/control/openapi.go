package control

import (
	_ "embed"
	"encoding/json"
	"net/http"
	"strings"
)

// apiDocument is the OpenAPI document of the control plane. Tests compare it with
// the routes, with the types of what they take and give, and with real answers.
//
//go:embed openapi.json
var apiDocument string

// getOpenAPI is GET /openapi.json.
func (s *Server) getOpenAPI(http.ResponseWriter, *http.Request) (any, error) {
	version, err := json.Marshal(s.host.Info().Version)
	return []byte(strings.Replace(apiDocument, `"0.0.0"`, string(version), 1)), err
}
