package sqlite

import "holon/state/ledger"

// Command implements ledger.CommandView.
func (v *view) Command(agentID, id string) (ledger.Command, bool, error) {
	return find(v, "command", scanRecord[ledger.Command], "SELECT data FROM commands WHERE id = ?", agentID+" "+id)
}

// InsertCommand implements ledger.CommandTx.
func (t *tx) InsertCommand(c ledger.Command) error {
	c.At = kept(c.At)
	return t.insertRecord("command", "INSERT INTO commands (id, agent_id, created_at, data) VALUES (?, ?, ?, ?)",
		c.AgentID+" "+c.ID, c.AgentID, c.At, c)
}
