package tasks

import wire "holon/responses/tasks"

// maxEnded bounds how many ends a session is told of at once.
const maxEnded = 16

// Ending is a task that has ended.
type Ending struct {
	wire.Snapshot
	Seen bool // a tool has shown it to the model
}

// Ended returns the tasks of a session whose end it has not been told, the
// oldest first, a few at a time. Told marks them.
func (m *Manager) Ended(session string) []Ending {
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []Ending
	for _, t := range m.sorted() {
		if t.rec.SessionID == session && t.proc == nil && t.rec.Status.Terminal() && !t.rec.Told &&
			len(list) < maxEnded {
			list = append(list, Ending{t.snapshot(), t.rec.Seen})
		}
	}
	return list
}

// Told notes that the session of an ended task knows of its end, and Seen that a tool
// has shown it to the model. They do nothing for a task that runs or is gone.
func (m *Manager) Told(id string) { m.note(id, func(r *record) *bool { return &r.Told }) }

// Seen is described at Told.
func (m *Manager) Seen(id string) { m.note(id, func(r *record) *bool { return &r.Seen }) }

func (m *Manager) note(id string, what func(*record) *bool) {
	t, err := m.find("", id)
	if err != nil {
		return
	}
	m.mu.Lock()
	news := t.rec.Status.Terminal() && !t.rec.Told && !*what(&t.rec)
	m.mu.Unlock()
	if news {
		m.update(t, func(t *task) { *what(&t.rec) = true })
	}
}
