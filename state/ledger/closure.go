package ledger

// Outcome, WaitingReason and RuntimePosture are those of a Closure.
type (
	Outcome        string
	WaitingReason  string
	RuntimePosture string
)

const (
	OutcomeCompleted   Outcome = "completed"
	OutcomeContinuable Outcome = "continuable" // work goes on without a new trigger
	OutcomeFailed      Outcome = "failed"
	OutcomeWaiting     Outcome = "waiting"

	AwaitingOperator WaitingReason = "awaiting_operator_input"
	AwaitingExternal WaitingReason = "awaiting_external_change"
	AwaitingTask     WaitingReason = "awaiting_task_result"
	AwaitingTimer    WaitingReason = "awaiting_timer"

	Awake    RuntimePosture = "awake"
	Sleeping RuntimePosture = "sleeping"
)

// Closure is what a turn's end means (runtime specification, "Closure
// Decision"). WorkSignal is there for OutcomeContinuable only.
type Closure struct {
	Outcome       Outcome        `json:"outcome"`
	WaitingReason WaitingReason  `json:"waiting_reason,omitempty"`
	WorkSignal    *WorkSignal    `json:"work_signal,omitempty"`
	Posture       RuntimePosture `json:"runtime_posture"`
	Evidence      []string       `json:"evidence"`
}

// WorkSignal names work that goes on without a new trigger.
type WorkSignal struct {
	WorkItemID   string       `json:"work_item_id"`
	Status       string       `json:"status"` // active, queued
	Reactivation Reactivation `json:"reactivation_mode"`
}

// Reactivation is how work goes on.
type Reactivation string

const (
	ContinueActive Reactivation = "continue_active" // with the current item
	ActivateQueued Reactivation = "activate_queued" // the agent may pick a queued one
)

// Class is how a trigger relates to what the agent was doing.
type Class string

const (
	ResumeExpectedWait Class = "resume_expected_wait"
	ResumeOverride     Class = "resume_override"
	LocalContinuation  Class = "local_continuation"
	LivenessOnly       Class = "liveness_only"
)

// Continuation is what a message means after a Closure (runtime specification,
// "Continuation Resolution").
type Continuation struct {
	TriggerKind  TriggerKind   `json:"trigger_kind"`
	Class        Class         `json:"class"`
	ModelVisible bool          `json:"model_reentry"`
	PriorOutcome Outcome       `json:"prior_closure_outcome,omitempty"` // "": no turn had ended
	PriorWaiting WaitingReason `json:"prior_waiting_reason,omitempty"`
	MatchedWait  bool          `json:"matched_waiting_reason"`
	Evidence     []string      `json:"evidence"`
}
