package sqlite

import (
	"time"

	"holon/state/ledger"
)

// Briefs implements ledger.View.
func (v *view) Briefs(agentID string, limit int) ([]ledger.Brief, error) {
	return tail(v, "briefs", scanRecord[ledger.Brief],
		"SELECT data FROM briefs WHERE agent_id = ? ORDER BY n DESC LIMIT +?", agentID, limited(limit))
}

// Transcript implements ledger.View.
func (v *view) Transcript(agentID string, limit int) ([]ledger.TranscriptEntry, error) {
	return tail(v, "transcript", scanRecord[ledger.TranscriptEntry],
		"SELECT data FROM transcript WHERE agent_id = ? ORDER BY n DESC LIMIT +?", agentID, limited(limit))
}

// Notifications implements ledger.View.
func (v *view) Notifications(agentID string, limit int) ([]ledger.Notification, error) {
	return tail(v, "notifications", scanRecord[ledger.Notification],
		"SELECT data FROM notifications WHERE agent_id = ? ORDER BY n DESC LIMIT +?", agentID, limited(limit))
}

// Brief implements ledger.View.
func (v *view) Brief(id string) (ledger.Brief, error) {
	return get(v, "brief", id, scanRecord[ledger.Brief], "SELECT data FROM briefs WHERE id = ?")
}

// Notification implements ledger.View.
func (v *view) Notification(id string) (ledger.Notification, error) {
	return get(v, "notification", id, scanRecord[ledger.Notification], "SELECT data FROM notifications WHERE id = ?")
}

// ToolExecutions implements ledger.View.
func (v *view) ToolExecutions(agentID string, limit int) ([]ledger.ToolExecution, error) {
	return tail(v, "tool executions", scanRecord[ledger.ToolExecution],
		"SELECT data FROM tool_executions WHERE agent_id = ? ORDER BY n DESC LIMIT +?", agentID, limited(limit))
}

func scanRecord[T any](r *row) (record T) {
	r.record(&record)
	return record
}

// InsertBrief implements ledger.Tx.
func (t *tx) InsertBrief(b ledger.Brief) error {
	b.CreatedAt = kept(b.CreatedAt)
	return t.insertRecord("brief", "INSERT INTO briefs (id, agent_id, created_at, data) VALUES (?, ?, ?, ?)", b.ID,
		b.AgentID, b.CreatedAt, b)
}

// InsertTranscript implements ledger.Tx.
func (t *tx) InsertTranscript(e ledger.TranscriptEntry) error {
	e.CreatedAt = kept(e.CreatedAt)
	return t.insertRecord("transcript entry",
		"INSERT INTO transcript (id, agent_id, created_at, data) VALUES (?, ?, ?, ?)", e.ID, e.AgentID, e.CreatedAt, e)
}

// InsertNotification implements ledger.Tx.
func (t *tx) InsertNotification(n ledger.Notification) error {
	n.CreatedAt = kept(n.CreatedAt)
	return t.insertRecord("notification",
		"INSERT INTO notifications (id, agent_id, created_at, data) VALUES (?, ?, ?, ?)", n.ID, n.AgentID, n.CreatedAt,
		n)
}

// InsertToolExecution implements ledger.Tx.
func (t *tx) InsertToolExecution(e ledger.ToolExecution) error {
	e.CreatedAt, e.CompletedAt = kept(e.CreatedAt), kept(e.CompletedAt)
	return t.insertRecord("tool execution",
		"INSERT INTO tool_executions (id, agent_id, created_at, data) VALUES (?, ?, ?, ?)", e.TurnID+" "+e.ID, e.AgentID,
		e.CreatedAt, e)
}

func (t *tx) insertRecord(noun, text, id, agentID string, at time.Time, record any) error {
	data, err := encode(record)
	if err != nil {
		return err
	}
	if _, err := t.write(text, id, agentID, millis(at), data); err != nil {
		return changed("insert", noun, ledger.CodeConflict, err)
	}
	return nil
}
