package tasks

import wire "holon/responses/tasks"

// maxEnded bounds how many ends a session gets at once.
const maxEnded = 16

// endedTask is a task that has ended.
type endedTask struct {
	wire.Snapshot
	Seen      bool // a tool has shown it to the model
	Elsewhere bool // the facts of another thread have its beginning
	Recorded  bool // the facts of the thread have its end, of which no model may know
}

// Ended returns the tasks of a session whose end a thread of it has to get, the oldest first, a few at a time. That is
// the thread that has the beginning of the task, and one more when that one gets it first. Reported and
// ReportedElsewhere mark them.
func (m *Manager) Ended(session, thread string) []endedTask {
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []endedTask
	for _, t := range m.sorted() {
		elsewhere := !t.rec.direct() && t.rec.ThreadID != thread
		if t.rec.SessionID == session && t.proc == nil && t.rec.Status.Terminal() && !t.rec.Reported &&
			!(elsewhere && t.rec.Elsewhere) && len(list) < maxEnded {
			list = append(list, endedTask{t.snapshot(), t.rec.Seen, elsewhere, t.rec.Recorded && !elsewhere})
		}
	}
	return list
}

// BegunIn reports whether the facts of a thread have the beginning of a task. No turn has recorded that of the
// operator's.
func (m *Manager) BegunIn(id, thread string) bool {
	t, err := m.find("", id)
	if err != nil {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return !t.rec.direct() && t.rec.ThreadID == thread
}

// Reported notes that the thread with the beginning of an ended task has its end, ReportedElsewhere that another one
// does, Recorded that the facts of the first have it, although the process died before it could note more, and Seen
// that a tool has shown it to the model. They do nothing for a task that runs or is gone.
func (m *Manager) Reported(id string) { m.mark(id, func(r *record) *bool { return &r.Reported }) }

// ReportedElsewhere is described at Reported.
func (m *Manager) ReportedElsewhere(id string) {
	m.mark(id, func(r *record) *bool { return &r.Elsewhere })
}

// Recorded is described at Reported.
func (m *Manager) Recorded(id string) { m.mark(id, func(r *record) *bool { return &r.Recorded }) }

// Seen is described at Reported.
func (m *Manager) Seen(id string) { m.mark(id, func(r *record) *bool { return &r.Seen }) }

func (m *Manager) mark(id string, what func(*record) *bool) {
	t, err := m.find("", id)
	if err != nil {
		return
	}
	m.mu.Lock()
	news := t.rec.Status.Terminal() && !t.rec.Reported && !*what(&t.rec)
	m.mu.Unlock()
	if news {
		m.update(t, func(t *task) { *what(&t.rec) = true })
	}
}
