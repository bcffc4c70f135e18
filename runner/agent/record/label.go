package record

import (
	"encoding/json"
	"strings"
	"sync"

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

// Categories of events, by which a client decides where to show one (runtime specification, "Local Operator Console
// Contract"). There are no others.
const (
	CategoryNotification = "operator_notification"
	CategoryBrief        = "brief"
	CategoryMessage      = "message"
	CategoryWork         = "work_item"
	CategoryTask         = "task"
	CategoryWaiting      = "waiting"
	CategoryWorkspace    = "workspace"
	CategoryRuntime      = "runtime"
	CategoryProgress     = "assistant_progress"
	CategoryTool         = "tool"
	CategoryState        = "state_sync"
	CategoryTrace        = "trace"
)

// Categories has them all.
var Categories = []string{CategoryNotification, CategoryBrief, CategoryMessage, CategoryWork, CategoryTask,
	CategoryWaiting, CategoryWorkspace, CategoryRuntime, CategoryProgress, CategoryTool, CategoryState, CategoryTrace}

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
	QueueEntryPromoted     = "queue_entry_promoted"
	TurnStarted            = "turn_started"
	TurnContextBuilt       = "turn_context_built"
	TurnTerminal           = "turn_terminal"
	AssistantRound         = "assistant_round_recorded"
	ProviderRound          = "provider_round_completed"
	ToolExecuted           = "tool_executed"
	CurrentRunAborted      = "current_run_aborted"
	BriefCreated           = "brief_created"
	NotificationRequested  = "operator_notification_requested"
	NotificationResolved   = "operator_notification_resolved"
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

	MemoryUpdated    = "working_memory_updated"
	EpisodeFinalized = "episode_memory_finalized"
	MemoryMarkdown   = "agent_memory_markdown"
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
	{QueueEntrySettled, "queue.changed", "status", LevelTrace, CategoryMessage},
	{MessageStarted, "queue.changed", "op=dequeue", LevelTrace, CategoryMessage},
	{OperatorInterjection, "queue.changed", "op=interject", LevelProgress, CategoryMessage},
	{QueueEntryRequeued, "queue.changed", "reason", LevelTrace, CategoryMessage},
	{QueueEntryBlocked, "holon.queue_entry_blocked", "", LevelActionRequired, CategoryMessage},
	{QueueEntryBlocked, "queue.changed", "code", LevelActionRequired, CategoryMessage},
	{QueueEntryPromoted, "queue.changed", "by", LevelProgress, CategoryMessage},
	{QueueEntryUnblocked, "queue.changed", "op=promote", LevelTrace, CategoryMessage},
	{MessageAdmitted, "queue.changed", "", LevelProgress, CategoryMessage},
	{QueueEntryQuarantined, "holon.queue_entry_quarantined", "", LevelActionRequired, CategoryMessage},
	{TurnStarted, "turn.started", "", LevelProgress, CategoryRuntime},
	{TurnContextBuilt, "context.resolved", "bytes", LevelTrace, CategoryTrace},
	{TurnTerminal, "turn.completed", "", LevelTrace, CategoryRuntime},
	{TurnTerminal, "turn.failed", "kind", LevelTrace, CategoryRuntime},
	{ProviderRound, "model.failed", "", LevelTrace, CategoryRuntime},
	{ProviderRound, "model.completed", "provider_attempt.purpose", LevelTrace, CategoryRuntime},
	{AssistantRound, "model.completed", "", LevelTrace, CategoryProgress},
	{ToolExecuted, "tool.result", "", LevelTrace, CategoryTool},
	{ToolExecuted, "tool.failed", "", LevelTrace, CategoryTool},
	{CurrentRunAborted, "run.status", "by", LevelProgress, CategoryRuntime},
	{BriefCreated, "holon.brief.created", "", LevelTurnResult, CategoryBrief},
	{NotificationRequested, "holon.operator.notified", "", LevelActionRequired, CategoryNotification},
	{NotificationResolved, "holon.operator.notification_resolved", "", LevelTrace, CategoryNotification},
	{MirrorFailed, "holon.operator.mirror_failed", "", LevelTurnResult, CategoryNotification},
	{DeliverySubmitted, "holon.operator.delivery_submitted", "", LevelTrace, CategoryNotification},
	{DeliveryCompleted, "holon.operator.delivery_completed", "", LevelProgress, CategoryNotification},
	{TransportBound, "holon.operator.transport_bound", "", LevelProgress, CategoryRuntime},
	{WaitRegistered, "holon.wait.registered", "", LevelProgress, CategoryWaiting},
	{WaitTriggered, "holon.wait.triggered", "", LevelTrace, CategoryWaiting},
	{WaitResolved, "holon.wait.resolved", "", LevelTrace, CategoryWaiting},
	{WaitCancelled, "holon.wait.cancelled", "", LevelTrace, CategoryWaiting},
	{WaitExpired, "holon.wait.expired", "", LevelProgress, CategoryWaiting},
	{WaitWithoutRecovery, "runtime.warning", "trigger", LevelActionRequired, CategoryWaiting},
	{RuntimeWarning, "runtime.warning", "component=skills", LevelTurnResult, CategoryRuntime},
	{RuntimeWarning, "runtime.warning", "component=mcp", LevelTurnResult, CategoryRuntime},
	{WakeRequested, "holon.wake_requested", "", LevelProgress, CategoryWaiting},
	{SystemTickEmitted, "holon.system_tick_emitted", "", LevelTrace, CategoryWaiting},
	{TimerCreated, "holon.timer_created", "", LevelProgress, CategoryWaiting},
	{TimerFired, "holon.timer_fired", "", LevelProgress, CategoryWaiting},
	{TimerCancelled, "holon.timer_cancelled", "", LevelProgress, CategoryWaiting},
	{ContinuationResolved, "holon.continuation.resolved", "", LevelTrace, CategoryRuntime},
	{ClosureDecided, "thread.updated", "outcome", LevelTrace, CategoryRuntime},
	{SchedulerDiagnostic, "holon.scheduler_diagnostic", "", LevelTrace, CategoryRuntime},
	{AgentCreated, "session.created", "", LevelTrace, CategoryState},
	{AgentStateChanged, "thread.updated", "", LevelTrace, CategoryState},
	{ModelOverrideRequested, "policy.changed", "model", LevelProgress, CategoryRuntime},
	{ModelClearRequested, "policy.changed", "", LevelProgress, CategoryRuntime},
	{ExternalTriggerCreated, "channel.connected", "", LevelProgress, CategoryRuntime},
	{ExternalTriggerRevoked, "channel.disconnected", "", LevelProgress, CategoryRuntime},
	{ExternalTriggerRotated, "holon.trigger.rotated", "", LevelProgress, CategoryRuntime},
	{CallbackDelivered, "channel.message", "", LevelTrace, CategoryMessage},
	{ControlApplied, "holon.control_applied", "", LevelProgress, CategoryRuntime},
	{ControlApplied, "session.updated", "action", LevelProgress, CategoryRuntime},
	{RuntimeError, "runtime.error", "", LevelTurnResult, CategoryRuntime},
	{WorkItemCompleted, "task.completed", "work_item", LevelWorkDone, CategoryWork},
	{WorkItemWritten, "task.*", "work_item", LevelProgress, CategoryWork},
	{WorkItemPicked, "holon.work_item_picked", "", LevelProgress, CategoryWork},
	{WorkItemReleased, "holon.work_item_focus_released", "", LevelTrace, CategoryWork},
	{WorkItemRechecked, "holon.work_item_recheck_consumed", "", LevelTrace, CategoryWork},
	{WorkTurnEnded, "holon.work_item_turn_end_committed", "", LevelTrace, CategoryWork},
	{WorkReportPromoted, "holon.work_item_completion_report_promoted", "", LevelTrace, CategoryWork},
	{WorkCompletionWarned, "holon.work_item_completion_warning", "", LevelTrace, CategoryWork},
	{WorkPlanRefreshed, "holon.work_item_plan_artifact_refreshed", "", LevelTrace, CategoryWork},
	{WorkspaceAttached, "holon.workspace.attached", "", LevelProgress, CategoryWorkspace},
	{WorkspaceUsed, "holon.workspace.used", "", LevelProgress, CategoryWorkspace},
	{WorkspaceExited, "holon.workspace.exited", "", LevelProgress, CategoryWorkspace},
	{WorkspaceDetached, "holon.workspace.detached", "", LevelProgress, CategoryWorkspace},
	{WorkspaceApplied, "holon.workspace.applied", "", LevelProgress, CategoryWorkspace},
	{WorkspaceSynced, "holon.workspace.synced", "", LevelProgress, CategoryWorkspace},
	{WorkspaceCheckedOut, "holon.workspace.checked_out", "", LevelProgress, CategoryWorkspace},
	{WorkspaceMerged, "holon.workspace.merged", "", LevelProgress, CategoryWorkspace},
	{WorktreeCreated, "holon.worktree.created", "", LevelTrace, CategoryWorkspace},
	{WorktreeEntered, "holon.worktree.entered", "", LevelTrace, CategoryWorkspace},
	{WorktreeExited, "holon.worktree.exited", "", LevelTrace, CategoryWorkspace},
	{WorktreeRemoved, "holon.worktree.removed", "", LevelTrace, CategoryWorkspace},
	{WorktreeRetained, "holon.worktree.retained", "", LevelProgress, CategoryWorkspace},
	{WorktreeFailed, "holon.worktree.failed", "", LevelTurnResult, CategoryWorkspace},
	{WorktreeMissing, "holon.worktree.missing", "", LevelTurnResult, CategoryWorkspace},
	{"work_item_stale_reminder_injected", "holon.reminder.injected", "", LevelTrace, CategoryWork},
	{"work_item_stale_reminder_skipped", "holon.reminder.skipped", "", LevelTrace, CategoryWork},
	{"task_created", "task.created", "", LevelProgress, CategoryTask},
	{TaskResultReceived, "task.completed", "", LevelProgress, CategoryTask},
	{TaskResultReceived, "task.failed", "", LevelProgress, CategoryTask},
	{TaskResultReceived, "task.timed_out", "", LevelProgress, CategoryTask},
	{TaskResultReceived, "task.cancelled", "", LevelProgress, CategoryTask},
	{TaskResultReceived, "task.lost", "", LevelProgress, CategoryTask},
	{ChildResumed, "task.updated", "reattached", LevelTrace, CategoryTask},
	{"task_status_updated", "task.*", "", LevelTrace, CategoryTask},
	{AgentSpawned, "holon.agent_spawned", "", LevelProgress, CategoryTask},
	{ChildNotified, "holon.child_notified", "", LevelProgress, CategoryTask},
	{"child_started", "subagent.spawned", "", LevelProgress, CategoryTask},
	{"child_input_delivered", "subagent.input", "", LevelProgress, CategoryTask},
	{"child_status_updated", "subagent.status", "", LevelProgress, CategoryTask},
	{"child_ended", "subagent.*", "", LevelTrace, CategoryTask},
	{BudgetSpent, "quota.blocked", "", LevelActionRequired, CategoryRuntime},
	{WorktreeEvent, "holon.task_worktree_changed", "", LevelProgress, CategoryWorkspace},
	{BudgetSet, "limit.changed", "", LevelProgress, CategoryRuntime},
	{MemoryUpdated, "holon.memory.updated", "", LevelTrace, CategoryState},
	{EpisodeFinalized, "holon.memory.episode_finalized", "", LevelTrace, CategoryState},
	{MemoryMarkdown, "holon.memory.file_changed", "", LevelTrace, CategoryState},
	{ModelDelta, ModelDelta, "", LevelProgress, CategoryProgress},
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
	data := sync.OnceValue(func() map[string]json.RawMessage { return members(e.Data) })
	for _, l := range labels {
		begin, many := strings.CutSuffix(l.Class, "*")
		if (e.Class == l.Class || many && strings.HasPrefix(e.Class, begin)) && l.fits(data) {
			return l
		}
	}
	return Label{Name: e.Class, Class: e.Class, Level: LevelTrace, Category: CategoryTrace}
}

func (l Label) fits(data func() map[string]json.RawMessage) bool {
	if l.Has == "" {
		return true
	}
	path, want, equal := strings.Cut(l.Has, "=")
	key, below, _ := strings.Cut(path, ".")
	value := data()[key]
	for below != "" {
		key, below, _ = strings.Cut(below, ".")
		value = members(value)[key]
	}
	return value != nil && (!equal || string(value) == `"`+want+`"`)
}

// members returns the members of a JSON object, and nil for any other value.
func members(data json.RawMessage) (of map[string]json.RawMessage) {
	if json.Unmarshal(data, &of) != nil {
		return nil
	}
	return of
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
