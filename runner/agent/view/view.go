// Package view shows agents: the wire types of the control plane in snake_case, and
// the functions that compute each of them from one snapshot of the ledger.
//
//	ledger.View ─▶ Snapshot.Summary, State, Events, … ─▶ JSON
//
// The invariant: values that are shown together were true together, since they are read in one transaction; reading
// writes nothing and starts nothing; every list has a bound. The rules (when an agent is asleep, what it waits for) are
// those of package runner/agent/rules. No capability is shown: neither the token of a trigger nor its URL.
package view

import (
	"cmp"
	"fmt"
	"time"

	"holon/state"
	"holon/state/ledger"
)

// Bounds of lists, in records.
const (
	defaultLimit = 50
	MaxLimit     = 500

	maxAgents        = 1000 // in a listing
	maxTimers        = 100  // in a snapshot
	recentWindow     = 50   // briefs that are counted as recent
	recentOutbound   = 10   // notifications in a summary
	maxTriggersShown = 20
)

// codeAgentPrivate says that an agent is of another agent or of one run and is not shown by itself.
const codeAgentPrivate state.Code = "agent_private"

// CodeHomeUnusable is the code of an error of the disk that keeps the home of an agent, or a file of it, from being
// made.
const CodeHomeUnusable state.Code = "agent_home_unusable"

// Facts are what the runtime knows and the ledger does not.
type Facts struct {
	DefaultAgent string
	Model        string   // reference of the model of agents that have no other
	Fallbacks    []string // references, in the order they are asked
	Engine       string   // docker, local: what runs containers
	Booting      bool     // the runtime has not recovered yet
	Children     bool     // private children are shown by themselves: to themselves, and to their operator's debugging

	// Home returns the directory of an agent on the host, "" when it has none. It may be nil.
	Home func(agentID string) string
	// Plan describes the plan of a work item without its Path, nil when it has none. It may be nil; it reads, and must
	// not write or block.
	Plan func(agentID, itemID string) *PlanArtifact
	// AgentsMD returns which instruction files an agent is given. It may be nil; it reads, and must not write or block.
	AgentsMD func(agentID string) []AgentsMD
	// TreesDir returns where the trees of an agent are on the host, and Guidance which file of instructions it has of a
	// workspace, "" for none. Each may be nil.
	TreesDir func(agentID string) string
	Guidance func(agentID, workspaceID string) string
	// Worktrees says that agents can be given trees for a task.
	Worktrees bool
	Network   string   // that containers are made with; "": none
	Weaker    []string // axes of the isolation that may be weaker than asked for
	// Bounds returns what the settings allow agents for which nothing else was set. It may be nil; it must not block.
	Bounds func() ledger.TreeBounds
	// HostBudget returns what everything on the host has taken, nil where that is not known. It may be nil; it reads a
	// small file.
	HostBudget func() *HostBudget
	// Isolation returns what is in force for the container that an agent has, nil when it
	// has none. It may be nil; it must not block.
	Isolation func(agentID string) *state.Isolation
}

// Snapshot computes views of one read transaction, with the facts of the runtime.
// It is valid as long as the transaction.
type Snapshot struct {
	ledger ledger.View
	facts  Facts
}

// New returns the views of v.
func New(v ledger.View, f Facts) Snapshot { return Snapshot{v, f} }

// shown returns an agent that may be shown by itself. Errors are *state.Error
// with ledger.CodeNotFound or codeAgentPrivate.
func (s Snapshot) shown(agentID string) (ledger.Agent, error) {
	a, err := s.ledger.Agent(agentID)
	if err != nil {
		return ledger.Agent{}, err
	}
	if a.Visibility == ledger.Private && !(s.facts.Children && a.Kind == ledger.KindChild) {
		return ledger.Agent{}, &state.Error{Code: codeAgentPrivate, Param: "agent_id",
			Message: fmt.Sprintf("agent %s is private", a.ID), Hint: "look at the agent or the run that it belongs to"}
	}
	return a, nil
}

// clamp brings a limit that was asked for within the bounds; 0 is the default.
func clamp(limit int) int { return min(cmp.Or(max(limit, 0), defaultLimit), MaxLimit) }

// list makes an empty list of none, which is [] on the wire and not null.
func list[T any](of []T) []T {
	if of == nil {
		return []T{}
	}
	return of
}

// milliseconds between two times, 0 when they are the wrong way round.
func milliseconds(from, to time.Time) int64 {
	return max(0, to.Sub(from).Milliseconds())
}

func isNotFound(err error) bool { return state.IsCode(err, ledger.CodeNotFound) }
