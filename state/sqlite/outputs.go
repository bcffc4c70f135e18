package sqlite

import "holon/state/ledger"

// ReferredTurns implements ledger.OutputView.
func (v *view) ReferredTurns(agentID string) (map[string]int64, error) {
	newest := make(map[string]int64)
	err := v.rows("list the turns of events", func(r *row) error {
		seq := r.integer()
		newest[r.text()] = seq
		return nil
	}, "SELECT seq, turn_id FROM events WHERE agent_id = ? AND turn_id IS NOT NULL ORDER BY seq", agentID)
	return newest, err
}

// ExpiredOutput implements ledger.OutputView.
func (v *view) ExpiredOutput(turnID string) (ledger.ExpiredOutput, bool, error) {
	return find(v, "expired output", scanRecord[ledger.ExpiredOutput], "SELECT data FROM expired_outputs WHERE id = ?",
		turnID)
}

// InsertExpiredOutput implements ledger.Tx.
func (t *tx) InsertExpiredOutput(e ledger.ExpiredOutput) error {
	e.At = kept(e.At)
	return t.insertRecord("expired output",
		"INSERT INTO expired_outputs (id, agent_id, created_at, data) VALUES (?, ?, ?, ?)", e.TurnID, e.AgentID, e.At, e)
}
