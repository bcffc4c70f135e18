package sqlite

import (
	"bytes"

	"holon/state/ledger"
)

// lanes holds lanes as they are in the writer's transaction, by agent. Whatever
// is taken back is forgotten and read again.
type lanes map[string]ledger.Lane

// maxLanes bounds the memory for lanes of agents that rarely do anything.
const maxLanes = 1024

func (l lanes) put(lane ledger.Lane) {
	if len(l) >= maxLanes {
		l.clear()
	}
	l[lane.AgentID] = lane
}

func (l lanes) forget(agents []string) {
	for _, id := range agents {
		delete(l, id)
	}
}

func (l lanes) clear() { clear(l) }

// copyLane returns a lane that shares nothing with l.
func copyLane(l ledger.Lane) ledger.Lane {
	if l.PendingWake != nil {
		hint := *l.PendingWake
		hint.Body = bytes.Clone(hint.Body)
		l.PendingWake = &hint
	}
	l.Totals.LastTurn = copied(l.Totals.LastTurn)
	l.LastBriefAt = copied(l.LastBriefAt)
	if l.LastFailure != nil {
		failure := *l.LastFailure
		failure.Artifact = bytes.Clone(failure.Artifact)
		l.LastFailure = &failure
	}
	l.LastClosure, l.LastResolved = bytes.Clone(l.LastClosure), bytes.Clone(l.LastResolved)
	return l
}

func copied[T any](p *T) *T {
	if p == nil {
		return nil
	}
	c := *p
	return &c
}
