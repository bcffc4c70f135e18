package turns

import (
	"cmp"
	"encoding/json"
	"slices"
)

// maxBegun bounds what open keeps of a turn: its facts may be a hostile container's.
const maxBegun = 256

// open are the model requests, tool calls, processes and compactions of a turn that have begun and not ended, in
// order. A process that became a task is the session's.
type open struct {
	begun    []RuntimeEvent
	uncosted *RuntimeEvent // the end of a model request whose cost is not recorded yet; nil: none
}

func (o *open) take(ev RuntimeEvent) {
	switch ev.Type {
	case CostRecorded:
		o.uncosted = nil
	case ModelRequested, ToolStarted, CompactionBegun, ProcessStarted:
		if len(o.begun) < maxBegun && (ev.Type != ProcessStarted || ev.TaskID == "") {
			o.begun = append(o.begun, ev)
		}
	case TaskCreated, ProcessCompleted, ProcessFailed, ProcessTerminated:
		o.begun = slices.DeleteFunc(o.begun, func(b RuntimeEvent) bool { return b.ProcessID == ev.ProcessID })
	case ModelCompleted, ModelFailed, ToolResult, ToolFailed,
		ContextCompacted, CompactionFailed:
		if ev.Type == ModelCompleted || ev.Type == ModelFailed {
			o.uncosted = &ev
		}
		o.begun = slices.DeleteFunc(o.begun, func(b RuntimeEvent) bool {
			return b.ModelRequestID == ev.ModelRequestID && b.ToolCallID == ev.ToolCallID && b.ProcessID == ""
		})
	}
}

// of returns the open facts of a class.
func (o *open) of(class string) (list []RuntimeEvent) {
	for _, ev := range o.begun {
		if ev.Type == class {
			list = append(list, ev)
		}
	}
	return list
}

// closing returns the facts that end what the end of the turn cut off, what began last first. used is what its
// response used beyond the attempts that ended: by the attempt that did not.
func (o *open) closing(scope Scope, used *TokenUsage) (list []RuntimeEvent) {
	const category, message = "interrupted", "the turn ended before it did"
	now := At(scope.now())
	if o.uncosted != nil {
		var p struct {
			Attempt ProviderAttempt `json:"provider_attempt"`
		}
		_ = json.Unmarshal(o.uncosted.Payload, &p) // its cost is recorded, whatever its payload says
		list = append(list, scope.CostRecorded(o.uncosted.ModelRequestID, *cmp.Or(p.Attempt.TokenUsage, &TokenUsage{})))
	}
	for _, ev := range slices.Backward(o.begun) {
		switch ev.Type {
		case CompactionBegun:
			var p CompactionStart
			_ = json.Unmarshal(ev.Payload, &p) // what began ends, whatever its payload says
			list = append(list, scope.Event(CompactionFailed, CompactionFailure{Trigger: p.Trigger, Round: p.Round,
				FailureCategory: category, Message: message}))
		case ToolStarted:
			var p Begun
			_ = json.Unmarshal(ev.Payload, &p) // likewise
			list = append(list, scope.OfCall(ToolFailed, ev.ToolCallID, ToolFailure{ToolName: p.ToolName,
				FailureCategory: category, Message: message, DurationMS: lasted(ev.Timestamp, now)}))
		case ProcessStarted:
			list = append(list, scope.ProcessEnded(ev.ToolCallID, ev.ProcessID, ProcessEnd{FailureCategory: "lost",
				Message: message, DurationMS: lasted(ev.Timestamp, now)}))
		case ModelRequested:
			attempt := cutOff(ev, now, used)
			list = append(list, scope.OfRequest(ModelFailed, ev.ModelRequestID, AttemptFailure{
				FailureCategory: category, Message: message, Outcome: OutcomeFailFast,
				DurationMS: attempt.DurationMS, ProviderAttempt: attempt}),
				scope.CostRecorded(ev.ModelRequestID, *cmp.Or(used, &TokenUsage{})))
			used = nil
		}
	}
	return list
}

// cutOff is the attempt of a model request that did not end, which was found out at the given time.
func cutOff(requested RuntimeEvent, at Time, used *TokenUsage) *ProviderAttempt {
	var p Requested
	_ = json.Unmarshal(requested.Payload, &p) // agentd wrote it; what is damaged is left out
	return &ProviderAttempt{Provider: p.ProviderName, ModelRef: p.ProviderName + "/" + p.ModelName,
		Round: p.Round, Attempt: p.Attempt, MaxAttempts: p.MaxAttempts, Purpose: p.Purpose,
		StartedAt: requested.Timestamp, CompletedAt: at, FailureKind: "interrupted",
		DurationMS:  lasted(requested.Timestamp, at),
		Disposition: "fail_fast", Outcome: OutcomeFailFast, TokenUsage: used}
}

// lasted is the time between two clocks' times, in milliseconds.
func lasted(from, to Time) int64 { return max(0, to.Sub(from).Milliseconds()) }
