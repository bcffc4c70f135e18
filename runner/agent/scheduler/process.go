package scheduler

import (
	"slices"
	"strings"
	"time"

	"holon/responses/agentruntime"
	"holon/responses/tasks"
	"holon/responses/turns"
	"holon/state/ledger"
)

// A process belongs to the turn that started it, whose container reports it, until it becomes the process of a task,
// which the host reports. The two come on different connections, so either may be first: the record has each process
// begin once and end once.

// alreadyRecorded reports whether the record has a fact about a process already, or cannot have it: the process is that
// of a task, or it does not run. What is written to the process of a task is recorded while that runs.
func (s *step) alreadyRecorded(a *ledger.Attempt, e *ledger.Event) bool {
	family, ok := agentruntime.FamilyOf(e.Class)
	if !ok {
		return true
	}
	id := tasks.Prefix + strings.TrimPrefix(e.IDs[agentruntime.Process], turns.ProcessOf(""))
	t, ofTask := s.task(id)
	switch {
	case e.Class == family.Open:
		return ofTask
	case slices.Contains(family.Use, e.Class) && ofTask:
		e.IDs[agentruntime.Task] = id
		return t.Status.Terminal() || t.Status == tasks.Queued || t.Handle.ProcessEvent == ""
	}
	return openUnit(a, family, e) < 0
}

// taskOfTurn records a task that a turn began, unless its container reported it before. What makes no sense is left
// out: it must not hold up what comes after it.
func (s *step) taskOfTurn(a *ledger.Attempt, r tasks.Snapshot) {
	if checkReport(tasks.Report{Task: &r}) == nil {
		_, _ = s.reportTask(a, tasks.Report{Task: &r}) // it is refused where the agent has too many
	}
}

// emitProcessBegun records that the process of a task runs, unless the open attempt a has that, and returns the event
// that does. The process is the task's from now on. a is nil without an open attempt.
func (s *step) emitProcessBegun(a *ledger.Attempt, t ledger.Task) string {
	if at := openProcess(a, t.ID); at >= 0 {
		event := a.Open[at].Event
		a.Open = slices.Delete(a.Open, at, at+1)
		return event
	}
	p := turns.Process{Command: t.Command().CmdPreview, Cwd: t.Command().Workdir, TTY: t.Command().TTY,
		AcceptsInput: t.Handle.TakesInput}
	begun := turns.Scope{}.OfProcess(turns.ProcessStarted, "", turns.ProcessOf(t.ID), p)
	s.emitProcess(t, begun, causeOfTask(t), s.now)
	return s.newest()
}

// openProcess is the index in a.Open of the process of a task, -1 for none.
func openProcess(a *ledger.Attempt, taskID string) int {
	if a == nil {
		return -1
	}
	return slices.IndexFunc(a.Open, func(u ledger.Unfinished) bool {
		return u.Class == turns.ProcessStarted && u.IDs[agentruntime.Process] == turns.ProcessOf(taskID)
	})
}

// emitProcess records what happened to the process of a task at a time, because of the event cause.
func (s *step) emitProcess(t ledger.Task, ev turns.RuntimeEvent, cause string, at time.Time) {
	s.emitReported(turns.Scope{}.TaskProcess(t.ID, ev), t.ID, ledger.Event{Cause: cause, CreatedAt: at}, nil)
}
