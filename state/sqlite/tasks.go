package sqlite

import "holon/state/ledger"

// Task implements ledger.TaskView.
func (v *view) Task(agentID, id string) (ledger.Task, error) {
	task, ok, err := find(v, "task", scanRecord[ledger.Task], "SELECT data FROM tasks WHERE agent_id = ? AND id = ?",
		agentID, id)
	if err == nil && !ok {
		err = notFound("task", id)
	}
	return task, err
}

// Tasks implements ledger.TaskView.
func (v *view) Tasks(agentID string, limit int) ([]ledger.Task, error) {
	return tail(v, "tasks", scanRecord[ledger.Task],
		"SELECT data FROM tasks WHERE agent_id = ? ORDER BY n DESC LIMIT +?", agentID, limited(limit))
}

// OpenTasks implements ledger.TaskView.
func (v *view) OpenTasks(agentID string) ([]ledger.Task, error) {
	return list(v, "open tasks", scanRecord[ledger.Task],
		"SELECT data FROM tasks WHERE agent_id = ? AND open = 1 ORDER BY n", agentID)
}

// CountOpenTasks implements ledger.TaskView.
func (v *view) CountOpenTasks(agentID string) (int, error) {
	n, err := v.count("count open tasks", "SELECT count(*) FROM tasks WHERE agent_id = ? AND open = 1", agentID)
	return int(n), err
}

// TaskAgents implements ledger.TaskView.
func (v *view) TaskAgents() ([]string, error) {
	return list(
		v,
		"agents with open tasks",
		(*row).text,
		"SELECT DISTINCT agent_id FROM tasks WHERE open = 1 ORDER BY agent_id",
	)
}

func keepTask(t ledger.Task) ledger.Task {
	t.CreatedAt, t.UpdatedAt, t.EndedAt = kept(t.CreatedAt), kept(t.UpdatedAt), keptOrNil(t.EndedAt)
	return t
}

// InsertTask implements ledger.TaskTx.
func (t *tx) InsertTask(task ledger.Task) error {
	task = keepTask(task)
	data, err := encode(task)
	if err != nil {
		return err
	}
	_, err = t.write("INSERT INTO tasks (agent_id, id, created_at, open, data) VALUES (?, ?, ?, ?, ?)", task.AgentID,
		task.ID, millis(task.CreatedAt), !task.Status.Terminal(), data)
	return changed("insert", "task", ledger.CodeConflict, err)
}

// UpdateTask implements ledger.TaskTx.
func (t *tx) UpdateTask(task ledger.Task) error {
	task = keepTask(task)
	data, err := encode(task)
	if err != nil {
		return err
	}
	return t.replace("task", task.ID, "UPDATE tasks SET open = ?, data = ? WHERE agent_id = ? AND id = ?",
		!task.Status.Terminal(), data, task.AgentID, task.ID)
}
