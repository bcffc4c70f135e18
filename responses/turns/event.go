package turns

import (
	"encoding/json"
	"fmt"
	"strings"

	"holon/internal/tracecontext"
	"holon/responses"
)

// eventSchema is the value of "schema_version" in every RuntimeEvent.
const eventSchema = "holon-profile-1"

// Event classes used now (Agent Runtime, "Event classes").
const (
	ThreadStarted    = "thread.started"
	TurnSubmitted    = "turn.submitted"
	TurnStarted      = "turn.started"
	TurnCompleted    = "turn.completed"
	TurnFailed       = "turn.failed"
	ModelRequested   = "model.requested"
	ModelCompleted   = "model.completed"
	ModelFailed      = "model.failed"
	ToolStarted      = "tool.started"
	ToolResult       = "tool.result"
	ToolFailed       = "tool.failed"
	RuntimeWarning   = "runtime.warning"
	RuntimeError     = "runtime.error"
	ContextResolved  = "context.resolved"
	CompactionBegun  = "context.compaction.started"
	ContextCompacted = "context.compaction.completed"
	CompactionFailed = "context.compaction.failed"
	RoutingDecided   = "routing.decided"
	RoutingSingle    = "routing.single_candidate" // in place of RoutingDecided where there is one model
	RoutingNone      = "routing.not_possible"     // likewise where no model can be asked
	FallbackApplied  = "routing.fallback.applied"
	CostRecorded     = "cost.recorded"
	RateLimitHit     = "rate_limit.hit"
	TaskCreated      = "task.created"
	TaskAccepted     = "task.accepted"
	TaskStarted      = "task.started"
	TaskCompleted    = "task.completed"
	TaskFailed       = "task.failed"
	TaskTimedOut     = "task.timed_out"
	TaskCancelAsked  = "task.cancel_requested"
	TaskCancelled    = "task.cancelled"
	TaskLost         = "task.lost"
)

// Values of RuntimeEvent.Status that end a turn.
const (
	StatusCompleted = "completed"
	StatusFailed    = "failed"
	StatusCancelled = "cancelled"
	StatusTimedOut  = "timed_out"
	StatusLost      = "lost"
)

// maxPayload bounds the encoded payload of an event. Larger facts belong in a
// file, with a reference in the payload.
const maxPayload = 8 << 10

// RuntimeEvent is one line of runtime.ndjson: the envelope of the Agent Runtime
// profile, snake_case. Ids that are "" are absent.
type RuntimeEvent struct {
	Type           string          `json:"type"`
	EventID        string          `json:"event_id"`
	Timestamp      Time            `json:"timestamp"` // the producer's clock
	SchemaVersion  string          `json:"schema_version"`
	RuntimeID      string          `json:"runtime_id"`
	SessionID      string          `json:"session_id"`
	ThreadID       string          `json:"thread_id,omitzero"`
	TurnID         string          `json:"turn_id,omitzero"` // absent on thread.started, which precedes the turn
	Sequence       int64           `json:"sequence"`         // 1, 2, 3, … within the thread; given by the log
	TaskID         string          `json:"task_id,omitzero"`
	RunID          string          `json:"run_id,omitzero"` // of the attempt at a task
	StepID         string          `json:"step_id,omitzero"`
	ToolCallID     string          `json:"tool_call_id,omitzero"`
	ActionID       string          `json:"action_id,omitzero"` // of what is asked of the client
	ModelRequestID string          `json:"model_request_id,omitzero"`
	ProcessID      string          `json:"process_id,omitzero"`
	TraceID        string          `json:"trace_id,omitzero"` // of a turn that is traced
	SpanID         string          `json:"span_id,omitzero"`  // of the tool call, model request or else turn
	Status         string          `json:"status,omitzero"`
	Payload        json.RawMessage `json:"payload"` // a JSON object
	Correlation    correlation     `json:"correlation,omitzero"`
}

// correlation joins an event to its cause.
type correlation struct {
	CausationID string `json:"causation_id,omitzero"` // the event_id of an earlier event of the turn; given by the log
}

// MarshalJSON writes the envelope with "type" as its first key and a payload
// that is an object even when there is nothing in it.
func (e RuntimeEvent) MarshalJSON() ([]byte, error) {
	type plain RuntimeEvent // without this method
	if len(e.Payload) == 0 {
		e.Payload = json.RawMessage("{}")
	}
	return marshal(plain(e))
}

// AppendLine appends e as a line of runtime.ndjson, line end included.
func (e RuntimeEvent) AppendLine(dst []byte) ([]byte, error) {
	b, err := e.MarshalJSON()
	if err != nil {
		return dst, fmt.Errorf("encode %s: %w", e.Type, err)
	}
	return append(append(dst, b...), '\n'), nil
}

// DecodeRuntimeEvent reads one line of runtime.ndjson. Classes that this
// package does not know are not an error. Errors are *responses.Error values.
func DecodeRuntimeEvent(line []byte) (RuntimeEvent, error) {
	var e RuntimeEvent
	if err := decode(line, &e); err != nil {
		return RuntimeEvent{}, err
	}
	if e.Type == "" || len(e.Type) > 128 {
		return RuntimeEvent{}, invalid("type", "a runtime event needs a type of at most 128 characters")
	}
	if e.SchemaVersion != eventSchema {
		return RuntimeEvent{}, invalid("schema_version",
			fmt.Sprintf("schema_version must be %s, not %.64q", eventSchema, e.SchemaVersion))
	}
	if e.Sequence < 1 {
		return RuntimeEvent{}, invalid("sequence", fmt.Sprintf("sequence must be at least 1, not %d", e.Sequence))
	}
	if e.Timestamp.IsZero() {
		return RuntimeEvent{}, invalid("timestamp", "timestamp must not be null")
	}
	if err := e.checkIDs(); err != nil {
		return RuntimeEvent{}, err
	}
	if trimmed := strings.TrimLeft(string(e.Payload[:min(len(e.Payload), 64)]), " \t\r\n"); !strings.HasPrefix(trimmed,
		"{") {
		return RuntimeEvent{}, invalid("payload", "payload must be a JSON object")
	}
	return e, nil
}

// Span returns the span that e is about, the zero Span when its turn is not traced.
func (e *RuntimeEvent) Span() tracecontext.Span {
	return tracecontext.Parse("00-" + e.TraceID + "-" + e.SpanID + "-01")
}

func (e *RuntimeEvent) checkIDs() error {
	for _, id := range []struct {
		key, value string
		required   bool
	}{
		{"event_id", e.EventID, true}, {"runtime_id", e.RuntimeID, true},
		{"session_id", e.SessionID, true}, {"turn_id", e.TurnID, e.Type != ThreadStarted},
		{"thread_id", e.ThreadID, false}, {"step_id", e.StepID, false},
		{"tool_call_id", e.ToolCallID, false}, {"action_id", e.ActionID, false},
		{"model_request_id", e.ModelRequestID, false},
		{"process_id", e.ProcessID, false}, {"task_id", e.TaskID, false}, {"run_id", e.RunID, false},
		{"trace_id", e.TraceID, false}, {"span_id", e.SpanID, false},
		{"correlation.causation_id", e.Correlation.CausationID, false},
	} {
		if id.value == "" && !id.required {
			continue
		}
		if err := responses.CheckID(id.key, id.value); err != nil {
			return err
		}
	}
	return nil
}
