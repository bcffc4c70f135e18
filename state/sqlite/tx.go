package sqlite

import (
	"context"
	"database/sql/driver"
	"fmt"
	"slices"

	"holon/state"
	"holon/state/ledger"
)

// tx is one update. It sees what it has written, and what those of its batch
// have.
type tx struct {
	view
	lanes    lanes
	touched  []string   // agents whose lane in memory may be of this update
	appended []appended // not yet saved
	watched  []string   // agents with new events
	broken   error      // after which SQLite may have ended the transaction
}

// appended is the number of an agent's newest event in this update.
type appended struct {
	agentID string
	seq     int64
}

var _ ledger.Tx = (*tx)(nil)

func newTx(ctx context.Context, w *writer) *tx {
	return &tx{view: view{ctx: ctx, conn: w.conn}, lanes: w.lanes}
}

// write runs a statement that changes rows and returns how many.
func (t *tx) write(text string, args ...driver.Value) (int64, error) {
	if t.broken != nil {
		return 0, t.broken
	}
	if err := t.usable(); err != nil {
		return 0, err
	}
	n, err := t.conn.exec(text, args...)
	if err != nil && ends(err) {
		t.broken = failed("update the ledger", err)
	}
	return n, err
}

// replace runs a statement that changes the one row of a noun.
func (t *tx) replace(noun, id, text string, args ...driver.Value) error {
	n, err := t.write(text, args...)
	if err != nil {
		if conflict := inserted(noun, ledger.CodeConflict, err); state.IsCode(conflict, ledger.CodeConflict) {
			return conflict
		}
		return failed("update "+noun, err)
	}
	if n == 0 {
		return notFound(noun, id)
	}
	return nil
}

// Lane implements ledger.View, from memory when it can.
func (t *tx) Lane(agentID string) (ledger.Lane, error) {
	if err := t.usable(); err != nil {
		return ledger.Lane{}, err
	}
	if l, ok := t.lanes[agentID]; ok {
		return copyLane(l), nil
	}
	l, err := t.view.Lane(agentID)
	if err == nil {
		t.lanes.put(copyLane(l))
	}
	return l, err
}

// InsertAgent implements ledger.Tx.
func (t *tx) InsertAgent(a ledger.Agent, l ledger.Lane) error {
	if l.AgentID != a.ID {
		return fmt.Errorf("insert agent %q: the lane is that of %q", a.ID, l.AgentID)
	}
	data, err := encode(keepAgent(a))
	if err != nil {
		return err
	}
	if _, err := t.write("INSERT INTO agents (id, archived, data) VALUES (?, ?, ?)", a.ID, number(a.ArchivedAt != nil), data); err != nil {
		return inserted("agent", ledger.CodeExists, err)
	}
	t.touched = append(t.touched, a.ID)
	l = keepLane(l)
	if data, err = encode(l); err != nil {
		return err
	}
	_, err = t.write("INSERT INTO lanes (agent_id, revision, event_seq, stopped, chain, wake_message, data) VALUES (?, ?, ?, ?, ?, ?, ?)",
		l.AgentID, l.Revision, l.EventSeq, number(l.Stopped), l.Chain, l.WakeMessage, data)
	if err != nil {
		return inserted("lane", ledger.CodeConflict, err)
	}
	return nil
}

// UpdateAgent implements ledger.Tx.
func (t *tx) UpdateAgent(a ledger.Agent) error {
	data, err := encode(keepAgent(a))
	if err != nil {
		return err
	}
	return t.replace("agent", a.ID, "UPDATE agents SET archived = ?, data = ? WHERE id = ?", number(a.ArchivedAt != nil), data, a.ID)
}

// SaveLane implements ledger.Tx.
func (t *tx) SaveLane(l *ledger.Lane) error {
	stored, err := t.Lane(l.AgentID)
	if err != nil {
		return err
	}
	if l.Revision != stored.Revision {
		return &state.Error{Code: ledger.CodeConflict, Message: fmt.Sprintf("the lane of %s is at revision %d and not %d", l.AgentID, stored.Revision, l.Revision), Param: "lane"}
	}
	if newest := t.newest(stored); l.EventSeq != newest {
		return fmt.Errorf("save the lane of %s: its newest event is %d and not %d", l.AgentID, newest, l.EventSeq)
	}
	next := keepLane(*l)
	next.Revision++
	data, err := encode(next)
	if err != nil {
		return err
	}
	t.touched = append(t.touched, l.AgentID)
	err = t.replace("lane", l.AgentID, "UPDATE lanes SET revision = ?, event_seq = ?, stopped = ?, chain = ?, wake_message = ?, data = ? WHERE agent_id = ?",
		next.Revision, next.EventSeq, number(next.Stopped), next.Chain, next.WakeMessage, data, l.AgentID)
	if err == nil && next.Stopped != stored.Stopped {
		err = t.park(l.AgentID, next.Stopped)
	}
	if err != nil {
		return err
	}
	t.saved(l.AgentID)
	t.lanes.put(copyLane(next))
	l.Revision++
	return nil
}

// park lets the times of an agent's timers and waits stand still, or go on.
func (t *tx) park(agentID string, stopped bool) error {
	if _, err := t.write("UPDATE timers SET parked = ? WHERE agent_id = ? AND status = 'active'", number(stopped), agentID); err != nil {
		return failed("park timers", err)
	}
	_, err := t.write("UPDATE waits SET parked = ? WHERE agent_id = ? AND status IN ('active', 'triggered')", number(stopped), agentID)
	return failed("park waits", err)
}

// newest returns the number of an agent's newest event in this update.
func (t *tx) newest(stored ledger.Lane) int64 {
	for _, a := range t.appended {
		if a.agentID == stored.AgentID {
			return a.seq
		}
	}
	return stored.EventSeq
}

// saved notes that the lane of an agent has its newest number.
func (t *tx) saved(agentID string) {
	t.appended = slices.DeleteFunc(t.appended, func(a appended) bool { return a.agentID == agentID })
}

// unsaved is an error when events were numbered and their lane was not saved.
func (t *tx) unsaved() error {
	if len(t.appended) == 0 {
		return nil
	}
	return fmt.Errorf("update the ledger: events of %s were appended and its lane was not saved", t.appended[0].agentID)
}

// agents returns those that have new events.
func (t *tx) agents() []string { return t.watched }
