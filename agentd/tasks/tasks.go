// Package tasks manages commands that outlive the call that started them.
//
// A running process is adopted, its record is written, and only then is the task announced. Its end is written before
// it becomes visible. A task that a crash left as running is settled as interrupted when the next process loads the
// records, because its end is unknown. The invariant: a terminal record never changes, and a task that is reported as
// running is running under this Manager.
//
// A task belongs to a session and outlives its turn, never this process: Close
// ends every task. The package does not confine commands and promises no order
// between the two streams of a command without a terminal.
package tasks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"holon/agentd/process"
	"holon/internal/redact"
	"holon/responses"
	wire "holon/responses/tasks"
	"holon/responses/turns"
)

// Bounds of a Manager.
const (
	maxRunning = 128  // tasks at once
	maxRecords = 1000 // the oldest ended ones go first
)

// closeGrace is how long commands get to end when the runtime does. It is short because the caller that stops the
// container waits.
const closeGrace = 2 * time.Second

// Errors of Adopt.
var (
	ErrClosed  = errors.New("the runtime is shutting down")
	ErrTooMany = errors.New("too many tasks are running")
)

// Options configure a Manager.
type Options struct {
	Dir     string       // of the records; made when it is missing
	Secrets *redact.Set  // taken out of the records; nil for none
	Logger  *slog.Logger // receives what no caller gets; nil discards it
}

// Owner is what starts a task: a turn of a thread, or without one the operator of the session; it chooses the id so
// that the task is started once.
type Owner struct{ SessionID, ThreadID, TurnID string }

// Manager owns the tasks of this process. It is safe for concurrent use. Make
// one with Open and end it with Close, before the supervisor of its processes.
type Manager struct {
	store    store
	log      *slog.Logger
	watching sync.WaitGroup

	// Others in tests.
	maxRunning, maxRecords int
	stopGrace              time.Duration
	now                    func() time.Time

	mu      sync.Mutex
	closed  bool
	tasks   map[string]*task // by id
	version int64            // grows with every change of a task
	changed chan struct{}    // closed when it grows
}

// task is a record and, while it runs, its process.
type task struct {
	ended chan struct{} // closed when the record is terminal and kept

	saving sync.Mutex // held while the record changes, over the write

	// Under the Manager's mu.
	rec     record
	proc    *process.Process // nil once ended
	noInput bool             // its input was closed
	version int64            // of the manager, when it changed last; 0 until it is recorded
}

// New returns a Manager without tasks. It touches nothing.
func New(opts Options) *Manager {
	m := &Manager{
		store: store{opts.Dir, opts.Secrets}, log: opts.Logger, tasks: make(map[string]*task), changed: make(chan struct{}),
		maxRunning: maxRunning, maxRecords: maxRecords, stopGrace: stopGrace, now: time.Now,
	}
	if m.log == nil {
		m.log = slog.New(slog.DiscardHandler)
	}
	return m
}

// Load reads the records and settles those of an earlier process that still say running. What that process left of
// them must be ended before.
func (m *Manager) Load() error {
	records, broken, err := m.store.load()
	if err != nil {
		return fmt.Errorf("load the task records: %w", err)
	}
	for _, err := range broken {
		m.log.Warn("a task record is left out", "err", err)
	}
	for _, rec := range records {
		if !rec.Status.Terminal() {
			rec.interrupt(turns.At(m.now()))
			m.log.Warn("a task was lost when the runtime ended", "task", rec.TaskID, "session", rec.SessionID)
			if err := m.store.write(rec); err != nil {
				m.log.Error("the end of a task could not be recorded", "task", rec.TaskID, "err", err)
			}
		}
		t := &task{ended: make(chan struct{}), rec: rec}
		close(t.ended)
		m.mu.Lock()
		m.tasks[rec.TaskID] = t
		m.touch(t)
		m.mu.Unlock()
	}
	m.prune()
	return nil
}

// Close ends every running task, waits for their ends to be recorded and lets
// no more in.
func (m *Manager) Close() error {
	m.mu.Lock()
	m.closed = true
	for _, t := range m.tasks {
		if t.proc != nil {
			t.proc.Stop(closeGrace)
		}
	}
	m.mu.Unlock()
	m.watching.Wait()
	m.mu.Lock()
	m.touch(nil)
	m.mu.Unlock()
	return nil
}

// Adopt makes the task id of a running process. c says what runs, and which files have its output ("" for none; with a
// terminal both streams are in OutputPath). If Adopt returns an error, the process still belongs to the caller.
func (m *Manager) Adopt(id string, owner Owner, c wire.Command, p *process.Process) (wire.Snapshot, error) {
	c.CmdPreview, c.CmdDigest = Preview(c.Cmd), Digest(c)
	c.Cmd, c.Workdir, c.Shell = clip(c.Cmd, maxCmd), clip(c.Workdir, 4096), clip(c.Shell, 4096)
	c.TerminalReentry, c.PromotedFromExecCommand = true, owner.TurnID != ""
	now := turns.At(m.now())
	t := &task{ended: make(chan struct{}), proc: p, rec: record{Version: recordVersion, ThreadID: owner.ThreadID,
		Snapshot: wire.Snapshot{TaskID: id, Kind: wire.KindCommand, Status: wire.Running, Summary: "command is running",
			CreatedAt: now, UpdatedAt: now, WaitPolicy: wire.WaitBackground, SessionID: owner.SessionID,
			TurnID: owner.TurnID, Command: &c},
	}}
	if err := m.admit(t); err != nil {
		return wire.Snapshot{}, err
	}
	if err := m.store.write(t.rec); err != nil {
		m.withdraw(t)
		return wire.Snapshot{}, fmt.Errorf("record the task: %w", err)
	}
	m.mu.Lock()
	m.touch(t)
	m.mu.Unlock()
	go m.watch(t, p)
	m.prune()
	m.mu.Lock()
	defer m.mu.Unlock()
	return t.snapshot(), nil
}

// admit counts t in and its watcher, so that Close waits for it.
func (m *Manager) admit(t *task) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return ErrClosed
	}
	running := 0
	for _, other := range m.tasks {
		if other.proc != nil {
			running++
		}
	}
	if running >= m.maxRunning {
		return fmt.Errorf("%w: %d", ErrTooMany, running)
	}
	m.watching.Add(1)
	m.tasks[t.rec.TaskID] = t
	return nil
}

// withdraw takes back what admit let in.
func (m *Manager) withdraw(t *task) {
	m.mu.Lock()
	delete(m.tasks, t.rec.TaskID)
	m.mu.Unlock()
	m.watching.Done()
}

// watch records the end of a task.
func (m *Manager) watch(t *task, p *process.Process) {
	defer m.watching.Done()
	res := p.Result() // waits
	now := turns.At(m.now())
	m.update(t, func(t *task) {
		t.rec.finish(res, now, m.closed)
		t.proc = nil
	})
	close(t.ended)
}

// update changes a task: the record is on disk before the change is seen. An
// end that cannot be written is seen all the same, since it happened; after a
// crash the task counts as interrupted.
func (m *Manager) update(t *task, change func(*task)) {
	t.saving.Lock()
	defer t.saving.Unlock()
	m.mu.Lock()
	next := task{rec: t.rec, proc: t.proc}
	change(&next)
	m.mu.Unlock()
	if err := m.store.write(next.rec); err != nil {
		m.log.Error("a task could not be recorded", "task", next.rec.TaskID, "err", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	t.rec, t.proc = next.rec, next.proc
	m.touch(t)
}

// prune removes the oldest records of ended tasks over the bound.
func (m *Manager) prune() {
	m.mu.Lock()
	var old []string
	if over := len(m.tasks) - m.maxRecords; over > 0 {
		for _, t := range m.sorted() {
			if over > 0 && t.proc == nil && t.rec.Status.Terminal() {
				old = append(old, t.rec.TaskID)
				delete(m.tasks, t.rec.TaskID)
				over--
			}
		}
	}
	m.mu.Unlock()
	for _, id := range old {
		if err := m.store.remove(id); err != nil {
			m.log.Warn("an old task record could not be removed", "task", id, "err", err)
		}
	}
}

// sorted returns the tasks, the oldest first. The caller holds mu.
func (m *Manager) sorted() []*task {
	return slices.SortedFunc(maps.Values(m.tasks), func(a, b *task) int {
		return cmp.Or(a.rec.CreatedAt.Time().Compare(b.rec.CreatedAt.Time()), cmp.Compare(a.rec.TaskID, b.rec.TaskID))
	})
}

// find returns the task id, of any session when session is "".
func (m *Manager) find(session, id string) (*task, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if t, ok := m.tasks[id]; ok && (session == "" || t.rec.SessionID == session) {
		return t, nil
	}
	return nil, notFound(id)
}

// notFound does not say whether another session has such a task.
func notFound(id string) error {
	if len(id) > 80 {
		id = id[:80] + "…"
	}
	e := responses.NotFound("task_id", responses.CodeNotFound, fmt.Sprintf("there is no task with the id %q", id))
	e.Hint = "list the tasks to see their ids"
	return e
}

// Get returns the state of a task. An empty session finds the tasks of all. The
// error is a not_found *responses.Error.
func (m *Manager) Get(session, id string) (wire.Snapshot, error) {
	t, err := m.find(session, id)
	if err != nil {
		return wire.Snapshot{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return t.snapshot(), nil
}

// List returns at most limit tasks of a session, or of all when session is "",
// the newest first.
func (m *Manager) List(session string, limit int) wire.List {
	m.mu.Lock()
	defer m.mu.Unlock()
	list := wire.List{Tasks: []wire.Entry{}}
	for _, t := range slices.Backward(m.sorted()) {
		switch {
		case session != "" && t.rec.SessionID != session:
		case len(list.Tasks) >= limit:
			list.Omitted++
		default:
			list.Tasks = append(list.Tasks, t.entry())
		}
	}
	return list
}

// Of returns the tasks that a turn started, the oldest first.
func (m *Manager) Of(turnID string) (list []wire.Snapshot) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, t := range m.sorted() {
		if t.rec.TurnID == turnID {
			list = append(list, t.snapshot())
		}
	}
	return list
}

// Active returns the running task of a session that has the given digest.
func (m *Manager) Active(session, digest string) (wire.Snapshot, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, t := range m.sorted() {
		if t.proc != nil && t.rec.SessionID == session && t.rec.Command.CmdDigest == digest && t.rec.Status == wire.Running {
			return t.snapshot(), true
		}
	}
	return wire.Snapshot{}, false
}

// await waits until t has ended, but not longer than wait.
func (t *task) await(ctx context.Context, wait time.Duration) error {
	if wait <= 0 {
		return nil
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-t.ended:
	case <-timer.C:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}
