package ledger

import "time"

// WaitStatus is where a wait is: active → triggered → resolved, or cancelled or
// expired.
type WaitStatus string

const (
	WaitActive    WaitStatus = "active"
	WaitTriggered WaitStatus = "triggered" // MessageID is what triggered it, and is in the queue
	WaitResolved  WaitStatus = "resolved"  // AttemptID claimed that message
	WaitCancelled WaitStatus = "cancelled"
	WaitExpired   WaitStatus = "expired"
)

// WaitKind is what an agent waits for.
type WaitKind string

const (
	WaitTask     WaitKind = "task"
	WaitExternal WaitKind = "external"
	WaitOperator WaitKind = "operator"
	WaitTimer    WaitKind = "timer"
	WaitSystem   WaitKind = "system" // any wake
)

// WakeSource is one thing that ends a wait.
type WakeSource struct {
	Kind              string     `json:"kind"` // task_result, external_ingress, timer, operator_input, system_tick
	TaskID            string     `json:"task_id,omitempty"`
	ExternalTriggerID string     `json:"external_trigger_id,omitempty"` // "": any
	WakeAt            *time.Time `json:"wake_at,omitempty"`
}

// Wait is the only authority on whether and for what its owner waits: the agent itself,
// or something that the agent works on. A message ends the waits of all owners that it
// fits.
type Wait struct {
	ID         string       `json:"id"`
	AgentID    string       `json:"agent_id"`
	Owner      string       `json:"owner"` // OwnerAgent, or the id of what waits, whose prefix says its kind
	Status     WaitStatus   `json:"status"`
	Kind       WaitKind     `json:"kind"`
	Source     string       `json:"source,omitempty"`
	SubjectRef string       `json:"subject_ref,omitempty"`
	WaitingFor string       `json:"waiting_for"` // for a person
	Wakes      []WakeSource `json:"wake_sources"`
	WakeAt     *time.Time   `json:"wake_at,omitempty"` // the earliest of Wakes
	ExpiresAt  *time.Time   `json:"expires_at,omitempty"`
	CallID     string       `json:"-"`                       // of the Sleep that made it, which makes it once
	Registered string       `json:"registered_by,omitempty"` // attempt
	MessageID  string       `json:"message_id,omitempty"`
	AttemptID  string       `json:"attempt_id,omitempty"`
	CreatedAt  time.Time    `json:"created_at"`
	UpdatedAt  time.Time    `json:"updated_at"`
	EndedAt    *time.Time   `json:"ended_at,omitempty"`
}

// OwnerAgent is the Owner of a wait of the agent itself.
const OwnerAgent = "agent"

func (w *Wait) Row() Row {
	return Row{"waits", "wait", 1, []Column{{"id", &w.ID}, {"agent_id", &w.AgentID}, {"call_id", &w.CallID},
		{"owner", w.Owner}, {"status", w.Status}, {"message_id", w.MessageID}, {"attempt_id", w.Registered},
		{"due_at", millisOrNil(w.due())}, {"created_at", millis(w.CreatedAt)}}}
}

// due is when an active wait has to be looked at: its wake or its expiry.
func (w *Wait) due() *time.Time {
	if w.WakeAt == nil || w.ExpiresAt != nil && w.ExpiresAt.Before(*w.WakeAt) {
		return w.ExpiresAt
	}
	return w.WakeAt
}

// Wait returns a wait.
func (v View) Wait(id string) (Wait, error) { return get[Wait](v, id) }

// UnresolvedWait returns the wait of an owner that is active or triggered. There is
// at most one.
func (v View) UnresolvedWait(agentID, owner string) (w Wait, ok bool, err error) {
	all, err := v.UnresolvedWaits(agentID)
	for _, w := range all {
		if w.Owner == owner {
			return w, true, nil
		}
	}
	return w, false, err
}

// UnresolvedWaits returns those of all owners within an agent, by owner.
func (v View) UnresolvedWaits(agentID string) ([]Wait, error) {
	return list[Wait](v, "unresolved waits", agentID)
}
