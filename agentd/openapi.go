package agentd

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"time"

	"holon/agentd/openapi"
)

// getOpenAPI is GET /openapi.json.
func (s *Server) getOpenAPI(w http.ResponseWriter, r *http.Request) {
	d := s.describe()
	h := w.Header()
	h.Set("ETag", d.tag)
	h.Set("Cache-Control", "no-cache") // it may be kept, and must be asked for again
	h.Set("Content-Type", "application/json")
	stall(w)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(d.text))
}

// description is the OpenAPI document as it is sent.
type description struct {
	text []byte
	tag  string // its ETag
}

func describe(version string, outputTokens, maxTokens int) description {
	text := openapi.Document(version, outputTokens, maxTokens)
	sum := sha256.Sum256(text)
	return description{text, `"` + hex.EncodeToString(sum[:12]) + `"`}
}
