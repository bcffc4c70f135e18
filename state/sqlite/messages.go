package sqlite

import (
	"fmt"

	"holon/state/ledger"
)

const messageColumns = "number, key, data"

// Message implements ledger.View.
func (v *view) Message(id string) (ledger.Message, error) {
	return get(v, "message", id, scanMessage, "SELECT "+messageColumns+" FROM messages WHERE id = ?")
}

// MessageByKey implements ledger.View.
func (v *view) MessageByKey(agentID, key string) (ledger.Message, bool, error) {
	return find(v, "message", scanMessage, "SELECT "+messageColumns+" FROM messages WHERE agent_id = ? AND key = ? AND key <> ''", agentID, key)
}

// Messages implements ledger.View.
func (v *view) Messages(agentID string, limit int) ([]ledger.Message, error) {
	return newest(v, "messages", scanMessage, "SELECT "+messageColumns+" FROM messages WHERE agent_id = ? ORDER BY number DESC LIMIT ?", agentID, limited(limit))
}

func scanMessage(r *row) (m ledger.Message) {
	n, key := r.integer(), r.text()
	r.record(&m)
	m.Number, m.Key = n, key
	return m
}

// InsertMessage implements ledger.Tx.
func (t *tx) InsertMessage(m ledger.Message, e ledger.Entry) error {
	if e.MessageID != m.ID || e.AgentID != m.AgentID || e.Number != m.Number {
		return fmt.Errorf("insert message %q: the entry is that of %q", m.ID, e.MessageID)
	}
	m.CreatedAt = kept(m.CreatedAt)
	data, err := encode(m)
	if err != nil {
		return err
	}
	_, err = t.write("INSERT INTO messages (id, agent_id, number, key, created_at, data) VALUES (?, ?, ?, ?, ?, ?)", m.ID, m.AgentID, m.Number, m.Key, millis(m.CreatedAt), data)
	if err != nil {
		return inserted("message", ledger.CodeConflict, err)
	}
	_, err = t.write(`INSERT INTO entries
		(n, message_id, agent_id, band, priority, number, status, attempt_id, interjects, readmitted, failed, not_before, reason, created_at, updated_at)
		VALUES (last_insert_rowid(), ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		e.MessageID, e.AgentID, int64(e.Priority.Band()), string(e.Priority), e.Number, string(e.Status), e.AttemptID, number(e.Interjects),
		int64(e.Readmitted), int64(e.Failed), millisOrNil(e.NotBefore), e.Reason, millis(e.CreatedAt), millis(e.UpdatedAt))
	if err != nil {
		return inserted("entry", ledger.CodeConflict, err)
	}
	return nil
}

const entryColumns = "message_id, agent_id, priority, number, status, attempt_id, interjects, readmitted, failed, not_before, reason, created_at, updated_at"

// Entry implements ledger.View.
func (v *view) Entry(messageID string) (ledger.Entry, error) {
	return get(v, "message", messageID, scanEntry, "SELECT "+entryColumns+" FROM entries WHERE n = (SELECT n FROM messages WHERE id = ?)")
}

// Head implements ledger.View.
func (v *view) Head(agentID string) (ledger.Entry, bool, error) {
	return find(v, "entry", scanEntry, "SELECT "+entryColumns+" FROM entries WHERE agent_id = ? AND status = 'queued' ORDER BY band, number LIMIT 1", agentID)
}

// Queued implements ledger.View.
func (v *view) Queued(agentID string, limit int) ([]ledger.Entry, error) {
	return list(v, "entries", scanEntry, "SELECT "+entryColumns+" FROM entries WHERE agent_id = ? AND status = 'queued' ORDER BY band, number LIMIT ?", agentID, limited(limit))
}

// CountQueued implements ledger.View.
func (v *view) CountQueued(agentID string) (int, error) {
	n, err := v.count("count entries", "SELECT count(*) FROM entries WHERE agent_id = ? AND status = 'queued'", agentID)
	return int(n), err
}

// Held implements ledger.View.
func (v *view) Held(attemptID string) ([]ledger.Entry, error) {
	return list(v, "entries", scanEntry, "SELECT "+entryColumns+" FROM entries WHERE attempt_id = ? AND status = 'dequeued' ORDER BY n", attemptID)
}

// Ready implements ledger.View: from one agent with a queued entry to the next,
// past the entries between.
func (v *view) Ready() ([]string, error) {
	return list(v, "agents with work", (*row).text, `
		WITH RECURSIVE waiting (id) AS (
			SELECT * FROM (SELECT agent_id FROM entries WHERE status = 'queued' ORDER BY agent_id LIMIT 1)
			UNION ALL
			SELECT (SELECT agent_id FROM entries WHERE status = 'queued' AND agent_id > waiting.id ORDER BY agent_id LIMIT 1)
			FROM waiting WHERE waiting.id IS NOT NULL)
		SELECT id FROM waiting JOIN lanes ON lanes.agent_id = waiting.id
		WHERE stopped = 0 AND NOT EXISTS (SELECT 1 FROM attempts WHERE attempts.agent_id = waiting.id AND attempts.status = 'open')`)
}

func scanEntry(r *row) ledger.Entry {
	return ledger.Entry{
		MessageID: r.text(), AgentID: r.text(), Priority: ledger.Priority(r.text()), Number: r.integer(), Status: ledger.EntryStatus(r.text()),
		AttemptID: r.text(), Interjects: r.flag(), Readmitted: int(r.integer()), Failed: int(r.integer()), NotBefore: r.timeOrNil(),
		Reason: r.text(), CreatedAt: r.time(), UpdatedAt: r.time(),
	}
}

// UpdateEntry implements ledger.Tx.
func (t *tx) UpdateEntry(e ledger.Entry) error {
	return t.replace("message", e.MessageID, `UPDATE entries SET band = ?, priority = ?, status = ?, attempt_id = ?, interjects = ?, readmitted = ?,
		failed = ?, not_before = ?, reason = ?, updated_at = ? WHERE n = (SELECT n FROM messages WHERE id = ?)`,
		int64(e.Priority.Band()), string(e.Priority), string(e.Status), e.AttemptID, number(e.Interjects), int64(e.Readmitted),
		int64(e.Failed), millisOrNil(e.NotBefore), e.Reason, millis(e.UpdatedAt), e.MessageID)
}
