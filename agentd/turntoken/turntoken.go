// Package turntoken carries the token of a turn from the request that brought it to
// what is sent to the host for the turn: requests to its gateway, calls of its tools.
// It goes nowhere else, neither to another server nor into a record, log or error.
package turntoken

import "context"

type key struct{}

// With returns a context of the turn with the token. An empty token changes nothing.
func With(ctx context.Context, token string) context.Context {
	if token == "" {
		return ctx
	}
	return context.WithValue(ctx, key{}, token)
}

// Of returns the token of the turn that ctx belongs to, "" when it has none.
func Of(ctx context.Context) string {
	token, _ := ctx.Value(key{}).(string)
	return token
}
