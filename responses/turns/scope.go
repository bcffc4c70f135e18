package turns

import (
	"encoding/json"
	"time"

	"holon/internal/tracecontext"
	"holon/responses"
)

// Scope makes the events of one turn. It fills type, event id, time, schema and
// ids, and cuts long text so that a payload stays small. Sequence stays zero:
// the log gives it on append, which alone knows the order. A Scope is a value
// and may be used by several goroutines if its clock may.
type Scope struct {
	RuntimeID string // the installation of agentd
	SessionID string
	ThreadID  string // "" when it is unknown
	TurnID    string
	Trace     tracecontext.Span // of the turn; zero when it is not traced
	Now       func() time.Time  // time.Now when nil
}

// thread is the payload of thread.started.
type thread struct {
	Kind       string `json:"kind"`                 // main or fork
	ForkedFrom *Fork  `json:"forked_from,omitzero"` // of a fork
}

// Fork is where a thread left another one.
type Fork struct {
	ThreadID   string `json:"thread_id"`
	TurnID     string `json:"turn_id"`
	ResponseID string `json:"response_id"`
}

// ThreadStarted opens the thread, before its first turn.
func (s Scope) ThreadStarted(from *Fork) RuntimeEvent {
	p := thread{Kind: "main", ForkedFrom: from}
	if from != nil {
		p.Kind = "fork"
	}
	s.TurnID = ""
	return s.Event(ThreadStarted, p)
}

// Submitted is the payload of turn.submitted.
type Submitted struct {
	Source             string `json:"source"` // responses, run or operator
	InputRef           string `json:"input_ref,omitzero"`
	ResponseID         string `json:"response_id"`
	PreviousResponseID string `json:"previous_response_id,omitzero"`
	RequestDigest      string `json:"request_digest"`
	Instance           string `json:"instance,omitzero"`    // the agentd process
	Traceparent        string `json:"traceparent,omitzero"` // of the request: the span above the turn's
}

// TurnSubmitted says that a turn was recorded; queued says that it must wait.
func (s Scope) TurnSubmitted(p Submitted, queued bool) RuntimeEvent {
	e := s.Event(TurnSubmitted, p)
	if queued {
		e.Status = "queued"
	}
	return e
}

// Started is the payload of turn.started.
type Started struct {
	Attempt     int    `json:"attempt"` // 1: turns are never replayed
	QueueWaitMS int64  `json:"queue_wait_ms"`
	Model       string `json:"model"`
	WorkDir     string `json:"work_dir,omitzero"` // a path inside the container

	Environment *Environment `json:"environment,omitzero"`
}

// Environment is where the tools of a turn work. Paths are those inside the container.
type Environment struct {
	OutputDir string `json:"output_dir"`
	InputDir  string `json:"input_dir,omitzero"`
	Isolation string `json:"isolation"` // none, or the kind of a private tree: copy, worktree
	OS        string `json:"os,omitzero"`
	Arch      string `json:"arch,omitzero"`
	Shell     string `json:"shell,omitzero"` // that runs commands which name none
}

// Completed is the payload of turn.completed.
type Completed struct {
	TerminalKind string   `json:"terminal_kind"` // answered, or client_tools: function calls wait for the client
	ResponseID   string   `json:"response_id"`
	DurationMS   int64    `json:"duration_ms"`
	Rounds       int      `json:"rounds"`
	ToolCalls    int      `json:"tool_calls"`
	Usage        Usage    `json:"usage"`
	OpenActions  []string `json:"open_action_ids,omitempty"` // what the client has to answer
}

// Failure is the payload of turn.failed: the end of a turn in any other way than with response.completed. Its status
// is StatusFailed, StatusCancelled, StatusTimedOut or StatusLost; a response that ended incomplete is StatusFailed with
// the category "incomplete".
type Failure struct {
	FailureCategory  string `json:"failure_category"` // a responses error code, or "incomplete"
	Message          string `json:"message" max:"2048"`
	Retryable        bool   `json:"retryable"`
	Phase            string `json:"phase,omitzero"` // queued, model, tool, shutdown, recovery
	ResponseID       string `json:"response_id"`
	DurationMS       int64  `json:"duration_ms"`
	IncompleteReason string `json:"incomplete_reason,omitzero"`
	InterruptedBy    string `json:"interrupted_by,omitzero"`

	// As in Completed, absent where they are none or unknown.
	Rounds      int      `json:"rounds,omitzero"`
	ToolCalls   int      `json:"tool_calls,omitzero"`
	Usage       *Usage   `json:"usage,omitzero"`
	OpenActions []string `json:"open_action_ids,omitempty"`
}

// Requested is the payload of model.requested: one provider attempt.
type Requested struct {
	ProviderName     string `json:"provider_name"`
	ModelName        string `json:"model_name"`
	ProviderSelector string `json:"provider_selector"` // the reference that chose it: of a fallback its own
	Attempt          int    `json:"attempt"`           // from 1
	MaxAttempts      int    `json:"max_attempts"`
	Round            int    `json:"round"`                     // from 1
	EstimatedTokens  int    `json:"estimated_tokens,omitzero"` // of the input
	Purpose          string `json:"purpose,omitzero"`          // PurposeSummary; "" for an answer
}

// Sampled is the payload of model.completed.
type Sampled struct {
	Usage           Usage  `json:"usage"`
	StopReason      string `json:"stop_reason"`
	DurationMS      int64  `json:"duration_ms"`
	NativeRequestID string `json:"native_request_id,omitzero"`
	OutputChars     int    `json:"output_chars"`

	// Messages and Calls are the ids of what the answer holds: items of the response, and calls of the container's
	// tools. A message that was cut short is not among them.
	Messages []string `json:"message_ids,omitempty" most:"48"`
	Calls    []string `json:"tool_call_ids,omitempty" most:"48"`

	// Tools are the names of the tools that Calls call, in the order in which each is called first.
	Tools []string `json:"tool_names,omitempty" most:"16"`

	// Discarded are the ids of the items that no later request has: all, of an answer that is empty.
	Discarded []string `json:"discarded_item_ids,omitempty" most:"48"`

	ProviderAttempt *ProviderAttempt `json:"provider_attempt,omitzero"`
}

// AttemptFailure is the payload of model.failed.
type AttemptFailure struct {
	FailureCategory    string `json:"failure_category"`
	Message            string `json:"message" max:"2048"`
	Retryable          bool   `json:"retryable"`
	Outcome            string `json:"outcome"`
	HTTPStatus         int    `json:"http_status,omitzero"`
	BackoffMS          int64  `json:"backoff_ms,omitzero"`
	DurationMS         int64  `json:"duration_ms"`
	AdvancedToFallback bool   `json:"advanced_to_fallback"`

	// Discarded are the ids of the items that the answer had begun when it broke off. They are closed on the stream,
	// the answer is made anew, and no later request has them.
	Discarded []string `json:"discarded_item_ids,omitempty" most:"48"`

	ProviderAttempt *ProviderAttempt `json:"provider_attempt,omitzero"`
}

// OfRequest is an event about a model request.
func (s Scope) OfRequest(class, requestID string, payload any) RuntimeEvent {
	e := s.Event(class, payload)
	e.ModelRequestID, e.SpanID = requestID, s.Trace.Child(requestID).SpanID()
	return e
}

// OfCall is an event about a tool call, "" for none. The beginning and the end of a call have its span.
func (s Scope) OfCall(class, toolCallID string, payload any) RuntimeEvent {
	e := s.Event(class, payload)
	if toolCallID != "" {
		e.ToolCallID, e.StepID = toolCallID, "step_"+suffixOf(toolCallID)
	}
	if class == ToolStarted || class == ToolResult || class == ToolFailed {
		e.SpanID = s.Trace.Child(toolCallID).SpanID()
	}
	return e
}

// OfProcess is an event about a process that a tool call started or uses; "" for none.
func (s Scope) OfProcess(class, toolCallID, processID string, payload any) RuntimeEvent {
	e := s.OfCall(class, toolCallID, payload)
	e.ProcessID = processID
	return e
}

func (s Scope) now() time.Time {
	if s.Now != nil {
		return s.Now()
	}
	return time.Now()
}

// Event fills the envelope of an event of a class and bounds its payload. Payloads of this package hold text, numbers
// and booleans only, for which encoding cannot fail.
func (s Scope) Event(class string, payload any) RuntimeEvent {
	b, err := marshal(bounded(payload))
	if err != nil || len(b) > maxPayload {
		b = json.RawMessage(`{"message":"the payload could not be recorded"}`)
	}
	return RuntimeEvent{
		Type:          class,
		EventID:       responses.NewID(responses.PrefixEvent),
		Timestamp:     At(s.now()),
		SchemaVersion: eventSchema,
		RuntimeID:     s.RuntimeID,
		SessionID:     s.SessionID,
		ThreadID:      s.ThreadID,
		TurnID:        s.TurnID,
		TraceID:       s.Trace.TraceID(),
		SpanID:        s.Trace.SpanID(),
		Status:        statusOf(class),
		Payload:       b,
	}
}

// statusOf is the status of an event of a class, "" for none. Turns that wait, and those that end otherwise than by
// failing, have another.
func statusOf(class string) string {
	switch class {
	case ThreadStarted:
		return "idle"
	case TaskCreated:
		return "draft"
	case TurnSubmitted, TaskAccepted, InputAccepted:
		return "accepted"
	case TurnStarted, ModelRequested, ToolStarted, ProcessStarted, TaskStarted, CompactionBegun:
		return "running"
	case ActionRequired:
		return "waiting_input"
	case RoutingNone:
		return "blocked"
	case TaskCancelAsked:
		return "cancelling"
	case TurnCompleted, ModelCompleted, ToolResult, ProcessCompleted, TaskCompleted, ContextCompacted, ActionResolved,
		InputInserted:
		return StatusCompleted
	case TurnFailed, ModelFailed, ToolFailed, ProcessFailed, TaskFailed, CompactionFailed:
		return StatusFailed
	case ProcessTerminated, TaskCancelled:
		return StatusCancelled
	case TaskTimedOut:
		return StatusTimedOut
	case TaskLost:
		return StatusLost
	}
	return ""
}
