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

// Bounds of texts within payloads, in bytes; together they keep every payload
// of this package below maxPayload.
const (
	maxMessage = 2 << 10
	maxPreview = 3 << 10
	maxName    = 256
)

// Kinds of a thread.
const (
	ThreadMain = "main"
	ThreadFork = "fork"
)

// Thread is the payload of thread.started.
type Thread struct {
	Kind       string `json:"kind"`
	ForkedFrom *Fork  `json:"forked_from,omitempty"` // of a fork
}

// Fork is where a thread left another one.
type Fork struct {
	ThreadID   string `json:"thread_id"`
	TurnID     string `json:"turn_id"`
	ResponseID string `json:"response_id"`
}

// ThreadStarted opens the thread, before its first turn.
func (s Scope) ThreadStarted(from *Fork) RuntimeEvent {
	p := Thread{Kind: ThreadMain, ForkedFrom: from}
	if from != nil {
		p.Kind = ThreadFork
	}
	s.TurnID = ""
	return s.event(ThreadStarted, StatusIdle, p)
}

// Submitted is the payload of turn.submitted.
type Submitted struct {
	Source             string `json:"source"` // responses, run or operator
	InputRef           string `json:"input_ref,omitempty"`
	ResponseID         string `json:"response_id"`
	PreviousResponseID string `json:"previous_response_id,omitempty"`
	RequestDigest      string `json:"request_digest"`
	Instance           string `json:"instance,omitempty"`    // the agentd process
	Traceparent        string `json:"traceparent,omitempty"` // of the request: the span above the turn's
}

// TurnSubmitted says that a turn was recorded; queued says that it must wait.
func (s Scope) TurnSubmitted(p Submitted, queued bool) RuntimeEvent {
	p.Source, p.InputRef = clip(p.Source, maxName), clip(p.InputRef, maxName)
	status := StatusAccepted
	if queued {
		status = StatusQueued
	}
	return s.event(TurnSubmitted, status, p)
}

// Started is the payload of turn.started.
type Started struct {
	Attempt     int    `json:"attempt"` // 1: turns are never replayed
	QueueWaitMS int64  `json:"queue_wait_ms"`
	Model       string `json:"model"`
	WorkDir     string `json:"work_dir,omitempty"` // a path inside the container

	Environment *Environment `json:"environment,omitempty"`
}

// Environment is where the tools of a turn work. Paths are those inside the container.
type Environment struct {
	OutputDir string `json:"output_dir"`
	InputDir  string `json:"input_dir,omitempty"`
	Isolation string `json:"isolation"` // none, or worktree: a private tree
}

// TurnStarted says that a turn left the queue.
func (s Scope) TurnStarted(p Started) RuntimeEvent {
	p.Model, p.WorkDir = clip(p.Model, maxName), clip(p.WorkDir, maxName)
	if p.Attempt == 0 {
		p.Attempt = 1
	}
	if p.Environment != nil {
		e := *p.Environment
		e.OutputDir, e.InputDir = clip(e.OutputDir, maxName), clip(e.InputDir, maxName)
		p.Environment = &e
	}
	return s.event(TurnStarted, StatusRunning, p)
}

// Kinds of the end of a turn.
const (
	kindAnswered    = "answered"
	KindClientTools = "client_tools" // function calls wait for the client
)

// Completed is the payload of turn.completed.
type Completed struct {
	TerminalKind string   `json:"terminal_kind"` // answered, or client_tools
	ResponseID   string   `json:"response_id"`
	DurationMS   int64    `json:"duration_ms"`
	Rounds       int      `json:"rounds"`
	ToolCalls    int      `json:"tool_calls"`
	Usage        Usage    `json:"usage"`
	OpenActions  []string `json:"open_action_ids,omitempty"` // what the client has to answer
}

// TurnCompleted says that a turn ended with response.completed.
func (s Scope) TurnCompleted(p Completed) RuntimeEvent {
	if p.TerminalKind == "" {
		p.TerminalKind = kindAnswered
	}
	return s.event(TurnCompleted, StatusCompleted, p)
}

// Failure is the payload of turn.failed.
type Failure struct {
	FailureCategory  string `json:"failure_category"` // a responses error code, or "incomplete"
	Message          string `json:"message"`
	Retryable        bool   `json:"retryable"`
	Phase            string `json:"phase,omitempty"` // queued, model, tool, shutdown, recovery
	ResponseID       string `json:"response_id"`
	DurationMS       int64  `json:"duration_ms"`
	IncompleteReason string `json:"incomplete_reason,omitempty"`
	InterruptedBy    string `json:"interrupted_by,omitempty"`

	// As in Completed, absent where they are none or unknown.
	Rounds      int      `json:"rounds,omitempty"`
	ToolCalls   int      `json:"tool_calls,omitempty"`
	Usage       *Usage   `json:"usage,omitempty"`
	OpenActions []string `json:"open_action_ids,omitempty"`
}

// TurnFailed says that a turn ended in any other way. status is StatusFailed,
// StatusCancelled, StatusTimedOut or StatusLost; a response that ended
// incomplete is StatusFailed with the category "incomplete".
func (s Scope) TurnFailed(status string, p Failure) RuntimeEvent {
	p.FailureCategory, p.Message = clip(p.FailureCategory, maxName), clip(p.Message, maxMessage)
	p.IncompleteReason, p.InterruptedBy = clip(p.IncompleteReason, maxName), clip(p.InterruptedBy, maxName)
	return s.event(TurnFailed, status, p)
}

// Requested is the payload of model.requested: one provider attempt.
type Requested struct {
	ProviderName     string `json:"provider_name"`
	ModelName        string `json:"model_name"`
	ProviderSelector string `json:"provider_selector"` // the reference that chose it: of a fallback its own
	Attempt          int    `json:"attempt"`           // from 1
	MaxAttempts      int    `json:"max_attempts"`
	Round            int    `json:"round"`                      // from 1
	EstimatedTokens  int    `json:"estimated_tokens,omitempty"` // of the input
	Purpose          string `json:"purpose,omitempty"`          // PurposeSummary; "" for an answer
}

// ModelRequested opens the model request with the given id.
func (s Scope) ModelRequested(requestID string, p Requested) RuntimeEvent {
	p.ProviderName, p.ModelName = clip(p.ProviderName, maxName), clip(p.ModelName, maxName)
	p.ProviderSelector = clip(p.ProviderSelector, maxName)
	e := s.event(ModelRequested, StatusRunning, p)
	e.ModelRequestID, e.SpanID = requestID, s.Trace.Child(requestID).SpanID()
	return e
}

// Sampled is the payload of model.completed.
type Sampled struct {
	Usage           Usage  `json:"usage"`
	StopReason      string `json:"stop_reason"`
	DurationMS      int64  `json:"duration_ms"`
	NativeRequestID string `json:"native_request_id,omitempty"`
	OutputChars     int    `json:"output_chars"`

	// Messages and Calls are the ids of what the answer holds, at most maxSaid of each: items of the response, and
	// calls of the container's tools. A message that was cut short is not among them.
	Messages []string `json:"message_ids,omitempty"`
	Calls    []string `json:"tool_call_ids,omitempty"`

	// Discarded are the ids of the items that no later request has, at most maxSaid: all, of an answer that is empty.
	Discarded []string `json:"discarded_item_ids,omitempty"`

	ProviderAttempt *ProviderAttempt `json:"provider_attempt,omitempty"`
}

const maxSaid = 48

// ModelCompleted closes a model request.
func (s Scope) ModelCompleted(requestID string, p Sampled) RuntimeEvent {
	p.Messages, p.Calls = p.Messages[:min(len(p.Messages), maxSaid)], p.Calls[:min(len(p.Calls), maxSaid)]
	p.Discarded = p.Discarded[:min(len(p.Discarded), maxSaid)]
	p.StopReason, p.NativeRequestID = clip(p.StopReason, maxName), clip(p.NativeRequestID, maxName)
	p.ProviderAttempt = p.ProviderAttempt.bounded()
	e := s.event(ModelCompleted, StatusCompleted, p)
	e.ModelRequestID, e.SpanID = requestID, s.Trace.Child(requestID).SpanID()
	return e
}

// AttemptFailure is the payload of model.failed.
type AttemptFailure struct {
	FailureCategory    string `json:"failure_category"`
	Message            string `json:"message"`
	Retryable          bool   `json:"retryable"`
	Outcome            string `json:"outcome"`
	HTTPStatus         int    `json:"http_status,omitempty"`
	BackoffMS          int64  `json:"backoff_ms,omitempty"`
	DurationMS         int64  `json:"duration_ms"`
	AdvancedToFallback bool   `json:"advanced_to_fallback"`

	// Discarded are the ids of the items that the answer had begun when it broke off, at most maxSaid. They are closed
	// on the stream, the answer is made anew, and no later request has them.
	Discarded []string `json:"discarded_item_ids,omitempty"`

	ProviderAttempt *ProviderAttempt `json:"provider_attempt,omitempty"`
}

// ModelFailed closes a model request that failed.
func (s Scope) ModelFailed(requestID string, p AttemptFailure) RuntimeEvent {
	p.FailureCategory, p.Message = clip(p.FailureCategory, maxName), clip(p.Message, maxMessage)
	p.ProviderAttempt, p.Discarded = p.ProviderAttempt.bounded(), p.Discarded[:min(len(p.Discarded), maxSaid)]
	e := s.event(ModelFailed, StatusFailed, p)
	e.ModelRequestID, e.SpanID = requestID, s.Trace.Child(requestID).SpanID()
	return e
}

func (s Scope) now() time.Time {
	if s.Now != nil {
		return s.Now()
	}
	return time.Now()
}

// event fills the envelope. Payloads of this package hold text, numbers and
// booleans only, for which encoding cannot fail.
func (s Scope) event(class, status string, payload any) RuntimeEvent {
	b, err := marshal(payload)
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
		Status:        status,
		Payload:       b,
	}
}
