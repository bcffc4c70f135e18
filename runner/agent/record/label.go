package record

import (
	"encoding/json"
	"strings"

	"holon/state/ledger"
)

// Levels of events: how much an operator wants to see them.
const (
	LevelActionRequired = 1
	LevelWorkDone       = 2
	LevelTurnResult     = 3
	LevelProgress       = 4
	LevelTrace          = 5
)

// Audit names of events (runtime surface, "Audit event kinds").
const (
	MessageAdmitted        = "message_admitted"
	MessageStarted         = "message_processing_started"
	OperatorInterjection   = "operator_interjection_admitted"
	QueueEntryRequeued     = "queue_entry_requeued"
	QueueEntrySettled      = "queue_entry_settled"
	QueueEntryQuarantined  = "queue_entry_quarantined"
	QueueEntryBlocked      = "queue_entry_blocked"
	QueueEntryUnblocked    = "queue_entry_unblocked"
	TurnStarted            = "turn_started"
	TurnContextBuilt       = "turn_context_built"
	TurnTerminal           = "turn_terminal"
	AssistantRound         = "assistant_round_recorded"
	ProviderRound          = "provider_round_completed"
	ToolExecuted           = "tool_executed"
	CurrentRunAborted      = "current_run_aborted"
	BriefCreated           = "brief_created"
	NotificationRequested  = "operator_notification_requested"
	MirrorFailed           = "operator_notification_mirror_failed"
	DeliverySubmitted      = "operator_delivery_submitted"
	DeliveryCompleted      = "operator_delivery_completed"
	TransportBound         = "operator_transport_binding_upserted"
	WaitRegistered         = "wait_condition_registered"
	WaitTriggered          = "wait_condition_triggered"
	WaitResolved           = "wait_condition_resolved"
	WaitCancelled          = "wait_condition_cancelled"
	WaitExpired            = "wait_condition_expired"
	WaitWithoutRecovery    = "external_wait_without_recovery"
	WakeRequested          = "wake_requested"
	SystemTickEmitted      = "system_tick_emitted"
	TimerCreated           = "timer_created"
	TimerFired             = "timer_fired"
	TimerCancelled         = "timer_cancelled"
	ContinuationResolved   = "continuation_resolved"
	ClosureDecided         = "closure_decided"
	SchedulerDiagnostic    = "scheduler_diagnostic"
	AgentCreated           = "agent_created"
	AgentStateChanged      = "agent_state_changed"
	ModelOverrideRequested = "agent_model_override_requested"
	ModelClearRequested    = "agent_model_override_clear_requested"
	ExternalTriggerCreated = "external_trigger_created"
	ExternalTriggerRevoked = "external_trigger_revoked"
	ExternalTriggerRotated = "external_trigger_rotated"
	CallbackDelivered      = "callback_delivered"
	ControlApplied         = "control_applied"
	RuntimeError           = "runtime_error"
	WorkItemWritten        = "work_item_written"
	WorkItemPicked         = "work_item_picked"
	WorkItemReleased       = "work_item_focus_released"
	WorkItemCompleted      = "work_item_completed"
	WorkItemRechecked      = "work_item_recheck_consumed"
	WorkTurnEnded          = "work_item_turn_end_committed"
	WorkReportPromoted     = "work_item_completion_report_promoted"
	WorkCompletionWarned   = "work_item_completion_warning"
	WorkPlanRefreshed      = "work_item_plan_artifact_refreshed"
	TaskResultReceived     = "task_result_received"

	WorkspaceAttached   = "workspace_attached"
	WorkspaceUsed       = "workspace_used"
	WorkspaceExited     = "workspace_exited"
	WorkspaceDetached   = "workspace_detached"
	WorkspaceApplied    = "workspace_applied"
	WorkspaceSynced     = "workspace_synced"
	WorkspaceCheckedOut = "workspace_checked_out"
	WorkspaceMerged     = "workspace_merged"
	WorktreeCreated     = "worktree_created"
	WorktreeEntered     = "worktree_entered"
	WorktreeExited      = "worktree_exited"
	WorktreeRemoved     = "worktree_cleanup_removed"
	WorktreeRetained    = "worktree_cleanup_retained"
	WorktreeFailed      = "worktree_cleanup_failed"
	WorktreeMissing     = "recovery_cleared_missing_worktree_session"

	AgentSpawned  = "agent_spawned"
	ChildNotified = "child_notification_mirrored"
	ChildResumed  = "supervised_child_task_monitor_reattached"
	BudgetSpent   = "budget_spent"
	BudgetSet     = "budget_set"
	WorktreeEvent = "task_worktree_metadata_recorded"
	BudgetCharged = "budget_charged"
)

// Label is what the runtime's surface calls the events of a class, or those of its events whose payload has a key.
// Level is that of an event unless what happened says otherwise.
type Label struct {
	Name     string
	Class    string // or the beginning of classes and *
	Has      string // a key of the payload, with dots in objects, or key=text; "": all events of the class
	Level    int
	Category string
}

// labels resolves classes and labels, the first that fits. docs/reference/agent-record.md has what the payloads hold.
var labels = []Label{
	{QueueEntrySettled, "queue.changed", "status", LevelTrace, "message"},
	{MessageStarted, "queue.changed", "op=dequeue", LevelTrace, "message"},
	{OperatorInterjection, "queue.changed", "op=interject", LevelProgress, "message"},
	{QueueEntryRequeued, "queue.changed", "reason", LevelTrace, "message"},
	{QueueEntryBlocked, "holon.queue_entry_blocked", "", LevelActionRequired, "message"},
	{QueueEntryBlocked, "queue.changed", "code", LevelActionRequired, "message"},
	{QueueEntryUnblocked, "queue.changed", "op=promote", LevelTrace, "message"},
	{MessageAdmitted, "queue.changed", "", LevelProgress, "message"},
	{QueueEntryQuarantined, "holon.queue_entry_quarantined", "", LevelActionRequired, "message"},
	{TurnStarted, "turn.started", "", LevelProgress, "runtime"},
	{TurnContextBuilt, "context.resolved", "bytes", LevelTrace, "context"},
	{TurnTerminal, "turn.completed", "", LevelTrace, "runtime"},
	{TurnTerminal, "turn.failed", "kind", LevelTrace, "runtime"},
	{ProviderRound, "model.failed", "", LevelTrace, "runtime"},
	{ProviderRound, "model.completed", "provider_attempt.purpose", LevelTrace, "runtime"},
	{AssistantRound, "model.completed", "", LevelTrace, "assistant_progress"},
	{ToolExecuted, "tool.result", "", LevelProgress, "tool"},
	{ToolExecuted, "tool.failed", "", LevelProgress, "tool"},
	{CurrentRunAborted, "run.status", "by", LevelProgress, "control"},
	{BriefCreated, "holon.brief.created", "", LevelTurnResult, "brief"},
	{NotificationRequested, "holon.operator.notified", "", LevelActionRequired, "operator_notification"},
	{MirrorFailed, "holon.operator.mirror_failed", "", LevelTurnResult, "operator_notification"},
	{DeliverySubmitted, "holon.operator.delivery_submitted", "", LevelTrace, "delivery"},
	{DeliveryCompleted, "holon.operator.delivery_completed", "", LevelProgress, "delivery"},
	{TransportBound, "holon.operator.transport_bound", "", LevelProgress, "configuration"},
	{WaitRegistered, "holon.wait.registered", "", LevelProgress, "waiting"},
	{WaitTriggered, "holon.wait.triggered", "", LevelTrace, "waiting"},
	{WaitResolved, "holon.wait.resolved", "", LevelTrace, "waiting"},
	{WaitCancelled, "holon.wait.cancelled", "", LevelTrace, "waiting"},
	{WaitExpired, "holon.wait.expired", "", LevelProgress, "waiting"},
	{WaitWithoutRecovery, "runtime.warning", "trigger", LevelActionRequired, "waiting"},
	{WakeRequested, "holon.wake_requested", "", LevelProgress, "waiting"},
	{SystemTickEmitted, "holon.system_tick_emitted", "", LevelTrace, "waiting"},
	{TimerCreated, "holon.timer_created", "", LevelProgress, "waiting"},
	{TimerFired, "holon.timer_fired", "", LevelProgress, "waiting"},
	{TimerCancelled, "holon.timer_cancelled", "", LevelProgress, "waiting"},
	{ContinuationResolved, "holon.continuation.resolved", "", LevelTrace, "runtime"},
	{ClosureDecided, "thread.updated", "outcome", LevelTrace, "runtime"},
	{SchedulerDiagnostic, "holon.scheduler_diagnostic", "", LevelTrace, "runtime"},
	{AgentCreated, "session.created", "", LevelProgress, "state_sync"},
	{AgentStateChanged, "thread.updated", "", LevelProgress, "state_sync"},
	{ModelOverrideRequested, "policy.changed", "model", LevelProgress, "configuration"},
	{ModelClearRequested, "policy.changed", "", LevelProgress, "configuration"},
	{ExternalTriggerCreated, "channel.connected", "", LevelProgress, "configuration"},
	{ExternalTriggerRevoked, "channel.disconnected", "", LevelProgress, "configuration"},
	{ExternalTriggerRotated, "holon.trigger.rotated", "", LevelProgress, "configuration"},
	{CallbackDelivered, "channel.message", "", LevelTrace, "delivery"},
	{ControlApplied, "holon.control_applied", "", LevelProgress, "control"},
	{ControlApplied, "session.updated", "action", LevelProgress, "control"},
	{RuntimeError, "runtime.error", "", LevelTurnResult, "runtime"},
	{WorkItemCompleted, "task.completed", "work_item", LevelWorkDone, "work"},
	{WorkItemWritten, "task.*", "work_item", LevelProgress, "work"},
	{WorkItemPicked, "holon.work_item_picked", "", LevelProgress, "work"},
	{WorkItemReleased, "holon.work_item_focus_released", "", LevelTrace, "work"},
	{WorkItemRechecked, "holon.work_item_recheck_consumed", "", LevelTrace, "work"},
	{WorkTurnEnded, "holon.work_item_turn_end_committed", "", LevelTrace, "work"},
	{WorkReportPromoted, "holon.work_item_completion_report_promoted", "", LevelTrace, "work"},
	{WorkCompletionWarned, "holon.work_item_completion_warning", "", LevelTrace, "work"},
	{WorkPlanRefreshed, "holon.work_item_plan_artifact_refreshed", "", LevelTrace, "work"},
	{WorkspaceAttached, "holon.workspace.attached", "", LevelProgress, "workspace"},
	{WorkspaceUsed, "holon.workspace.used", "", LevelProgress, "workspace"},
	{WorkspaceExited, "holon.workspace.exited", "", LevelProgress, "workspace"},
	{WorkspaceDetached, "holon.workspace.detached", "", LevelProgress, "workspace"},
	{WorkspaceApplied, "holon.workspace.applied", "", LevelProgress, "workspace"},
	{WorkspaceSynced, "holon.workspace.synced", "", LevelProgress, "workspace"},
	{WorkspaceCheckedOut, "holon.workspace.checked_out", "", LevelProgress, "workspace"},
	{WorkspaceMerged, "holon.workspace.merged", "", LevelProgress, "workspace"},
	{WorktreeCreated, "holon.worktree.created", "", LevelTrace, "workspace"},
	{WorktreeEntered, "holon.worktree.entered", "", LevelTrace, "workspace"},
	{WorktreeExited, "holon.worktree.exited", "", LevelTrace, "workspace"},
	{WorktreeRemoved, "holon.worktree.removed", "", LevelTrace, "workspace"},
	{WorktreeRetained, "holon.worktree.retained", "", LevelProgress, "workspace"},
	{WorktreeFailed, "holon.worktree.failed", "", LevelTurnResult, "workspace"},
	{WorktreeMissing, "holon.worktree.missing", "", LevelTurnResult, "workspace"},
	{"work_item_stale_reminder_injected", "holon.reminder.injected", "", LevelTrace, "work"},
	{"work_item_stale_reminder_skipped", "holon.reminder.skipped", "", LevelTrace, "work"},
	{"task_created", "task.created", "", LevelProgress, "task"},
	{TaskResultReceived, "task.completed", "", LevelProgress, "task"},
	{TaskResultReceived, "task.failed", "", LevelProgress, "task"},
	{TaskResultReceived, "task.timed_out", "", LevelProgress, "task"},
	{TaskResultReceived, "task.cancelled", "", LevelProgress, "task"},
	{TaskResultReceived, "task.lost", "", LevelProgress, "task"},
	{ChildResumed, "task.updated", "reattached", LevelTrace, "task"},
	{"task_status_updated", "task.*", "", LevelTrace, "task"},
	{AgentSpawned, "holon.agent_spawned", "", LevelProgress, "task"},
	{ChildNotified, "holon.child_notified", "", LevelProgress, "task"},
	{"child_started", "subagent.spawned", "", LevelProgress, "task"},
	{"child_input_delivered", "subagent.input", "", LevelProgress, "task"},
	{"child_status_updated", "subagent.status", "", LevelProgress, "task"},
	{"child_ended", "subagent.*", "", LevelTrace, "task"},
	{BudgetSpent, "holon.budget_spent", "", LevelActionRequired, "runtime"},
	{WorktreeEvent, "holon.task_worktree_changed", "", LevelProgress, "workspace"},
	{BudgetCharged, "holon.budget_charged", "", LevelTrace, "runtime"},
	{BudgetSet, "holon.budget_set", "", LevelProgress, "configuration"},
	{ModelDelta, ModelDelta, "", LevelProgress, "assistant_progress"},
}

// Class is the class of the events of a label, unless they say another. A class that has no label is its own.
func Class(name string) string {
	for _, l := range labels {
		if l.Name == name {
			return l.Class
		}
	}
	return name
}

// Of returns the label of an event, which is its class where there is no other.
func Of(e ledger.Event) Label {
	for _, l := range labels {
		begin, many := strings.CutSuffix(l.Class, "*")
		if (e.Class == l.Class || many && strings.HasPrefix(e.Class, begin)) && l.fits(e.Data) {
			return l
		}
	}
	return Label{Name: e.Class, Class: e.Class, Level: LevelTrace, Category: "record"}
}

func (l Label) fits(data json.RawMessage) bool {
	if l.Has == "" {
		return true
	}
	path, want, equal := strings.Cut(l.Has, "=")
	for key := range strings.SplitSeq(path, ".") {
		var fields map[string]json.RawMessage
		if json.Unmarshal(data, &fields) != nil || fields[key] == nil {
			return false
		}
		data = fields[key]
	}
	return !equal || string(data) == `"`+want+`"`
}

// BriefLevel is the level of the event of a brief: it asks for action when the agent waits for its operator.
func BriefLevel(c ledger.Closure, ack bool) int {
	switch {
	case c.WaitingReason == ledger.AwaitingOperator:
		return LevelActionRequired
	case ack:
		return LevelProgress
	}
	return LevelTurnResult
}
