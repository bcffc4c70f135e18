package sqlite

import (
	"cmp"
	"fmt"
	"slices"

	"holon/state/ledger"
)

const messageColumns = "number, key, data"

// Message implements ledger.View.
func (v *view) Message(id string) (ledger.Message, error) {
	return get(v, "message", id, scanMessage, "SELECT "+messageColumns+" FROM messages WHERE id = ?")
}

// MessageByKey implements ledger.View.
func (v *view) MessageByKey(agentID, key string) (ledger.Message, bool, error) {
	return find(v, "message", scanMessage,
		"SELECT "+messageColumns+" FROM messages WHERE agent_id = ? AND key = ? AND key <> ''", agentID, key)
}

// Messages implements ledger.View.
func (v *view) Messages(agentID string, limit int) ([]ledger.Message, error) {
	return tail(v, "messages", scanMessage, `SELECT messages.number, key, data
		FROM entries JOIN messages ON messages.id = entries.message_id
		WHERE entries.agent_id = ? ORDER BY entries.number DESC LIMIT +?`, agentID, limited(limit))
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
	_, err = t.write("INSERT INTO messages (id, agent_id, number, key, created_at, data) VALUES (?, ?, ?, ?, ?, ?)",
		m.ID, m.AgentID, m.Number, m.Key, millis(m.CreatedAt), data)
	if err != nil {
		return changed("insert", "message", ledger.CodeConflict, err)
	}
	_, err = t.write(`INSERT INTO entries
		(agent_id, number, message_id, band, sender, priority, status, attempt_id, interjects, readmitted, failed,
		not_before, reason, code, created_at, updated_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		e.AgentID, e.Number, e.MessageID, int64(e.Band()), string(e.Sender), string(e.Priority), string(e.Status),
		e.AttemptID, number(e.Interjects),
		int64(e.Readmitted), int64(e.Failed), millisOrNil(e.NotBefore), e.Reason, e.Code, millis(e.CreatedAt),
		millis(e.UpdatedAt))
	return changed("insert", "message", ledger.CodeConflict, err)
}

const entryColumns = "message_id, entries.agent_id, sender, priority, entries.number, status, attempt_id, " +
	"interjects, readmitted, failed, not_before, reason, code, entries.created_at, updated_at"

// Entry implements ledger.View.
func (v *view) Entry(messageID string) (ledger.Entry, error) {
	return get(v, "message", messageID, scanEntry,
		"SELECT "+entryColumns+" FROM messages JOIN entries USING (agent_id, number) WHERE id = ?")
}

// Head implements ledger.View.
func (v *view) Head(agentID string) (ledger.Entry, bool, error) {
	return find(v, "entry", scanEntry, "SELECT "+entryColumns+
		" FROM entries INDEXED BY entries_live WHERE agent_id = ? AND status = 'queued' ORDER BY band, number LIMIT 1",
		agentID)
}

// Queued implements ledger.View.
func (v *view) Queued(agentID string, limit int) ([]ledger.Entry, error) {
	return list(v, "entries", scanEntry,
		"SELECT "+entryColumns+" FROM entries INDEXED BY entries_live WHERE agent_id = ? AND status = 'queued' "+
			"ORDER BY band, number LIMIT +?", agentID, limited(limit))
}

// BlockedEntries implements ledger.View.
func (v *view) BlockedEntries(agentID string) ([]ledger.Entry, error) {
	return list(v, "entries", scanEntry,
		"SELECT "+entryColumns+" FROM entries INDEXED BY entries_live WHERE agent_id = ? AND status = 'queued' AND "+
			"band >= ? ORDER BY band, number", agentID, int64(ledger.BlockedBand))
}

// CountQueued implements ledger.View.
func (v *view) CountQueued(agentID string) (int, error) {
	n, err := v.count("count entries", "SELECT count(*) FROM entries INDEXED BY entries_live WHERE agent_id = ? AND "+
		"status = 'queued'", agentID)
	return int(n), err
}

// CountQueuedFrom implements ledger.View.
func (v *view) CountQueuedFrom(agentID string, from ledger.Sender) (int, error) {
	first := ledger.Entry{Sender: from, Priority: ledger.Interject}.Band()
	last := ledger.Entry{Sender: from, Priority: ledger.Background}.Band()
	n, err := v.count("count entries", "SELECT count(*) FROM entries INDEXED BY entries_live WHERE agent_id = ? AND "+
		"status = 'queued' AND band BETWEEN ? AND ?",
		agentID, int64(first), int64(last))
	return int(n), err
}

// Held implements ledger.View, by number.
func (v *view) Held(attemptID string) ([]ledger.Entry, error) {
	held, err := list(v, "entries", scanEntry, "SELECT "+entryColumns+` FROM entries INDEXED BY entries_live
		WHERE agent_id = (SELECT agent_id FROM attempts WHERE id = ?1) AND status = 'dequeued' AND attempt_id = ?1`,
		attemptID)
	slices.SortFunc(held, func(a, b ledger.Entry) int { return cmp.Compare(a.Number, b.Number) })
	return held, err
}

// Ready implements ledger.View: from one agent with a queued entry to the next,
// past the entries between.
func (v *view) Ready() ([]string, error) {
	return list(v, "agents with work", (*row).text, `
		WITH RECURSIVE waiting (id) AS (
			SELECT id FROM (SELECT agent_id AS id FROM entries INDEXED BY entries_live
				WHERE status = 'queued' ORDER BY agent_id LIMIT 1)
			UNION ALL
			SELECT (SELECT agent_id FROM entries INDEXED BY entries_live
				WHERE status = 'queued' AND agent_id > waiting.id ORDER BY agent_id LIMIT 1)
			FROM waiting WHERE waiting.id IS NOT NULL)
		SELECT id FROM waiting JOIN lanes ON lanes.agent_id = waiting.id
		WHERE stopped = 0 AND NOT EXISTS
			(SELECT 1 FROM attempts WHERE attempts.agent_id = waiting.id AND attempts.status = 'open')`)
}

func scanEntry(r *row) ledger.Entry {
	return ledger.Entry{
		MessageID: r.text(), AgentID: r.text(), Sender: ledger.Sender(r.text()), Priority: ledger.Priority(r.text()),
		Number: r.integer(), Status: ledger.EntryStatus(r.text()),
		AttemptID: r.text(), Interjects: r.flag(), Readmitted: int(r.integer()), Failed: int(r.integer()),
		NotBefore: r.timeOrNil(),
		Reason:    r.text(), Code: r.text(), CreatedAt: r.time(), UpdatedAt: r.time(),
	}
}

// UpdateEntry implements ledger.Tx.
func (t *tx) UpdateEntry(e ledger.Entry) error {
	return t.replace("message", e.MessageID,
		`UPDATE entries SET band = ?, sender = ?, priority = ?, status = ?, attempt_id = ?, interjects = ?, `+
			`readmitted = ?,
		failed = ?, not_before = ?, reason = ?, code = ?, updated_at = ?
		WHERE agent_id = ? AND number = ? AND message_id = ?`,
		int64(e.Band()), string(e.Sender), string(e.Priority), string(e.Status), e.AttemptID, number(e.Interjects),
		int64(e.Readmitted),
		int64(e.Failed), millisOrNil(e.NotBefore), e.Reason, e.Code, millis(e.UpdatedAt), e.AgentID, e.Number, e.MessageID)
}
