package sqlite

import (
	"bytes"
	"slices"

	"holon/state/ledger"
)

// updateLane writes a lane that the file has.
func (t *tx) updateLane(l ledger.AgentState) error {
	data, err := encode(l)
	if err != nil {
		return err
	}
	_, err = t.write("UPDATE lanes SET revision = ?, event_seq = ?, stopped = ?, chain = ?, "+
		"wake_message = ?, data = ? "+
		"WHERE agent_id = ?",
		l.Revision, l.EventSeq, number(l.Stopped), l.Chain, l.WakeMessage, data, l.AgentID)
	return failed("update lane", err)
}

// copyLane returns a lane that shares nothing with l.
func copyLane(l ledger.AgentState) ledger.AgentState {
	if l.PendingWake != nil {
		hint := *l.PendingWake
		hint.Body, hint.Also = bytes.Clone(hint.Body), slices.Clone(hint.Also)
		l.PendingWake = &hint
	}
	l.Totals.LastTurn = copied(l.Totals.LastTurn)
	l.LastBriefAt, l.Progress.EndedAt = copied(l.LastBriefAt), copied(l.Progress.EndedAt)
	if l.LastFailure != nil {
		failure := *l.LastFailure
		failure.Artifact = copied(failure.Artifact)
		l.LastFailure = &failure
	}
	l.LastClosure, l.LastResolved = copied(l.LastClosure), copied(l.LastResolved)
	l.Container = copied(l.Container)
	return l
}

func copied[T any](p *T) *T {
	if p == nil {
		return nil
	}
	c := *p
	return &c
}
