package turns

import (
	"holon/internal/redact"
	"holon/responses"
)

// ToolNames are the constants that the names of a turn's tools are.
func ToolNames(names []string) redact.Constants {
	return redact.Constants{"name": names, "tool_name": names, "source": names}
}

// NamesOfTools returns the names of tools, and of those that items call. Redaction leaves them alone.
func NamesOfTools(tools []responses.Tool, items []responses.Item) (names []string) {
	for _, tool := range tools {
		names = append(names, tool.Name)
	}
	for _, item := range items {
		switch item := item.(type) {
		case *responses.FunctionCall:
			names = append(names, item.Name)
		case *responses.ToolCall:
			names = append(names, item.Name)
		}
	}
	return names
}

// Structure is Constants, and the members of the wire and of the files of a turn whose
// values are ids, times, paths, digests or names of models. They stay whatever they
// are: without them a record cannot be read.
var Structure = Recorded.With(structural("path"))

// Recorded is what stays in the record of an agent: Structure without the paths of files, which an agent may name as it
// likes.
var Recorded = Constants.With(structural("id", "item_id", "call_id", "response_id", "previous_response_id",
	"session_id", "turn_id", "event_id", "causation_id", "runtime_id", "thread_id", "step_id", "task_id", "run_id",
	"tool_call_id", "cause_tool_call_id", "model_request_id", "process_id", "trace_id", "span_id", "traceparent",
	"action_id", "payload_ref", "text_ref",
	"egress_id", "input_id", "skill_id", "native_request_id", "instance", "version", "agentd_version", "epoch", "time",
	"timestamp", "created_at", "started_at", "completed_at", "updated_at", "turn_dir", "work_dir",
	"artifact_dir", "stdout_path", "stderr_path", "output_path", "entrypoint_path", "sha256", "digest", "revision",
	"inventory_ref", "cmd_digest", "request_digest", "fingerprint", "frame_fingerprint", "encrypted_content", "model",
	"model_name", "model_ref", "active_model_ref", "requested_model_ref", "winning_model_ref", "provider",
	"provider_name"))

// structural returns constants that are every value of the members.
func structural(members ...string) redact.Constants {
	all := make(redact.Constants)
	for _, name := range members {
		all[name] = []string{redact.Any}
	}
	return all
}

// Constants are the values that the wire and the files of a turn define for their
// members. A secret that equals one of them does not make them unreadable: it is
// hidden everywhere else.
var Constants = redact.Constants{
	"type": {
		responses.EventCreated, responses.EventQueued, responses.EventInProgress, responses.EventCompleted,
		responses.EventFailed, responses.EventIncomplete, responses.EventItemAdded, responses.EventItemDone,
		responses.EventPartAdded, responses.EventPartDone, responses.EventTextDelta, responses.EventTextDone,
		responses.EventAnnotationAdded, responses.EventRefusalDelta, responses.EventRefusalDone,
		responses.EventArgumentsDelta, responses.EventArgumentsDone, responses.EventReasoningDelta,
		responses.EventReasoningDone, responses.EventReasoningSummaryPartAdded,
		responses.EventReasoningSummaryPartDone, responses.EventReasoningSummaryTextDelta,
		responses.EventReasoningSummaryTextDone, responses.EventError, responses.ItemMessage,
		responses.ItemFunctionCall, responses.ItemFunctionCallOutput, responses.ItemReasoning,
		responses.ItemCompaction, responses.ItemReferenceType, responses.ItemToolCall, responses.PartInputText,
		responses.PartInputImage, responses.PartInputFile, responses.PartInputVideo, responses.PartOutputText,
		responses.PartRefusal, responses.PartReasoningText, responses.PartSummaryText, responses.PartText,
		string(responses.TypeInvalidRequest), string(responses.TypeNotFound), string(responses.TypeTooManyRequests),
		string(responses.TypeModelError), string(responses.TypeServerError), ThreadStarted, TurnSubmitted, TurnStarted,
		TurnCompleted, TurnFailed, ModelRequested, ModelCompleted, ModelFailed, ToolStarted, ToolResult, ToolFailed,
		RuntimeWarning, RuntimeError, ContextResolved, CompactionBegun, ContextCompacted, CompactionFailed,
		RoutingDecided, FallbackApplied, CostRecorded, RateLimitHit, TaskCreated, TaskAccepted, TaskStarted,
		TaskCompleted, TaskFailed, TaskTimedOut, TaskCancelAsked, TaskCancelled, TaskLost, inputAccepted, InputInserted,
		egressDecided, egressClosed, egressMore, skillActivated, CatalogResolved, PermissionDecided,
		SandboxApplied, SandboxViolated, OutputTruncated, ReminderInjected, ReminderSkipped, ProcessStarted,
		ProcessInput, ProcessCompleted, ProcessFailed, ProcessTerminated, ActionRequired, ActionResolved,
		ReasoningDelta, ReasoningSummary,
		"function", "allowed_tools", "json_object", "json_schema", // echoed from a request
	},
	"tool_choice": {"required"},
	"mode":        {"required", ModeExternal, ModeUnconfined},
	"summary":     {"detailed"}, // of reasoning
	"host":        {"server", HostClient}, "policy": {DecisionAllow, DecisionDeny},
	"runtime_owner":      {OwnerAgentd, OwnerMCP, OwnerHost, OwnerClient},
	"interrupt_behavior": {InterruptCancel, InterruptFinish},
	"decision":           {DecisionDeny, decisionAnswered},
	"decision_source":    {"rule"}, "axis": {"filesystem"}, "by": {ByUser, ByPolicy, ByParentCancel, ByShutdown},
	"action_type": {actionClientOutput}, "resolved_by": {HostClient}, "via": {viaRespondAction},
	"filesystem": {EnforcementUnknown}, "network": {EnforcementUnknown}, "process": {EnforcementUnknown},
	"secret": {EnforcementUnknown},
	"status": {
		string(responses.StatusQueued), string(responses.StatusInProgress), string(responses.StatusCompleted),
		string(responses.StatusFailed), string(responses.StatusIncomplete), string(responses.StatusCancelled),
		StatusWaitingInput,
		StatusIdle, StatusDraft, StatusAccepted, StatusRunning, StatusCancelling, StatusTimedOut, StatusLost,
	},
	"role": {string(responses.RoleUser), string(responses.RoleAssistant), string(responses.RoleSystem),
		string(responses.RoleDeveloper)},
	"phase":  {string(responses.PhaseCommentary), string(responses.PhaseFinalAnswer)},
	"object": {"response", "response.compaction"},
	"code": {
		responses.CodeInvalidJSON, responses.CodeInvalidValue, responses.CodeMissingParameter,
		responses.CodeUnsupportedParameter, responses.CodeUnsupportedMediaType, responses.CodeRequestTooLarge,
		responses.CodeModelNotFound, responses.CodeMissingCredentials, responses.CodePathOutsideRoot,
		responses.CodePreviousNotFound, responses.CodeCallNotFound, responses.CodeItemNotFound,
		responses.CodeTurnConflict, responses.CodeTurnNotFound, responses.CodeTurnEnded, responses.CodeInputConflict,
		responses.CodeIdempotencyConflict, responses.CodeResponseInProgress, responses.CodePreviousInProgress,
		responses.CodeRequestTimeout,
		responses.CodeNotFound, responses.CodeMethodNotAllowed, responses.CodeUnauthorized, responses.CodeForbidden,
		responses.CodeQueueFull, responses.CodeDraining, responses.CodeDiskFull, responses.CodeInterrupted,
		responses.CodeCancelled, responses.CodeDeadline, responses.CodeServerError, responses.CodeServerUnreachable,
		responses.CodeServerDisconnected, responses.CodeModelError, responses.CodeContextLength,
		responses.CodeCompactionUnreadable, responses.CodeConnectionLimit, responses.CodeRateLimit,
		responses.CodeToolChoiceUnmet, responses.CodeToolNotAllowed, responses.CodeStructuredOutput,
		responses.CodeScenarioInvalid, responses.CodeScenarioDiverged, responses.CodeScenarioNotFound,
		responses.CodeProviderUnavailable, responses.CodeProviderAuthentication, responses.CodeTurnTokenRequired,
		responses.CodeTurnTokenExpired, responses.CodeModelNotAllowed, responses.CodeBudgetExceeded,
		responses.CodeMCPNotAllowed, responses.CodeMCPUnavailable,
	},
	"reason": {
		responses.ReasonMaxOutputTokens, responses.ReasonContentFilter, responses.ReasonMaxRounds,
		responses.ReasonMaxToolCalls, responses.ReasonMaxOutputBytes, responses.ReasonTimeout,
		responses.ReasonBudget, responses.ReasonEmptyAnswer, responses.ReasonShutdown, responses.ReasonCancelled,
	},
	"category": {
		FailureTransport, FailureProtocol, FailureRuntime, FailureUnknown,
	},
	"failure_category": {
		"invalid_input", "permission_denied", "sandbox_violation", "not_found", "cancelled", "interrupted",
		"execution_error", "unavailable", "time_limit", "timeout", "lost",
	},
	"outcome": {
		OutcomeSucceeded, OutcomeRetrying, OutcomeExhausted, OutcomeFailFast,
	},
	"cache_broken": {
		CacheFirst, CacheModel, CacheFrame, CacheCompacted, CacheHistory, CacheShort, CacheMissed,
	},
	"schema":         {recordSchema},
	"schema_version": {eventSchema},
	"truncation":     {"disabled"},
}
