package scheduler

import "holon/state/ledger"

// reads is what a step is about to read.
type reads func(v ledger.View, agentID string)

// ahead lets a store that is far away read at once what a step of an agent reads, which is more for some.
func ahead(tx ledger.Tx, agentID string, more reads) {
	tx.Rows.Ahead(func() {
		_, _ = tx.AgentState(agentID)
		_, _, _ = tx.Head(agentID)
		_, _ = tx.CountQueued(agentID)
		_, _ = tx.UnresolvedWaits(agentID)
		_, _ = tx.OpenWork(agentID)
		more(tx.View, agentID)
	})
}

// aheadOfAdmission is for the step that admits a message, aheadOfClaim for that which claims one, and aheadOfMost for
// others.
func aheadOfAdmission(v ledger.View, agentID string) {
	_, _ = v.Agent(agentID)
	_, _, _ = v.OpenAttempt(agentID)
	_, _ = v.Turns(agentID, 1)
}

func aheadOfMost(v ledger.View, agentID string) {
	aheadOfAdmission(v, agentID)
	_, _ = v.OpenTasks(agentID)
	_, _ = v.OpenNotifications(agentID, "", "")
}

func aheadOfClaim(v ledger.View, agentID string) {
	aheadOfAdmission(v, agentID)
	_, _, _ = v.HeadMessage(agentID)
	_, _ = v.BlockedEntries(agentID)
	_, _ = v.OpenNotifications(agentID, "", "")
	_, _, _ = v.Memory(agentID)
}

// readsOf is what a step about an attempt is about to read.
type readsOf func(tx ledger.Tx, a ledger.Attempt)

// aheadOfRecord is for the steps that only record what a turn does. They are many.
func aheadOfRecord(tx ledger.Tx, a ledger.Attempt) {
	tx.Rows.Ahead(func() {
		_, _ = tx.Attempt(a.ID)
		_, _ = tx.AgentState(a.AgentID)
		_, _ = tx.Message(a.MessageID)
	})
}

// aheadOfEnd is for the step that settles an attempt.
func aheadOfEnd(tx ledger.Tx, a ledger.Attempt) {
	ahead(tx, a.AgentID, func(v ledger.View, agentID string) {
		_, _ = v.Attempt(a.ID)
		_, _ = v.Message(a.MessageID)
		_, _ = v.Held(agentID)
		_, _ = v.EventsAfter(agentID, a.Submitted)
		_, _ = v.OpenTasks(agentID)
		_, _ = v.OpenNotifications(agentID, "", "")
		_, _ = v.Notifications(agentID, lookBack)
		_, _, _ = v.Memory(agentID)
	})
}
