package endpoint

import (
	"context"
	"net/http"
)

type tokenKey struct{}

// WithTurnToken returns a context whose requests to the host's gateway carry the
// token of their turn. The token goes nowhere else: neither to an endpoint of
// agentd's own configuration nor into an error. An empty token changes nothing.
func WithTurnToken(ctx context.Context, token string) context.Context {
	if token == "" {
		return ctx
	}
	return context.WithValue(ctx, tokenKey{}, token)
}

// turnTransport sends the token of the turn that a request is made for.
type turnTransport struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (t turnTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if token, ok := r.Context().Value(tokenKey{}).(string); ok {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+token)
	}
	return t.RoundTripper.RoundTrip(r)
}
