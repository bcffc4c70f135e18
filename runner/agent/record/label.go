package record

import (
	"holon/responses/agentruntime"
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

// EventType describes a type of event. Level is what events of the type have
// unless what happened says otherwise.
type EventType struct {
	Name     string
	Level    int
	Category string
	Doc      string // what happened, and the fields of its data
}

// The types of events (runtime surface, "Audit event kinds").
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
	WorkReminderInjected   = "work_item_stale_reminder_injected"
	WorkReminderSkipped    = "work_item_stale_reminder_skipped"
	TaskCreated            = "task_created"
	TaskStatusUpdated      = "task_status_updated"
	TaskResultReceived     = "task_result_received"
)

// events is the registry, in the order in which it is documented.
var events = []EventType{
	{MessageAdmitted, LevelProgress, "message", "A message is in the queue. kind, priority, sender, op, entry."},
	{MessageStarted, LevelTrace, "message", "An attempt claimed a message. attempt_id, readmitted, op, entry."},
	{OperatorInterjection, LevelProgress, "message",
		"A prompt of the operator was offered to the turn that runs. attempt_id."},
	{QueueEntryRequeued, LevelTrace, "message", "A message is in the queue again. op, entry, reason."},
	{QueueEntrySettled, LevelTrace, "message", "A message came to its end. status, reason, op, entry."},
	{QueueEntryQuarantined, LevelActionRequired, "message",
		"No turn could be begun for a message; it is not tried again. failed, code."},
	{QueueEntryUnblocked, LevelTrace, "message", "A blocked message may be tried again. op, entry."},
	{QueueEntryBlocked, LevelActionRequired, "message",
		"No turn can be begun for a message before a setting changes, or the operator lets its agent go on. code, summary."},

	{TurnStarted, LevelProgress, "runtime",
		"The container accepted a turn. attempt_id, turn_index, previous_response_id."},
	{TurnContextBuilt, LevelTrace, "context", "The prompt of a turn was assembled. frame_digest, bytes."},
	{TurnTerminal, LevelTrace, "runtime",
		"A turn came to its end. kind, reason, turn_index, duration_ms, model_rounds, tool_calls, usage, failure_category."},
	{AssistantRound, LevelProgress, "assistant_progress",
		"The model answered a round. round, text_preview, tool_call_ids, token_usage, and what the turn tells of it."},
	{ProviderRound, LevelTrace, "runtime", "A provider answered a request. What the turn tells of it."},
	{ToolExecuted, LevelProgress, "tool", "A tool ran. call, files, exit_code, and what the turn tells of it."},
	{CurrentRunAborted, LevelProgress, "control", "Somebody asked to end the turn that runs. by, mode."},

	{BriefCreated, LevelTurnResult, "brief",
		"The agent told its operator something. kind, summary, chars, work_item_id; duplicate_of when that was told before."},
	{NotificationRequested, LevelActionRequired, "operator_notification",
		"The operator should see something. notification_id, boundary, summary; duplicate_of when that was told before."},

	{WaitRegistered, LevelProgress, "waiting", "The agent waits. kind, wake_at, replaces."},
	{WaitTriggered, LevelTrace, "waiting", "The message that ends a wait is in the queue. kind."},
	{WaitResolved, LevelTrace, "waiting", "The message that ended a wait was claimed. attempt_id."},
	{WaitCancelled, LevelTrace, "waiting", "A wait was given up. reason."},
	{WaitExpired, LevelProgress, "waiting", "A wait came to its time without anything ending it."},
	{WaitWithoutRecovery, LevelActionRequired, "waiting", "Nothing ends a wait any more. trigger."},
	{WakeRequested, LevelProgress, "waiting",
		"The agent was asked to look. disposition, reason, source, external_trigger_id."},
	{SystemTickEmitted, LevelTrace, "waiting", "A wake hint became a message. contentful, coalesced."},

	{TimerCreated, LevelProgress, "waiting", "A timer was made. duration_ms, interval_ms, next_fire_at."},
	{TimerFired, LevelProgress, "waiting", "A timer came due. fire_count, coalesced, status."},
	{TimerCancelled, LevelProgress, "waiting", "A timer was cancelled."},

	{ContinuationResolved, LevelTrace, "runtime",
		"What a message means was decided. class, trigger_kind, model_reentry, matched_waiting_reason, " +
			"prior_closure_outcome, prior_waiting_reason, evidence."},
	{ClosureDecided, LevelTrace, "runtime",
		"What the end of the newest turn means was decided, or is another thing now. outcome, waiting_reason, " +
			"runtime_posture, work_signal, evidence."},
	{SchedulerDiagnostic, LevelTrace, "runtime",
		"A message went back to the queue. code (readmitted, suspended, retry_scheduled, requeued), failed, retry_at."},

	{AgentCreated, LevelProgress, "state_sync", "An agent was made. kind, template."},
	{AgentStateChanged, LevelProgress, "state_sync",
		"An agent was stopped or started, or its image was set. status, image, by."},
	{ModelOverrideRequested, LevelProgress, "configuration",
		"The model of an agent's next turns was set. model, reasoning_effort."},
	{ModelClearRequested, LevelProgress, "configuration", "An agent uses the runtime's model again."},
	{ExternalTriggerCreated, LevelProgress, "configuration", "An external trigger was made."},
	{ExternalTriggerRevoked, LevelProgress, "configuration", "An external trigger ends nothing any more."},
	{ExternalTriggerRotated, LevelProgress, "configuration",
		"An external trigger got a new token; the old one is unknown now."},
	{CallbackDelivered, LevelTrace, "delivery",
		"Something came to an external trigger. disposition, source, resource, content_type, deprecated_mode."},
	{ControlApplied, LevelProgress, "control", "An agent was stopped, started, renewed or removed. action, by."},
	{
		RuntimeError,
		LevelTurnResult,
		"runtime",
		"Something of an agent failed. phase, code, summary, provider_attempt_timeline, token_usage.",
	},

	{
		WorkItemWritten,
		LevelProgress,
		"work",
		"A work item was made or changed. op (create, start, update), work_item_id, item.",
	},
	{WorkItemPicked, LevelProgress, "work", "A work item became the agent's current one. work_item_id, item."},
	{WorkItemReleased, LevelTrace, "work", "A work item is not the current one any more. work_item_id, reason, item."},
	{WorkItemCompleted, LevelWorkDone, "work", "A work item is completed. work_item_id, item."},
	{WorkItemRechecked, LevelTrace, "work", "The blocker of a work item is to be looked at. work_item_id, item."},
	{WorkTurnEnded, LevelTrace, "work",
		"A turn that began with a current work item has ended. work_item_id, scheduling_state, worked."},
	{WorkReportPromoted, LevelTrace, "work",
		"The text beside a completion became the report of the work item. work_item_id, delivery_summary_id, chars, item."},
	{WorkCompletionWarned, LevelTrace, "work", "A completion has no report. work_item_id, code, item."},
	{WorkPlanRefreshed, LevelTrace, "work", "The plan of a work item changed. work_item_id, hash, bytes."},
	{WorkReminderInjected, LevelTrace, "work",
		"A model was reminded of the current item in a long turn. round, rounds_since, estimated_tokens."},
	{WorkReminderSkipped, LevelTrace, "work",
		"A request had no room for that reminder. round, rounds_since, estimated_tokens."},

	{TaskCreated, LevelProgress, "task", "A command goes on as a task. task, task_kind, objective, source, turn_id."},
	{TaskStatusUpdated, LevelTrace, "task",
		"A task was accepted, runs, is being stopped, or its result came to a turn. task, delivery_state."},
	{TaskResultReceived, LevelProgress, "task",
		"A task has ended. task, native_status, failure_category, message, exit_status, output_ref, duration_ms."},
}

// Event returns the type of a name. A class of the Agent Runtime standard, or one of ours, is a type of level trace.
func Event(name string) (EventType, bool) {
	for _, t := range events {
		if t.Name == name {
			return t, true
		}
	}
	if _, ok := agentruntime.ClassOf(name); ok || agentruntime.IsVendor(name) {
		return EventType{
			Name:     name,
			Level:    LevelTrace,
			Category: "record",
			Doc:      "As the Agent Runtime standard has it.",
		}, true
	}
	return EventType{}, false
}

// BriefLevel is the level of the event of a brief: it asks for action when the
// agent waits for its operator.
func BriefLevel(c ledger.Closure, ack bool) int {
	switch {
	case c.WaitingReason == ledger.AwaitingOperator:
		return LevelActionRequired
	case ack:
		return LevelProgress
	}
	return LevelTurnResult
}
