package sqlite

import (
	"fmt"
	"slices"

	"holon/state/ledger"
)

// Agent implements ledger.View.
func (v *view) Agent(id string) (ledger.Agent, error) {
	return get(v, "agent", id, scanAgent, "SELECT data FROM agents WHERE id = ?")
}

// Agents implements ledger.View.
func (v *view) Agents() ([]ledger.Agent, error) {
	return list(v, "agents", func(r *row) (a ledger.Agent) {
		id := r.text()
		if !r.sound(&a) {
			a = ledger.Agent{ID: id}
		}
		return a
	}, "SELECT id, data FROM agents WHERE archived = 0 ORDER BY id")
}

func scanAgent(r *row) (a ledger.Agent) {
	r.record(&a)
	return a
}

func keepAgent(a ledger.Agent) ledger.Agent {
	a.CreatedAt, a.UpdatedAt, a.ArchivedAt = kept(a.CreatedAt), kept(a.UpdatedAt), keptOrNil(a.ArchivedAt)
	return a
}

// AgentState implements ledger.View.
func (v *view) AgentState(agentID string) (ledger.AgentState, error) {
	return get(v, "agent", agentID, scanLane, "SELECT revision, event_seq, stopped, data FROM lanes WHERE agent_id = ?")
}

func scanLane(r *row) (l ledger.AgentState) {
	revision, seq, stopped := r.integer(), r.integer(), r.flag()
	r.record(&l)
	l.Revision, l.EventSeq, l.Stopped = revision, seq, stopped
	return l
}

func keepLane(l ledger.AgentState) ledger.AgentState {
	l.UpdatedAt, l.LastBriefAt, l.Progress.EndedAt = kept(l.UpdatedAt), keptOrNil(l.LastBriefAt),
		keptOrNil(l.Progress.EndedAt)
	l.LastFailure = keepFailure(l.LastFailure)
	if l.PendingWake != nil {
		hint := *l.PendingWake
		hint.CreatedAt, hint.Also = kept(hint.CreatedAt), slices.Clone(hint.Also)
		for i := range hint.Also {
			hint.Also[i].CreatedAt = kept(hint.Also[i].CreatedAt)
		}
		l.PendingWake = &hint
	}
	return l
}

func keepFailure(f *ledger.Failure) *ledger.Failure {
	f = copied(f)
	if f != nil {
		f.OccurredAt = kept(f.OccurredAt)
	}
	return f
}

// InsertAgent implements ledger.Tx.
func (t *tx) InsertAgent(a ledger.Agent, l ledger.AgentState) error {
	if l.AgentID != a.ID {
		return fmt.Errorf("insert agent %q: the lane is that of %q", a.ID, l.AgentID)
	}
	data, err := encode(keepAgent(a))
	if err != nil {
		return err
	}
	if _, err := t.write("INSERT INTO agents (id, archived, data) VALUES (?, ?, ?)", a.ID, number(a.ArchivedAt != nil),
		data); err != nil {
		return changed("insert", "agent", ledger.CodeExists, err)
	}
	l = keepLane(l)
	if data, err = encode(l); err != nil {
		return err
	}
	_, err = t.write("INSERT INTO lanes (agent_id, revision, event_seq, stopped, chain, wake_message, data) VALUES "+
		"(?, ?, ?, ?, ?, ?, ?)",
		l.AgentID, l.Revision, l.EventSeq, number(l.Stopped), l.Chain, l.WakeMessage, data)
	return changed("insert", "agent", ledger.CodeExists, err)
}

// UpdateAgent implements ledger.Tx.
func (t *tx) UpdateAgent(a ledger.Agent) error {
	data, err := encode(keepAgent(a))
	if err != nil {
		return err
	}
	return t.replace("agent", a.ID, "UPDATE agents SET archived = ?, data = ? WHERE id = ?",
		number(a.ArchivedAt != nil), data, a.ID)
}
