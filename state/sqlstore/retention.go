package sqlstore

import "fmt"

// Aged is a table whose rows stay for Retention.Messages, counted from their created_at. What becomes of rows that name
// them is in docs/reference/retention.md, with the retention of the other tables.
type Aged struct {
	Table string
	Key   string // the column by which its rows are found, the oldest first; it grows with time
	// Spared is the condition under which a row stays at any age.
	Spared string
}

// Retention returns the tables in the order in which they are pruned: messages before the records that were made from
// them.
func Retention() []Aged {
	return []Aged{
		{"messages", "id", `EXISTS (SELECT 1 FROM entries
			WHERE message_id = messages.id AND status IN ('queued', 'dequeued')) OR id IN (
			SELECT message_id FROM attempts WHERE status = 'open'
			UNION ALL SELECT message_id FROM waits WHERE status IN ('active', 'triggered')
			UNION ALL SELECT message_id FROM timers WHERE status = 'active'
			UNION ALL SELECT wake_message FROM agent_states)`},
		{"briefs", "n", "false"},
		{"notifications", "n", "EXISTS (SELECT 1 FROM deliveries " +
			"WHERE notification_id = notifications.id AND due_at IS NOT NULL)"},
		{"deliveries", "n", "due_at IS NOT NULL"},
		{"expired_outputs", "n", "false"},
		{"commands", "n", "false"},
		{"turns", "n", `number = (SELECT max(number) FROM turns AS other WHERE other.agent_id = turns.agent_id)
			OR response_id = (SELECT chain FROM agent_states AS s WHERE s.agent_id = turns.agent_id)`},
		{"attempts", "id", "status = 'open' OR id IN (SELECT attempt_id FROM waits " +
			"WHERE status IN ('active', 'triggered'))"},
		{"waits", "n", "status IN ('active', 'triggered') OR EXISTS (SELECT 1 FROM " +
			"attempts WHERE attempts.status = 'open' AND instr(' ' || wait_id || ' ', ' ' || waits.id || ' ') > 0)"},
		{"timers", "n", "status = 'active'"},
		{"tasks", "n", `open = 1 OR (SELECT count(*) FROM tasks AS newer
			WHERE newer.agent_id = tasks.agent_id AND newer.n > tasks.n) < 2000`}, // more than agentd reports
	}
}

// young selects the oldest row of a table that stays because of its age.
func (a Aged) young() string {
	return fmt.Sprintf("SELECT %[1]s FROM %[2]s WHERE created_at >= ? ORDER BY %[1]s LIMIT 1", a.Key, a.Table)
}

// oldest selects the first rows of a table that go, before one that is young if there is any.
func (a Aged) oldest(bounded bool) string {
	bound := ""
	if bounded {
		bound = a.Key + " < ? AND "
	}
	return fmt.Sprintf("SELECT %[1]s FROM %[2]s WHERE %[3]sNOT (%[4]s) ORDER BY %[1]s LIMIT ?", a.Key, a.Table, bound,
		a.Spared)
}
