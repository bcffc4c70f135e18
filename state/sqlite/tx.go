package sqlite

import (
	"context"
	"database/sql/driver"
	"fmt"
	"slices"

	"holon/state"
	"holon/state/ledger"
)

// tx is one update. It sees what it has done, and what those of its batch have.
// Events and lanes stay in memory until something has to be read from or written
// to the file; an update that does no more is taken back by forgetting them.
type tx struct {
	view
	w       *writer
	nested  bool  // others of the batch ran before
	written bool  // something is in the file, within the savepoint if nested
	broken  error // after which SQLite may have ended the transaction

	lanes   []ledger.Lane // as saved by this update
	events  []numbered
	watched []string // agents with new events
	unsaved []newest // of those of them whose lane does not have the number yet
}

// newest is the number of an agent's newest event.
type newest struct {
	agentID string
	seq     int64
}

var _ ledger.Tx = (*tx)(nil)

func newTx(ctx context.Context, w *writer) *tx {
	return &tx{view: view{ctx: ctx, conn: w.conn}, w: w, nested: len(w.batch) > 0}
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
	err := t.w.behind.write(t.conn)
	if err == nil && t.nested {
		_, err = t.conn.exec("SAVEPOINT one")
	}
	if err != nil {
		t.broken = failed("update the ledger", err)
		return t.broken
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

// show writes what is in memory, for whoever reads lanes or events of the file.
func (t *tx) show() error {
	if err := t.touch(); err != nil {
		return err
	}
	own := behind{lanes: make(map[string]ledger.Lane), events: t.events}
	for _, l := range t.lanes {
		own.lanes[l.AgentID] = l
		own.unsaid = append(own.unsaid, l.AgentID)
	}
	if err := own.write(t.conn); err != nil {
		t.broken = err // some may have been written
		return err
	}
	t.events = nil
	return nil
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
	b := &t.w.behind
	b.events = append(b.events, t.events...)
	for _, l := range t.lanes {
		b.remember(l)
		if !slices.Contains(b.unsaid, l.AgentID) {
			b.unsaid = append(b.unsaid, l.AgentID)
		}
	}
	if len(b.events) < maxBehind {
		return nil
	}
	t.broken = b.write(t.conn) // those of others too
	return t.broken
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

// Lane implements ledger.View.
func (t *tx) Lane(agentID string) (ledger.Lane, error) {
	if err := t.usable(); err != nil {
		return ledger.Lane{}, err
	}
	if i := t.own(agentID); i >= 0 {
		return copyLane(t.lanes[i]), nil
	}
	if l, ok := t.w.behind.lanes[agentID]; ok {
		return copyLane(l), nil
	}
	l, err := t.view.Lane(agentID)
	if err == nil && !t.written { // or it may be of this update alone
		t.w.behind.remember(copyLane(l))
	}
	return l, err
}

// own returns where the lane of an agent is among those that this update saved.
func (t *tx) own(agentID string) int {
	return slices.IndexFunc(t.lanes, func(l ledger.Lane) bool { return l.AgentID == agentID })
}

// SaveLane implements ledger.Tx.
func (t *tx) SaveLane(l *ledger.Lane) error {
	stored, err := t.Lane(l.AgentID)
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
	if i := t.own(l.AgentID); i >= 0 {
		t.lanes[i] = next
	} else {
		t.lanes = append(t.lanes, next)
	}
	t.forgetNumber(l.AgentID)
	l.Revision++
	if next.Stopped != stored.Stopped {
		return t.park(l.AgentID, next.Stopped)
	}
	return nil
}

// park lets the times of an agent's timers and waits stand still, or go on.
func (t *tx) park(agentID string, stopped bool) error {
	if err := t.show(); err != nil { // timers and waits look at the lane
		return err
	}
	if _, err := t.write("UPDATE timers SET parked = ? WHERE agent_id = ? AND status = 'active'", number(stopped),
		agentID); err != nil {
		return failed("park timers", err)
	}
	_, err := t.write("UPDATE waits SET parked = ? WHERE agent_id = ? AND status IN ('active', 'triggered')",
		number(stopped), agentID)
	return failed("park waits", err)
}

// Append implements ledger.Tx.
func (t *tx) Append(l *ledger.Lane, events ...ledger.Event) error {
	if len(events) == 0 {
		return nil
	}
	stored, err := t.Lane(l.AgentID)
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
		t.events = append(t.events, numbered{l.AgentID, l.EventSeq, e})
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
func (t *tx) newest(stored ledger.Lane) int64 {
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

// Events implements ledger.View.
func (t *tx) Events(agentID string, q ledger.EventQuery) (ledger.EventPage, error) {
	if err := t.show(); err != nil {
		return ledger.EventPage{}, err
	}
	return t.view.Events(agentID, q)
}

// Ready implements ledger.View.
func (t *tx) Ready() ([]string, error) {
	if err := t.show(); err != nil {
		return nil, err
	}
	return t.view.Ready()
}
