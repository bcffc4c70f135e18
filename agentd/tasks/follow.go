package tasks

import (
	"context"

	wire "holon/responses/tasks"
)

// reportBytes bounds the preview of what an ended task printed, in a report.
const reportBytes = 4 << 10

// Follow sends every task, the oldest first, and then of each that changes, until ctx ends, send fails, or the
// manager is closed and every end was sent. A task that changes twice while send works is sent once, as it is then.
// With the first report after all tasks that there were, or alone when there were none, Complete is set.
func (m *Manager) Follow(ctx context.Context, send func(wire.Report) error) error {
	for sent, first := int64(0), true; ; first = false {
		news, version, changed, over := m.since(sent)
		for _, snapshot := range news {
			report := wire.Report{Task: &snapshot}
			if snapshot.Status.Terminal() {
				out, err := m.Output(ctx, "", snapshot.TaskID, 0, reportBytes)
				if err != nil {
					continue // it was removed meanwhile
				}
				report.Output = &out.Task
			}
			if err := send(report); err != nil {
				return err
			}
		}
		if first {
			if err := send(wire.Report{Complete: true}); err != nil {
				return err
			}
		}
		if over {
			return nil
		}
		sent = version
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// since returns the tasks that changed after a version, the present version, what is closed when there is another one,
// and whether there will be none.
func (m *Manager) since(version int64) (news []wire.Snapshot, now int64, changed <-chan struct{}, over bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	over = m.closed
	for _, t := range m.sorted() {
		if t.version > version {
			news = append(news, t.snapshot())
		}
		over = over && t.proc == nil
	}
	return news, m.version, m.changed, over
}

// touch announces to followers that t has changed, nil for the manager itself. The caller holds mu.
func (m *Manager) touch(t *task) {
	m.version++
	if t != nil {
		t.version = m.version
	}
	close(m.changed)
	m.changed = make(chan struct{})
}
