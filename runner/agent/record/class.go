package record

import (
	"holon/state/ledger"
)

// Classes of events of the host that have no audit name.
const (
	ThreadStarted  = "thread.started"
	ModelDelta     = "model.delta" // text of the model, which the container tells as an item of the response
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

// Keys of an event's data that hold a copy of the record that it is about, as it was then. KeyClipped has those of
// texts that there was no room for.
const (
	RecordMessage      = "message_record"        // a ledger.Message
	RecordBrief        = "brief"                 // a ledger.Brief
	RecordNotification = "operator_notification" // a ledger.Notification
	KeyClipped         = "clipped"
	RecordWait         = "wait_condition"   // a ledger.Wait
	RecordTimer        = "timer"            // a ledger.Timer
	RecordTrigger      = "external_trigger" // a ledger.Trigger
	RecordWork         = "work_item"        // a ledger.WorkItem
	RecordTask         = "task"             // a ledger.Task without its output
	RecordWorkspace    = "workspace"        // a ledger.Workspace
	RecordTree         = "worktree"         // a ledger.Tree without what the host finds it by
)

// Copies are the keys of copies that a view has in places of their own.
var Copies = []string{RecordMessage, RecordBrief, RecordNotification, RecordWait, RecordTimer, RecordTrigger,
	RecordWork, KeyClipped}

// ContainerEvent is the class of the event with which a container comes to a phase.
func ContainerEvent[Phase ~string](p Phase) string { return "holon.container." + string(p) }

// ThreadID, QueueID and ChannelID are ids of the record that follow from an agent or a trigger.
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
