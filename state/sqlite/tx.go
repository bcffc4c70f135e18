package sqlite

import (
	"context"
	"database/sql/driver"
	"fmt"
	"slices"

	"holon/state"
	"holon/state/ledger"
)

// tx is one update. It sees its own changes and those of the updates before it in
// the batch.
type tx struct {
	view
	w       *writer
	nested  bool  // other updates of the batch ran before
	written bool  // the file was changed, within the savepoint if nested
	broken  error // after which SQLite may have ended the transaction

	lanes   map[string]ledger.AgentState // those that were read, as the file has them
	watched []string                     // agents with new events
	unsaved []newest                     // of those of them whose lane does not have the number yet
}

// newest is the number of an agent's newest event.
type newest struct {
	agentID string
	seq     int64
}

var _ ledger.Tx = (*tx)(nil)

func newTx(ctx context.Context, w *writer) *tx {
	return &tx{view: view{ctx: ctx, conn: w.conn}, w: w, nested: len(w.batch) > 0,
		lanes: map[string]ledger.AgentState{}}
}

// write runs a statement that changes rows and returns how many.
func (t *tx) write(text string, args ...driver.Value) (int64, error) {
	if err := t.touch(); err != nil {
		return 0, err
	}
	n, err := t.conn.exec(text, args...)
	return n, t.note(err)
}

// touch makes the file ready to be written by this update.
func (t *tx) touch() error {
	if t.broken != nil {
		return t.broken
	}
	if err := t.usable(); err != nil || t.written {
		return err
	}
	if t.nested {
		if _, err := t.conn.exec("SAVEPOINT one"); err != nil {
			t.broken = failed("update the ledger", err)
			return t.broken
		}
	}
	t.written = true
	return nil
}

// note remembers an error after which nothing more may be written.
func (t *tx) note(err error) error {
	if err != nil && ends(err) {
		t.broken = failed("update the ledger", err)
	}
	return err
}

// keep gives what this update did to the batch.
func (t *tx) keep() error {
	if t.broken != nil {
		return t.broken
	}
	if len(t.unsaved) > 0 {
		return fmt.Errorf("update the ledger: events of %s were appended and its lane was not saved",
			t.unsaved[0].agentID)
	}
	if t.written && t.nested {
		if _, err := t.conn.exec("RELEASE one"); err != nil {
			t.broken = failed("keep an update of the ledger", err)
			return t.broken
		}
	}
	return nil
}

// replace runs a statement that changes the one row of a noun.
func (t *tx) replace(noun, id, text string, args ...driver.Value) error {
	n, err := t.write(text, args...)
	if err != nil {
		return changed("update", noun, ledger.CodeConflict, err)
	}
	if n == 0 {
		return notFound(noun, id)
	}
	return nil
}

// AgentState implements ledger.View.
func (t *tx) AgentState(agentID string) (ledger.AgentState, error) {
	if err := t.usable(); err != nil {
		return ledger.AgentState{}, err
	}
	if l, ok := t.lanes[agentID]; ok {
		return copyLane(l), nil
	}
	l, err := t.view.AgentState(agentID)
	if err == nil {
		t.lanes[agentID] = copyLane(l)
	}
	return l, err
}

// SaveAgentState implements ledger.Tx.
func (t *tx) SaveAgentState(l *ledger.AgentState) error {
	stored, err := t.AgentState(l.AgentID)
	if err != nil {
		return err
	}
	if l.Revision != stored.Revision {
		return &state.Error{Code: ledger.CodeConflict,
			Message: fmt.Sprintf("the lane of %s is at revision %d and not %d", l.AgentID, stored.Revision, l.Revision),
			Param:   "lane"}
	}
	if newest := t.newest(stored); l.EventSeq != newest {
		return fmt.Errorf("save the lane of %s: its newest event is %d and not %d", l.AgentID, newest, l.EventSeq)
	}
	next := copyLane(keepLane(*l))
	next.Revision++
	if err := t.updateLane(next); err != nil {
		return err
	}
	t.lanes[l.AgentID] = next
	t.forgetNumber(l.AgentID)
	l.Revision++
	if next.Stopped != stored.Stopped {
		return t.park(l.AgentID, next.Stopped)
	}
	return nil
}

// park lets the times of an agent's timers, waits and work items stand still, or go on.
func (t *tx) park(agentID string, stopped bool) error {
	if _, err := t.write("UPDATE timers SET parked = ? WHERE agent_id = ? AND status = 'active'", number(stopped),
		agentID); err != nil {
		return failed("park timers", err)
	}
	if _, err := t.write("UPDATE waits SET parked = ? WHERE agent_id = ? AND status IN ('active', 'triggered')",
		number(stopped), agentID); err != nil {
		return failed("park waits", err)
	}
	_, err := t.write("UPDATE work_items SET parked = ? WHERE agent_id = ? AND state = 'open'", number(stopped), agentID)
	return failed("park work items", err)
}

// Append implements ledger.Tx.
func (t *tx) Append(l *ledger.AgentState, events ...ledger.Event) error {
	if len(events) == 0 {
		return nil
	}
	stored, err := t.AgentState(l.AgentID)
	if err != nil {
		return err
	}
	if newest := t.newest(stored); l.EventSeq != newest {
		return &state.Error{Code: ledger.CodeConflict,
			Message: fmt.Sprintf("the newest event of %s is %d and not %d", l.AgentID, newest, l.EventSeq),
			Param:   "lane"}
	}
	for _, e := range events {
		if len(e.Data) > ledger.MaxEventData {
			return &state.Error{Code: ledger.CodeTooLarge,
				Message: fmt.Sprintf("an event's data has %d bytes; %d are allowed", len(e.Data), ledger.MaxEventData),
				Param:   "data"}
		}
	}
	for _, e := range events {
		l.EventSeq++
		if err := t.insertEvent(l.AgentID, l.EventSeq, e); err != nil {
			return err
		}
	}
	if !slices.Contains(t.watched, l.AgentID) {
		t.watched = append(t.watched, l.AgentID)
	}
	t.forgetNumber(l.AgentID)
	t.unsaved = append(t.unsaved, newest{l.AgentID, l.EventSeq})
	return nil
}

// newest returns the number of an agent's newest event, which its lane may not
// have yet.
func (t *tx) newest(stored ledger.AgentState) int64 {
	for _, n := range t.unsaved {
		if n.agentID == stored.AgentID {
			return n.seq
		}
	}
	return stored.EventSeq
}

func (t *tx) forgetNumber(agentID string) {
	t.unsaved = slices.DeleteFunc(t.unsaved, func(n newest) bool { return n.agentID == agentID })
}
