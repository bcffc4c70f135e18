package sqlite

import "holon/state/ledger"

const timerColumns = "key, data"

// Timer implements ledger.View.
func (v *view) Timer(id string) (ledger.Timer, error) {
	return get(v, "timer", id, scanTimer, "SELECT "+timerColumns+" FROM timers WHERE id = ?")
}

// TimerByKey implements ledger.View.
func (v *view) TimerByKey(agentID, key string) (ledger.Timer, bool, error) {
	return find(v, "timer", scanTimer, "SELECT "+timerColumns+
		" FROM timers WHERE agent_id = ? AND key = ? AND key <> ''", agentID, key)
}

// Timers implements ledger.View.
func (v *view) Timers(agentID string, limit int) ([]ledger.Timer, error) {
	return tail(v, "timers", scanTimer,
		"SELECT "+timerColumns+" FROM timers WHERE agent_id = ? ORDER BY n DESC LIMIT +?", agentID, limited(limit))
}

func scanTimer(r *row) (t ledger.Timer) {
	key := r.text()
	r.record(&t)
	t.Key = key
	return t
}

func keepTimer(t ledger.Timer) ledger.Timer {
	t.NextFireAt, t.LastFireAt = keptOrNil(t.NextFireAt), keptOrNil(t.LastFireAt)
	t.CreatedAt, t.UpdatedAt = kept(t.CreatedAt), kept(t.UpdatedAt)
	return t
}

// InsertTimer implements ledger.Tx.
func (t *tx) InsertTimer(timer ledger.Timer) error {
	data, err := encode(keepTimer(timer))
	if err != nil {
		return err
	}
	_, err = t.write(`INSERT INTO timers (id, agent_id, key, status, message_id, due_at, parked, created_at, data)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, coalesce((SELECT stopped FROM lanes WHERE agent_id = ?2), 0), ?7, ?8)`,
		timer.ID, timer.AgentID, timer.Key, string(timer.Status), timer.MessageID, millisOrNil(timer.NextFireAt),
		millis(timer.CreatedAt), data)
	return changed("insert", "timer", ledger.CodeConflict, err)
}

// UpdateTimer implements ledger.Tx.
func (t *tx) UpdateTimer(timer ledger.Timer) error {
	data, err := encode(keepTimer(timer))
	if err != nil {
		return err
	}
	return t.replace("timer", timer.ID, `UPDATE timers SET status = ?, message_id = ?, due_at = ?,
		parked = (SELECT stopped FROM lanes WHERE lanes.agent_id = timers.agent_id), data = ? WHERE id = ?`,
		string(timer.Status), timer.MessageID, millisOrNil(timer.NextFireAt), data, timer.ID)
}

const triggerColumns = "token_hash, data"

// Trigger implements ledger.View.
func (v *view) Trigger(id string) (ledger.Trigger, error) {
	return get(v, "trigger", id, scanTrigger, "SELECT "+triggerColumns+" FROM triggers WHERE id = ?")
}

// Triggers implements ledger.View.
func (v *view) Triggers(agentID string) ([]ledger.Trigger, error) {
	return list(v, "triggers", scanTrigger, "SELECT "+triggerColumns+" FROM triggers WHERE agent_id = ? ORDER BY id",
		agentID)
}

// TriggerByHash implements ledger.View.
func (v *view) TriggerByHash(hash string) (ledger.Trigger, bool, error) {
	return find(v, "trigger", scanTrigger, "SELECT "+triggerColumns+" FROM triggers WHERE token_hash = ?", hash)
}

func scanTrigger(r *row) (t ledger.Trigger) {
	hash := r.text()
	r.record(&t)
	t.TokenHash = hash
	return t
}

func keepTrigger(t ledger.Trigger) ledger.Trigger {
	t.CreatedAt, t.RotatedAt, t.RevokedAt, t.LastDeliveredAt = kept(t.CreatedAt), keptOrNil(t.RotatedAt),
		keptOrNil(t.RevokedAt), keptOrNil(t.LastDeliveredAt)
	return t
}

// InsertTrigger implements ledger.Tx.
func (t *tx) InsertTrigger(trigger ledger.Trigger) error {
	data, err := encode(keepTrigger(trigger))
	if err != nil {
		return err
	}
	if _, err = t.write("INSERT INTO triggers (id, agent_id, token_hash, data) VALUES (?, ?, ?, ?)", trigger.ID,
		trigger.AgentID, trigger.TokenHash, data); err != nil {
		return changed("insert", "trigger", ledger.CodeConflict, err)
	}
	return nil
}

// UpdateTrigger implements ledger.Tx.
func (t *tx) UpdateTrigger(trigger ledger.Trigger) error {
	data, err := encode(keepTrigger(trigger))
	if err != nil {
		return err
	}
	return t.replace("trigger", trigger.ID, "UPDATE triggers SET token_hash = ?, data = ? WHERE id = ?",
		trigger.TokenHash, data, trigger.ID)
}
