package rules

import (
	"cmp"
	"fmt"
	"time"

	"holon/state/ledger"
)

// Situation is the state of an agent in one snapshot. Every view of whether and
// why it runs, waits or rests is computed from it, so that no two contradict each
// other.
type Situation struct {
	AgentID   string
	Archived  bool
	Booting   bool // the runtime recovers it
	Stopped   bool
	RunID     string        // turn of the open attempt; "": none
	Retrying  string        // which model that turn asks again and when, after a failure; "": it waits for none
	Queued    int           // messages in the queue
	RetryAt   *time.Time    // the head of the queue is left alone until then
	Blocked   string        // why none of the queue can be taken before a setting changes
	BlockedBy string        // code of that
	Kept      bool          // all of the queue waits until a message of another sender lets the agent go on
	Wait      *ledger.Wait  // the agent's wait that is active or triggered; nil: none
	Others    []ledger.Wait // those of what it works on
	// Work goes on by itself; nil: none does, or it is held back
	Work    *ledger.WorkSignal
	Held    *HeldWork // an item that waits, where none goes on; nil: none does
	Back    string    // why work is held back until somebody else says something; "": it is not
	Ended   bool      // a turn has ended
	Failed  bool      // the newest one failed, and was not stopped
	Aborted bool      // the newest one was stopped
}

// Waits sets what the agent and all that it works on wait for.
func (s *Situation) Waits(waits []ledger.Wait) {
	for i, w := range waits {
		if w.Owner == ledger.OwnerAgent {
			s.Wait = &waits[i]
		} else {
			s.Others = append(s.Others, w)
		}
	}
}

// Head sets why the entry that is taken next is not taken now.
func (s *Situation) Head(p ledger.Progress, e ledger.Entry) {
	switch due := Due(p, e); {
	case e.Blocked() && e.Code == CodeStalled:
		s.Kept = true
	case e.Blocked():
		s.Blocked, s.BlockedBy = cmp.Or(e.Reason, "no turn can be begun"), e.Code
	case !due.IsZero():
		s.RetryAt = &due
	}
}

// Closure says what the end of the newest turn means now (runtime specification,
// "Closure Decision"), nil when no turn has ended.
func (s Situation) Closure() *ledger.Closure {
	if !s.Ended {
		return nil
	}
	c := &ledger.Closure{Outcome: ledger.OutcomeCompleted, Posture: s.posture()}
	switch {
	case s.Failed:
		c.Outcome = ledger.OutcomeFailed
		addEvidence(&c.Evidence, "the newest turn failed")
	case s.Aborted:
		addEvidence(&c.Evidence, "the newest turn was ended on request")
	default:
		addEvidence(&c.Evidence, "the newest turn drained")
	}
	if s.Wait != nil {
		addEvidence(&c.Evidence, "wait %s is %s: %s", s.Wait.ID, s.Wait.Status, s.Wait.Kind)
	}
	if s.Queued > 0 {
		addEvidence(&c.Evidence, "messages in the queue: %d", s.Queued)
	}
	if c.Outcome == ledger.OutcomeFailed {
		return c
	}
	switch reason := s.awaits(); {
	case reason != "":
		c.Outcome, c.WaitingReason = ledger.OutcomeWaiting, reason
		if !Rests(s.Wait) {
			addEvidence(&c.Evidence, "work item %s is %s", s.Held.ID, s.Held.State)
		}
	case s.Work != nil:
		c.Outcome, c.WorkSignal = ledger.OutcomeContinuable, s.Work
		addEvidence(&c.Evidence, "work item %s may run: %s", s.Work.WorkItemID, s.Work.Reactivation)
	}
	return c
}

// awaits is what an agent waits for: what its own wait is for or, where that is for nothing in particular and no work
// goes on, what a work item of it needs.
func (s Situation) awaits() ledger.WaitingReason {
	if reason := waiting(s.Wait); reason != "" || s.Work != nil || s.Held == nil {
		return reason
	}
	return heldReasons[s.Held.State]
}

var heldReasons = map[WorkState]ledger.WaitingReason{WorkWaitingOperator: ledger.AwaitingOperator,
	WorkWaitingTask: ledger.AwaitingTask, WorkWaitingExternal: ledger.AwaitingExternal,
	WorkBlocked: ledger.AwaitingExternal} // which blocked_by describes

// posture is sleeping when only a wake moves the agent on.
func (s Situation) posture() ledger.RuntimePosture {
	switch s.Status() {
	case Asleep, Stopped, AwaitingTaskResult:
		return ledger.Sleeping
	}
	return ledger.Awake
}

// Rests reports whether an agent waits for something in particular, so that its work does not go on by itself.
func Rests(w *ledger.Wait) bool { return waiting(w) != "" }

// waiting is the reason of an active wait. One for any wake is rest: nothing in
// particular is missing. One that was triggered waits no more.
func waiting(w *ledger.Wait) ledger.WaitingReason {
	if w == nil || w.Status != ledger.WaitActive {
		return ""
	}
	return waitReasons[w.Kind]
}

var waitReasons = map[ledger.WaitKind]ledger.WaitingReason{ledger.WaitTask: ledger.AwaitingTask,
	ledger.WaitExternal: ledger.AwaitingExternal, ledger.WaitOperator: ledger.AwaitingOperator,
	ledger.WaitTimer: ledger.AwaitingTimer}

// Status is an agent's status as it is shown (runtime specification, "Agent
// State").
type Status string

const (
	Booting            Status = "booting"
	AwakeIdle          Status = "awake_idle"
	AwakeRunning       Status = "awake_running"
	AwaitingTaskResult Status = "awaiting_task"
	Asleep             Status = "asleep"
	Stopped            Status = "stopped"
)

// Status says what the agent does. Asleep is more than having nothing to do: it
// waits, or what it works on does.
func (s Situation) Status() Status {
	idle, awaits := s.Queued == 0 || s.Kept, s.awaits()
	switch {
	case s.Stopped || s.Archived:
		return Stopped
	case s.Booting:
		return Booting
	case s.RunID != "":
		return AwakeRunning
	case idle && awaits == ledger.AwaitingTask:
		return AwaitingTaskResult
	case idle && (awaits != "" || s.Wait != nil && s.Wait.Status == ledger.WaitActive):
		return Asleep
	}
	return AwakeIdle
}

// Posture says what the scheduler would do with the agent, and why.
type Posture struct {
	// unknown, archived, active_turn, has_queued_input, has_runnable_work, waiting_for_task,
	// waiting_for_external, waiting_for_operator, blocked, idle
	Posture         string `json:"posture"`
	Reason          string `json:"reason"`
	WorkItemID      string `json:"work_item_id,omitempty"`
	WaitingIntentID string `json:"waiting_intent_id,omitempty"`
	TaskID          string `json:"task_id,omitempty"`
	RunID           string `json:"run_id,omitempty"`
}

// Posture says what the scheduler would do with the agent.
func (s Situation) Posture() Posture {
	switch {
	case s.Archived:
		return Posture{Posture: "archived", Reason: "the agent is archived"}
	case s.RunID != "" && s.Retrying != "":
		return Posture{Posture: "active_turn", Reason: "a turn runs, retrying " + s.Retrying, RunID: s.RunID}
	case s.RunID != "":
		return Posture{Posture: "active_turn", Reason: "a turn runs", RunID: s.RunID}
	case s.Stopped:
		return Posture{Posture: "blocked", Reason: "the agent is stopped"}
	case s.Booting:
		return Posture{Posture: "unknown", Reason: "the runtime recovers the agent"}
	case s.Blocked != "":
		return Posture{Posture: "blocked", Reason: "a setting has to change: " + s.Blocked}
	case s.Queued > 0 && s.RetryAt != nil:
		return Posture{Posture: "blocked", Reason: "its next turn is tried at " + s.RetryAt.UTC().Format(time.RFC3339)}
	case s.Queued > 0 && !s.Kept:
		return Posture{Posture: "has_queued_input", Reason: fmt.Sprintf("messages in the queue: %d", s.Queued)}
	case Rests(s.Wait):
		return restPosture(*s.Wait)
	}
	return s.workPosture()
}

// workPosture is the posture of an agent that takes no message and waits for nothing in particular.
func (s Situation) workPosture() Posture {
	switch {
	case s.Work != nil:
		return Posture{Posture: "has_runnable_work", Reason: "work goes on: " + string(s.Work.Reactivation),
			WorkItemID: s.Work.WorkItemID}
	case s.Back != "":
		return Posture{Posture: "blocked", Reason: "its work waits for a message, or holon work pick, after " + s.Back}
	case s.Held != nil:
		p := Posture{Posture: heldPostures[s.Held.State], Reason: "work item: " + s.Held.Objective,
			WorkItemID: s.Held.ID, TaskID: s.Held.TaskID, WaitingIntentID: s.Held.IntentID}
		if s.Held.By != "" {
			p.Reason += "; blocked by: " + s.Held.By
		}
		return p
	case s.Wait != nil && s.Wait.Status == ledger.WaitActive:
		return restPosture(*s.Wait)
	}
	return Posture{Posture: "idle", Reason: "nothing is to be done"}
}

var heldPostures = map[WorkState]string{WorkWaitingOperator: "waiting_for_operator",
	WorkWaitingTask: "waiting_for_task", WorkWaitingExternal: "waiting_for_external", WorkBlocked: "blocked"}

func restPosture(w ledger.Wait) Posture {
	p := Posture{Posture: "idle", Reason: w.WaitingFor}
	switch w.Kind {
	case ledger.WaitTask:
		p.Posture = "waiting_for_task"
		for _, src := range w.Wakes {
			if src.TaskID != "" {
				p.TaskID = src.TaskID
			}
		}
	case ledger.WaitExternal:
		p.Posture, p.WaitingIntentID = "waiting_for_external", w.ID
	case ledger.WaitOperator:
		p.Posture = "waiting_for_operator"
	case ledger.WaitTimer:
		if w.WakeAt != nil {
			p.Reason = fmt.Sprintf("asleep until %s: %s", w.WakeAt.UTC().Format(time.RFC3339), w.WaitingFor)
		}
	}
	return p
}

// Lifecycle shows an operator what an agent needs before it goes on.
type Lifecycle struct {
	ResumeRequired    bool   `json:"resume_required"`
	AcceptsMessages   bool   `json:"accepts_external_messages"`
	WakeNeedsResume   bool   `json:"wake_requires_resume"`
	OperatorHint      string `json:"operator_hint,omitempty"`
	ResumeCLIHint     string `json:"resume_cli_hint,omitempty"`
	ResumeControlPath string `json:"resume_control_path,omitempty"`
}

// Lifecycle says how a stopped agent is started again. One that was removed never is.
func (s Situation) Lifecycle() Lifecycle {
	if s.Archived {
		return Lifecycle{OperatorHint: "The agent was removed. What it did can be read; its id is not used again."}
	}
	if !s.Stopped {
		return Lifecycle{AcceptsMessages: true}
	}
	return Lifecycle{
		ResumeRequired:    true,
		WakeNeedsResume:   true,
		OperatorHint:      "The agent is stopped and takes no messages. A wake does not start it.",
		ResumeCLIHint:     StartHint(s.AgentID),
		ResumeControlPath: "/control/agents/" + s.AgentID + "/control",
	}
}

// StartHint is the command that starts a stopped agent.
func StartHint(agentID string) string { return "holon agent start " + agentID }
