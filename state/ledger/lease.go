package ledger

import (
	"context"

	"holon/responses"
	"holon/state"
)

// Codes of errors about leases.
const (
	CodeElsewhere state.Code = responses.CodeElsewhere // another process runs the agent
	CodeLeaseLost state.Code = "lease_lost"            // this process was silent for too long: others run its agents
)

// SessionsLease is the key of the lease of the sessions of clients, all of which one process has. No agent has such
// an id.
const SessionsLease = "/sessions"

// Leases say which agents this process runs, where several share a ledger. A lease is of a public agent and covers all
// agents below it. It lasts as long as the process may write: when others take its agents, none of its Updates is
// kept any more.
type Leases interface {
	// Held reports whether this process has the lease of an agent. It asks no database.
	Held(agentID string) bool

	// Fence is a number of the lease of an agent that grows with each process that takes it, for writes outside of the
	// ledger; 0 when this process does not have it.
	Fence(agentID string) int64

	// Check returns nil when this process has the lease of an agent, or takes it because no process ever had it, and
	// CodeElsewhere otherwise.
	Check(ctx context.Context, agentID string) error

	// Take takes the leases of processes that are gone, and those of agents that are wanted and that no process has:
	// as many as this process should have so that each has its share. It returns those that it took.
	Take(ctx context.Context, wanted []string) ([]string, error)

	// Give gives leases up of which this process has more than its share, of agents that have nothing to do, so that one
	// that came later can take them. It calls leave for each, with what gives it up; leave calls that while nothing of the
	// agent runs here and nothing can begin, or not at all.
	Give(ctx context.Context, leave func(root string, give func() error) error) error

	// Problem says why this process cannot renew what it has, nil when it can.
	Problem() error

	// Lost is closed when this process may not write any more, because others have its agents or the ledger has another
	// history, and has to end.
	Lost() <-chan struct{}
}

// Alone are the leases of a process that has its ledger for itself.
type Alone struct{}

var _ Leases = Alone{}

// Held implements Leases.
func (Alone) Held(string) bool { return true }

// Fence implements Leases.
func (Alone) Fence(string) int64 { return 1 }

// Check implements Leases.
func (Alone) Check(context.Context, string) error { return nil }

// Take implements Leases.
func (Alone) Take(context.Context, []string) ([]string, error) { return nil, nil }

// Give implements Leases.
func (Alone) Give(context.Context, func(string, func() error) error) error { return nil }

// Problem implements Leases.
func (Alone) Problem() error { return nil }

// Lost implements Leases.
func (Alone) Lost() <-chan struct{} { return nil }
