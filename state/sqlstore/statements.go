package sqlstore

// active selects rows of agents that are not stopped: the time of others does not come.
const active = "agent_id NOT IN (SELECT agent_id FROM agent_states WHERE stopped = 1)"

// Statements returns the statement of each query of package ledger. Of one for records, which begins with WHERE, the
// table and the columns are those of the record.
func Statements() map[string]string {
	return map[string]string{
		"agents": "WHERE archived = 0 ORDER BY id",
		"ready agents": `SELECT agent_id FROM agent_states AS s WHERE stopped = 0
			AND EXISTS (SELECT 1 FROM entries WHERE entries.agent_id = s.agent_id AND status = 'queued')
			AND NOT EXISTS (SELECT 1 FROM attempts WHERE attempts.agent_id = s.agent_id AND status = 'open')
			ORDER BY agent_id`,

		"message by key": "WHERE agent_id = ? AND key = ? AND key <> ''",
		"messages":       "WHERE agent_id = ? ORDER BY number DESC LIMIT ?",
		"queued":         "WHERE agent_id = ? AND status = 'queued' AND band >= ? ORDER BY band, number LIMIT ?",
		"head message": `WHERE id = (SELECT message_id FROM entries
			WHERE agent_id = ? AND status = 'queued' ORDER BY band, number LIMIT 1)`,
		"count queued": `SELECT count(*) FROM entries
			WHERE agent_id = ? AND status = 'queued' AND band BETWEEN ? AND ?`,
		"held": "WHERE agent_id = ? AND status = 'dequeued' ORDER BY number",

		"open attempt":  "WHERE agent_id = ? AND status = 'open'",
		"open attempts": "WHERE status = 'open' ORDER BY agent_id",
		"turns":         "WHERE agent_id = ? ORDER BY number DESC LIMIT ?",

		"unresolved waits": "WHERE agent_id = ? AND status IN ('active', 'triggered') ORDER BY owner",
		"timers":           "WHERE agent_id = ? ORDER BY n DESC LIMIT ?",

		"due timers": "WHERE status = 'active' AND due_at <= ? AND " + active + " ORDER BY due_at",
		"due waits":  "WHERE status = 'active' AND due_at <= ? AND " + active + " ORDER BY due_at",
		"due work":   "WHERE due_at <= ? AND " + active + " ORDER BY due_at",
		"next due": `SELECT due_at FROM (
			SELECT * FROM (SELECT due_at FROM timers
				WHERE status = 'active' AND due_at > ? AND ` + active + ` ORDER BY due_at LIMIT 1) AS t
			UNION ALL SELECT * FROM (SELECT due_at FROM waits
				WHERE status = 'active' AND due_at > ? AND ` + active + ` ORDER BY due_at LIMIT 1) AS w
			UNION ALL SELECT * FROM (SELECT due_at FROM work_items
				WHERE due_at > ? AND ` + active + ` ORDER BY due_at LIMIT 1) AS i) AS next
			ORDER BY due_at LIMIT 1`,

		"open work":      "WHERE agent_id = ? AND state = 'open' ORDER BY n",
		"completed work": "WHERE agent_id = ? AND state = 'completed' ORDER BY ended_at DESC, n DESC LIMIT ?",

		"work after": `WHERE agent_id = ? AND step > ? AND step <= coalesce((SELECT step FROM work_items
			WHERE agent_id = ? AND step > ? ORDER BY step LIMIT 1 OFFSET ?), 9223372036854775807) ORDER BY step, n`,

		"tasks":      "WHERE agent_id = ? ORDER BY n DESC LIMIT ?",
		"open tasks": "WHERE agent_id = ? AND open = 1 ORDER BY n",
		// A quotation mark within a string has a backslash before it, so this is found only where the key is.
		"begun checks":     `WHERE open = 1 AND instr(data, '"begun":true') > 0 ORDER BY agent_id, n`,
		"count open tasks": "SELECT count(*) FROM tasks WHERE agent_id = ? AND open = 1",
		"agents with open tasks": `SELECT DISTINCT agent_id FROM tasks
			WHERE open = 1 AND data ->> 'kind' <> 'child_agent_task' ORDER BY agent_id`,

		"episodes":       "WHERE agent_id = ? ORDER BY number DESC LIMIT ?",
		"episodes after": "WHERE agent_id = ? AND number > ? ORDER BY number LIMIT ?",

		"workspaces":    "WHERE true ORDER BY id",
		"trees":         "WHERE agent_id = ? AND status <> 'removed' ORDER BY name",
		"all trees":     "WHERE status <> 'removed' ORDER BY agent_id, name",
		"trees of task": "WHERE task_id = ? AND task_id <> '' ORDER BY agent_id, name",

		"triggers":        "WHERE agent_id = ? ORDER BY id",
		"trigger by hash": "WHERE token_hash = ?",

		"brief numbers after": "SELECT n FROM briefs WHERE agent_id = ? AND n > ? ORDER BY n LIMIT ?",
		"briefs after":        "WHERE agent_id = ? AND n > ? ORDER BY n LIMIT ?",
		"oldest brief":        "SELECT n FROM briefs WHERE agent_id = ? ORDER BY n LIMIT 1",

		"briefs":             "WHERE agent_id = ? ORDER BY n DESC LIMIT ?",
		"notifications":      "WHERE agent_id = ? ORDER BY n DESC LIMIT ?",
		"open notifications": "WHERE agent_id = ? AND matter <> '' ORDER BY n",

		"operator bindings":          "WHERE agent_id = ? ORDER BY id",
		"deliveries":                 "WHERE agent_id = ? ORDER BY n DESC LIMIT ?",
		"deliveries of notification": "WHERE notification_id = ? ORDER BY n",
		"due deliveries":             "WHERE due_at <= ? ORDER BY due_at LIMIT 1000",
		"next delivery":              "SELECT due_at FROM deliveries WHERE due_at > ? ORDER BY due_at LIMIT 1",

		"events":                       page("", "ASC"),
		"events, newest first":         page("", "DESC"),
		"bounds of events":             bounds(""),
		"notable events":               page(notable, "ASC"),
		"notable events, newest first": page(notable, "DESC"),
		"bounds of notable events":     bounds(notable),
		"turns of events":              "SELECT turn_id, seq FROM events WHERE agent_id = ? AND turn_id <> '' ORDER BY seq",
	}
}

// notable selects the events that have an index of their own.
const notable = " AND level <= 3"

func page(condition, order string) string {
	return "WHERE agent_id = ? AND seq BETWEEN ? AND ? AND level <= ?" + condition + " ORDER BY seq " + order + " LIMIT ?"
}

func bounds(condition string) string {
	end := "coalesce((SELECT seq FROM events WHERE agent_id = ? AND level <= ?" + condition + " ORDER BY seq "
	return "SELECT " + end + "LIMIT 1), 0), " + end + "DESC LIMIT 1), 0)"
}
