package sqlite

import (
	"database/sql/driver"
	"time"

	"holon/state/ledger"
)

const waitColumns = "call_id, data"

// Wait implements ledger.View.
func (v *view) Wait(id string) (ledger.Wait, error) {
	return get(v, "wait", id, scanWait, "SELECT "+waitColumns+" FROM waits WHERE id = ?")
}

// UnresolvedWait implements ledger.View.
func (v *view) UnresolvedWait(agentID, owner string) (ledger.Wait, bool, error) {
	return find(v, "wait", scanWait, "SELECT "+waitColumns+
		" FROM waits WHERE agent_id = ? AND owner = ? AND status IN ('active', 'triggered')", agentID, owner)
}

// UnresolvedWaits implements ledger.View.
func (v *view) UnresolvedWaits(agentID string) ([]ledger.Wait, error) {
	return list(v, "waits", scanWait, "SELECT "+waitColumns+
		" FROM waits WHERE agent_id = ? AND status IN ('active', 'triggered') ORDER BY owner", agentID)
}

func scanWait(r *row) (w ledger.Wait) {
	call := r.text()
	r.record(&w)
	w.CallID = call
	return w
}

func keepWait(w ledger.Wait) ledger.Wait {
	w.WakeAt, w.ExpiresAt, w.EndedAt = keptOrNil(w.WakeAt), keptOrNil(w.ExpiresAt), keptOrNil(w.EndedAt)
	w.CreatedAt, w.UpdatedAt = kept(w.CreatedAt), kept(w.UpdatedAt)
	wakes := make([]ledger.WakeSource, len(w.Wakes))
	for i, source := range w.Wakes {
		source.WakeAt = keptOrNil(source.WakeAt)
		wakes[i] = source
	}
	w.Wakes = wakes
	return w
}

// due is when an active wait has to be looked at: its wake or its expiry.
func due(w ledger.Wait) driver.Value {
	if w.WakeAt == nil || w.ExpiresAt != nil && w.ExpiresAt.Before(*w.WakeAt) {
		return millisOrNil(w.ExpiresAt)
	}
	return millisOrNil(w.WakeAt)
}

// InsertWait implements ledger.Tx.
func (t *tx) InsertWait(w ledger.Wait) error {
	data, err := encode(keepWait(w))
	if err != nil {
		return err
	}
	_, err = t.write(`INSERT INTO waits (id, agent_id, owner, status, call_id, message_id, attempt_id, due_at, `+
		`parked, created_at, data)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, coalesce((SELECT stopped FROM lanes WHERE agent_id = ?2), 0), ?9, ?10)`,
		w.ID, w.AgentID, w.Owner, string(w.Status), w.CallID, w.MessageID, w.Registered, due(w), millis(w.CreatedAt),
		data)
	return changed("insert", "wait", ledger.CodeConflict, err)
}

// UpdateWait implements ledger.Tx.
func (t *tx) UpdateWait(w ledger.Wait) error {
	data, err := encode(keepWait(w))
	if err != nil {
		return err
	}
	return t.replace("wait", w.ID, `UPDATE waits SET status = ?, call_id = ?, message_id = ?, `+
		`attempt_id = ?, due_at = ?,
		parked = (SELECT stopped FROM lanes WHERE lanes.agent_id = waits.agent_id), data = ? WHERE id = ?`,
		string(w.Status), w.CallID, w.MessageID, w.Registered, due(w), data, w.ID)
}

// Due implements ledger.View.
func (v *view) Due(now time.Time, limit int) ([]ledger.Timer, []ledger.Wait, error) {
	timers, err := list(v, "due timers", scanDueTimer,
		"SELECT id, agent_id, "+timerColumns+
			" FROM timers WHERE status = 'active' AND parked = 0 AND due_at <= ? ORDER BY due_at LIMIT +?", millis(now),
		limited(limit))
	if err != nil {
		return nil, nil, err
	}
	waits, err := list(v, "due waits", scanDueWait,
		"SELECT id, agent_id, "+waitColumns+
			" FROM waits WHERE status = 'active' AND parked = 0 AND due_at <= ? ORDER BY due_at LIMIT +?", millis(now),
		limited(limit))
	return timers, waits, err
}

func scanDueTimer(r *row) (t ledger.Timer) {
	id, agentID, key := r.text(), r.text(), r.text()
	if !r.sound(&t) {
		t = ledger.Timer{ID: id, AgentID: agentID}
	}
	t.Key = key
	return t
}

func scanDueWait(r *row) (w ledger.Wait) {
	id, agentID, call := r.text(), r.text(), r.text()
	if !r.sound(&w) {
		w = ledger.Wait{ID: id, AgentID: agentID}
	}
	w.CallID = call
	return w
}

// NextDue implements ledger.View.
func (v *view) NextDue(now time.Time) (at time.Time, ok bool, err error) {
	for _, text := range []string{
		"SELECT due_at FROM timers WHERE status = 'active' AND parked = 0 AND due_at > ? ORDER BY due_at LIMIT 1",
		"SELECT due_at FROM waits WHERE status = 'active' AND parked = 0 AND due_at > ? ORDER BY due_at LIMIT 1",
		"SELECT due_at FROM work_items WHERE parked = 0 AND due_at > ? ORDER BY due_at LIMIT 1",
	} {
		next, found, err := find(v, "due time", (*row).time, text, millis(now))
		if err != nil {
			return time.Time{}, false, err
		}
		if found && (!ok || next.Before(at)) {
			at, ok = next, true
		}
	}
	return at, ok, nil
}
