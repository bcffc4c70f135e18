package record

import (
	"strings"

	"holon/responses"
	"holon/state/ledger"
)

// Types of events that only the record has: an Agent Runtime class without an audit type. They are their own class.
const (
	ThreadStarted  = "thread.started"
	TurnSubmitted  = "turn.submitted"
	TurnFailed     = "turn.failed" // of one that was never begun, which has no terminal record
	ActionRequired = "action.required"
	ActionResolved = "action.resolved"

	ArtifactChanged = "artifact.changed" // a file that a turn left in its directory
	OutputExpired   = "output.expired"   // the directory of a turn is gone
	EvidenceChanged = "evidence.changed" // the record was exported

	RuntimeWarning       = "runtime.warning"
	HistoryReconstructed = "history.reconstructed" // what was lost was made up for, as far as that can be
)

// ContainerEvent is the type of the event with which a container comes to a phase.
func ContainerEvent(p ledger.ContainerPhase) string { return "holon.container." + string(p) }

// classes are the Agent Runtime classes of types of events (docs/reference/agent-record.md). Any other type is a class
// of the standard itself or has one of ours.
var classes = map[string]string{
	AgentCreated:           "session.created",
	AgentStateChanged:      "thread.updated",
	ClosureDecided:         "thread.updated",
	MessageAdmitted:        "queue.changed",
	MessageStarted:         "queue.changed",
	OperatorInterjection:   "queue.changed",
	QueueEntryRequeued:     "queue.changed",
	QueueEntryUnblocked:    "queue.changed",
	QueueEntrySettled:      "queue.changed",
	TurnContextBuilt:       "context.resolved",
	TurnStarted:            "turn.started",
	CurrentRunAborted:      "run.status",
	WaitRegistered:         "holon.wait.registered",
	WaitTriggered:          "holon.wait.triggered",
	WaitResolved:           "holon.wait.resolved",
	WaitCancelled:          "holon.wait.cancelled",
	WaitExpired:            "holon.wait.expired",
	WaitWithoutRecovery:    "runtime.warning",
	BriefCreated:           "holon.brief.created",
	NotificationRequested:  "holon.operator.notified",
	ContinuationResolved:   "holon.continuation.resolved",
	ModelOverrideRequested: "policy.changed",
	ModelClearRequested:    "policy.changed",
	ExternalTriggerCreated: "channel.connected",
	ExternalTriggerRevoked: "channel.disconnected",
	ExternalTriggerRotated: "holon.trigger.rotated",
	CallbackDelivered:      "channel.message",
	RuntimeError:           "runtime.error",
}

// Class is the Agent Runtime class of a type of events that always has the same.
func Class(typ string) string {
	if class, ok := classes[typ]; ok {
		return class
	}
	if strings.Contains(typ, ".") {
		return typ
	}
	return "holon." + typ
}

// SessionID, ThreadID, QueueID and ChannelID are ids of the record that follow from an agent or a trigger. The session
// is the one that agentd knows the conversation by.
func SessionID(agentID string) string   { return responses.PrefixSession + agentID }
func ThreadID(agentID string) string    { return "thread_" + agentID }
func QueueID(agentID string) string     { return "queue_" + agentID }
func ChannelID(triggerID string) string { return "channel_" + triggerID }

// TurnSuspended is the reason of an attempt whose turn the runtime ended to shut down.
const TurnSuspended = "suspended"

// TurnEnd is class and status of the end of a turn. cancelled says that somebody, or the runtime itself, ended it.
func TurnEnd(a ledger.AttemptStatus, kind ledger.TurnKind, cancelled bool) (class, status string) {
	switch {
	case cancelled:
		return "turn.failed", "cancelled"
	case a == ledger.AttemptInterrupted:
		return "turn.failed", "lost"
	case kind == ledger.TurnCompleted:
		return "turn.completed", "completed"
	}
	return "turn.failed", "failed"
}

// EntryStatus is the portable status of an entry of the queue that has left it.
func EntryStatus(s ledger.EntryStatus) string {
	switch s {
	case ledger.Processed, ledger.Interjected:
		return "completed"
	case ledger.Interrupted:
		return "lost"
	case ledger.Quarantined:
		return "failed"
	}
	return "cancelled"
}

// ThreadStatus is the portable status of an agent between turns. One that is stopped is blocked, and one that goes on
// by itself is queued.
func ThreadStatus(c ledger.Closure, stopped bool) string {
	switch {
	case stopped, c.Outcome == ledger.OutcomeWaiting:
		return "blocked"
	case c.Outcome == ledger.OutcomeFailed:
		return "failed"
	case c.Outcome == ledger.OutcomeContinuable:
		return "queued"
	}
	return "idle"
}

// AgentStatus is the portable status of an agent that was stopped or started, while a turn runs or not.
func AgentStatus(stopped, running bool) string {
	switch {
	case running:
		return "running"
	case stopped:
		return "blocked"
	}
	return "idle"
}
