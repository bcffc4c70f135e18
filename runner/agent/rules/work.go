package rules

import (
	"slices"
	"time"

	"holon/state/ledger"
)

// WorkState is whether a work item may run now (runtime specification, "WorkItemSchedulingState"). It is derived and
// never stored.
type WorkState string

const (
	WorkRunnable        WorkState = "runnable"
	WorkWaitingOperator WorkState = "waiting_operator"
	WorkWaitingTask     WorkState = "waiting_task"
	WorkWaitingExternal WorkState = "waiting_external"
	WorkBlocked         WorkState = "blocked"
	WorkCompleted       WorkState = "completed"
)

// Scheduling is the state of a work item with the waits of its agent that are active. Being open is not enough to run.
func Scheduling(w ledger.WorkItem, waits []ledger.Wait) WorkState {
	waitsFor := func(kind ledger.WaitKind) bool {
		return slices.ContainsFunc(waits, func(wait ledger.Wait) bool {
			return wait.Owner == w.ID && wait.Status == ledger.WaitActive && wait.Kind == kind
		})
	}
	switch {
	case w.State == ledger.WorkCompleted:
		return WorkCompleted
	case w.PlanStatus == ledger.PlanNeedsInput, waitsFor(ledger.WaitOperator):
		return WorkWaitingOperator
	case waitsFor(ledger.WaitTask):
		return WorkWaitingTask
	case waitsFor(ledger.WaitExternal):
		return WorkWaitingExternal
	case w.BlockedBy != "":
		return WorkBlocked
	}
	return WorkRunnable
}

// Readiness is the older label of a scheduling state.
func Readiness(s WorkState) string {
	switch s {
	case WorkWaitingOperator:
		return "waiting_for_operator"
	case WorkWaitingTask, WorkWaitingExternal:
		return string(WorkBlocked)
	}
	return string(s)
}

// WorkSignal says with which work an agent goes on by itself once it is idle, nil for none: with the current item if
// that may run, else the agent is shown the oldest one that may, to pick it. open are the agent's open items, the
// oldest first.
func WorkSignal(l ledger.AgentState, open []ledger.WorkItem, waits []ledger.Wait) *ledger.WorkSignal {
	if l.Stopped || l.WorkHeld != "" {
		return nil
	}
	var queued *ledger.WorkSignal
	for _, w := range open {
		switch {
		case Scheduling(w, waits) != WorkRunnable:
		case w.ID == l.CurrentWork:
			return &ledger.WorkSignal{WorkItemID: w.ID, Status: "active", Reactivation: ledger.ContinueActive}
		case queued == nil:
			queued = &ledger.WorkSignal{WorkItemID: w.ID, Status: "queued", Reactivation: ledger.ActivateQueued}
		}
	}
	return queued
}

// WaitsFor reports whether a work item waits for a task while its agent rests: for one of the item, and for one of no
// item that the turn started in which the agent said so.
func WaitsFor(t ledger.Task, itemID, turnID string) bool {
	return t.Owner.WorkItemID == itemID || t.Owner.WorkItemID == "" && t.Owner.TurnID == turnID
}

// HeldBack says why work that could go on waits for somebody to say something, "" where none does.
func HeldBack(l ledger.AgentState, open []ledger.WorkItem, waits []ledger.Wait) string {
	why := l.WorkHeld
	l.WorkHeld = ""
	if why == "" || WorkSignal(l, open, waits) == nil {
		return ""
	}
	return "a turn that ended with " + why
}

// HeldWork is a work item that waits for somebody or something.
type HeldWork struct {
	ID, Objective string
	State         WorkState // waiting_operator, waiting_task, waiting_external, blocked
	By            string    // what it says that blocks it; "": nothing
	TaskID        string    // the newest for which it waits; "": none
	IntentID      string    // of its wait for something outside; "": none
}

// Held is the open item that a person has to look at first, of those that wait: one for the operator, else one for a
// task, else one for something outside, else one that is blocked; nil for none.
func Held(open []ledger.WorkItem, waits []ledger.Wait) *HeldWork {
	for _, state := range []WorkState{WorkWaitingOperator, WorkWaitingTask, WorkWaitingExternal,
		WorkBlocked} {
		for _, w := range open {
			if Scheduling(w, waits) != state {
				continue
			}
			held := &HeldWork{ID: w.ID, Objective: w.Objective, State: state, By: w.BlockedBy}
			for _, wait := range waits {
				switch {
				case wait.Owner != w.ID:
				case wait.Kind == ledger.WaitTask:
					held.TaskID = wait.SubjectRef
				case wait.Kind == ledger.WaitExternal:
					held.IntentID = wait.ID
				}
			}
			return held
		}
	}
	return nil
}

// DefaultRecheck is after how long a blocked work item is looked at again for which no time was said.
const DefaultRecheck = time.Hour
