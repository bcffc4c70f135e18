package agentd

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"

	"holon/agentd/openapi"
)

// getOpenAPI is GET /openapi.json.
func (s *Server) getOpenAPI(w http.ResponseWriter, r *http.Request) {
	d := s.describe()
	h := w.Header()
	h.Set("ETag", d.tag)
	h.Set("Cache-Control", "no-cache") // it may be kept, and must be asked for again
	if matches(r.Header.Values("If-None-Match"), d.tag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Type", "application/json")
	stall(w)
	_, _ = w.Write(d.text) // an error means that the client is gone
}

// matches reports whether the values of If-None-Match name a tag.
func matches(values []string, tag string) bool {
	for _, v := range values {
		for one := range strings.SplitSeq(v, ",") {
			if one = strings.TrimPrefix(strings.TrimSpace(one), "W/"); one == tag || one == "*" {
				return true
			}
		}
	}
	return false
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
