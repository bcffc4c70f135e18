package sqlite

import (
	"encoding/json"
	"strings"

	"holon/state/ledger"
)

// Attempt implements ledger.View.
func (v *view) Attempt(id string) (ledger.Attempt, error) {
	a, err := get(v, "attempt", id, scanAttempt, "SELECT data FROM attempts WHERE id = ?")
	if err != nil || a.FrameDigest == "" {
		return a, err
	}
	frame, _, err := find(v, "frame", (*row).raw, "SELECT frame FROM frames WHERE attempt_id = ?", id)
	if err == nil && !json.Valid(frame) && frame != nil {
		err = unreadable(errNotJSON)
	}
	a.Frame = frame
	return a, err
}

// OpenAttempt implements ledger.View.
func (v *view) OpenAttempt(agentID string) (ledger.Attempt, bool, error) {
	return find(v, "attempt", scanAttempt, "SELECT data FROM attempts WHERE agent_id = ? AND status = 'open'", agentID)
}

// OpenAttempts implements ledger.View.
func (v *view) OpenAttempts() ([]ledger.Attempt, error) {
	return list(v, "attempts", func(r *row) (a ledger.Attempt) {
		id, agentID := r.text(), r.text()
		if !r.sound(&a) {
			a = ledger.Attempt{ID: id, AgentID: agentID}
		}
		return a
	}, "SELECT id, agent_id, data FROM attempts WHERE status = 'open' ORDER BY agent_id")
}

func scanAttempt(r *row) (a ledger.Attempt) {
	r.record(&a)
	return a
}

func keepAttempt(a ledger.Attempt) ledger.Attempt {
	a.StartedAt, a.BegunAt, a.SettledAt = kept(a.StartedAt), keptOrNil(a.BegunAt), keptOrNil(a.SettledAt)
	return a
}

// InsertAttempt implements ledger.Tx.
func (t *tx) InsertAttempt(a ledger.Attempt) error {
	a = keepAttempt(a)
	data, err := encode(a)
	if err != nil {
		return err
	}
	_, err = t.write("INSERT INTO attempts (id, agent_id, message_id, wait_id, status, created_at, data) VALUES (?, "+
		"?, ?, ?, ?, ?, ?)",
		a.ID, a.AgentID, a.MessageID, strings.Join(a.Waits, " "), string(a.Status), millis(a.StartedAt), data)
	if err != nil {
		return changed("insert", "attempt", ledger.CodeConflict, err)
	}
	return t.saveFrame(a)
}

// UpdateAttempt implements ledger.Tx.
func (t *tx) UpdateAttempt(a ledger.Attempt) error {
	data, err := encode(keepAttempt(a))
	if err != nil {
		return err
	}
	if err := t.replace("attempt", a.ID,
		"UPDATE attempts SET message_id = ?, wait_id = ?, status = ?, data = ? WHERE id = ?", a.MessageID,
		strings.Join(a.Waits, " "), string(a.Status), data, a.ID); err != nil {
		return err
	}
	return t.saveFrame(a)
}

// saveFrame stores the frame of an attempt, if it has one that is not stored.
func (t *tx) saveFrame(a ledger.Attempt) error {
	if len(a.Frame) == 0 {
		return nil
	}
	_, err := t.write(`INSERT INTO frames (attempt_id, digest, frame) VALUES (?, ?, ?)
		ON CONFLICT (attempt_id) DO UPDATE SET digest = excluded.digest, frame = excluded.frame
		WHERE digest <> excluded.digest`, a.ID, a.FrameDigest, string(a.Frame))
	return failed("save a frame", err)
}

// Turn implements ledger.View.
func (v *view) Turn(id string) (ledger.Turn, error) {
	return get(v, "turn", id, scanTurn, "SELECT data FROM turns WHERE id = ?")
}

// Turns implements ledger.View.
func (v *view) Turns(agentID string, limit int) ([]ledger.Turn, error) {
	return tail(v, "turns", scanTurn, "SELECT data FROM turns WHERE agent_id = ? ORDER BY number DESC LIMIT +?", agentID,
		limited(limit))
}

func scanTurn(r *row) (turn ledger.Turn) {
	r.record(&turn)
	return turn
}

// InsertTurn implements ledger.Tx.
func (t *tx) InsertTurn(turn ledger.Turn) error {
	turn.StartedAt, turn.CompletedAt, turn.Failure = kept(turn.StartedAt), kept(turn.CompletedAt),
		keepFailure(turn.Failure)
	data, err := encode(turn)
	if err != nil {
		return err
	}
	_, err = t.write("INSERT INTO turns (id, agent_id, number, response_id, created_at, data) VALUES (?, "+
		"?, ?, ?, ?, ?)",
		turn.ID, turn.AgentID, turn.Index, turn.ResponseID, millis(turn.CompletedAt), data)
	return changed("insert", "turn", ledger.CodeConflict, err)
}
