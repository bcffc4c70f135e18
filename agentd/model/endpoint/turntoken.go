package endpoint

import (
	"net/http"

	"holon/agentd/turntoken"
)

// turnTransport sends the token of the turn that a request is made for.
type turnTransport struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (t turnTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if token := turntoken.Of(r.Context()); token != "" {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+token)
	}
	return t.RoundTripper.RoundTrip(r)
}
