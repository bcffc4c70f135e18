// Package access says who asks the host: a caller with its rights, in the context of a request, and the tokens of the
// file that gives others than the operator access.
//
// The invariant: a caller may do nothing that its line of the file does not say. The zero Caller may do nothing, and so
// may every token of a file that cannot be used as it is now. A token is in no error and in no Caller.
package access

import (
	"context"
	"slices"
)

// Operator is the name of the caller that comes over the Unix socket or with the control token.
const Operator = "operator"

// Caller is who makes a request, and what it may do.
type Caller struct {
	Name      string   // of the token
	Operator  bool     // its messages are the operator's, and it may use all routes
	Sessions  bool     // it may open sessions
	Agents    []string // that it may address
	AllAgents bool     // it may address any
}

// OfOperator is the operator as a caller with a name.
func OfOperator(name string) Caller {
	return Caller{Name: name, Operator: true, Sessions: true, AllAgents: true}
}

// MayAddress reports whether c may send messages to an agent.
func (c Caller) MayAddress(agentID string) bool {
	return c.AllAgents || slices.Contains(c.Agents, agentID)
}

type callerKey struct{}

// With returns a context of requests of c.
func With(ctx context.Context, c Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// From returns the caller of a request, and the zero Caller where there is none.
func From(ctx context.Context) Caller {
	c, _ := ctx.Value(callerKey{}).(Caller)
	return c
}
