package record

import (
	"cmp"
	"encoding/json"
	"slices"

	"holon/responses/turns"
)

// openFacts are the model requests, tool calls, processes and compactions of a turn that have begun and not ended, in
// order. A process that became a task is the session's.
type openFacts struct {
	begun    []turns.RuntimeEvent
	uncosted *turns.RuntimeEvent // the end of a model request whose cost is not recorded yet; nil: none
}

func (o *openFacts) take(ev turns.RuntimeEvent) {
	switch ev.Type {
	case turns.CostRecorded:
		o.uncosted = nil
	case turns.ModelRequested, turns.ToolStarted, turns.CompactionBegun:
		o.begun = append(o.begun, ev)
	case turns.ProcessStarted:
		if ev.TaskID == "" {
			o.begun = append(o.begun, ev)
		}
	case turns.TaskCreated, turns.ProcessCompleted, turns.ProcessFailed, turns.ProcessTerminated:
		o.begun = slices.DeleteFunc(o.begun, func(b turns.RuntimeEvent) bool { return b.ProcessID == ev.ProcessID })
	case turns.ModelCompleted, turns.ModelFailed, turns.ToolResult, turns.ToolFailed,
		turns.ContextCompacted, turns.CompactionFailed:
		if ev.Type == turns.ModelCompleted || ev.Type == turns.ModelFailed {
			o.uncosted = &ev
		}
		o.begun = slices.DeleteFunc(o.begun, func(b turns.RuntimeEvent) bool {
			return b.ModelRequestID == ev.ModelRequestID && b.ToolCallID == ev.ToolCallID && b.ProcessID == ""
		})
	}
}

// of returns the open facts of a class.
func (o *openFacts) of(class string) (list []turns.RuntimeEvent) {
	for _, ev := range o.begun {
		if ev.Type == class {
			list = append(list, ev)
		}
	}
	return list
}

// closing returns the facts that end what the end of the turn cut off, what began last first. used is what its
// response used beyond the attempts that ended: by the attempt that did not.
func (o *openFacts) closing(scope turns.Scope, used *turns.TokenUsage) (list []turns.RuntimeEvent) {
	const category, message = "interrupted", "the turn ended before it did"
	now := turns.At(scope.Now())
	if o.uncosted != nil {
		var p struct {
			Attempt turns.ProviderAttempt `json:"provider_attempt"`
		}
		_ = json.Unmarshal(o.uncosted.Payload, &p) // its cost is told, whatever its payload says
		list = append(list, scope.CostRecorded(o.uncosted.ModelRequestID, *cmp.Or(p.Attempt.TokenUsage, &turns.TokenUsage{})))
	}
	for _, ev := range slices.Backward(o.begun) {
		switch ev.Type {
		case turns.CompactionBegun:
			var p turns.CompactionStart
			_ = json.Unmarshal(ev.Payload, &p) // what began ends, whatever its payload says
			list = append(list, scope.CompactionFailed(turns.CompactionFailure{Trigger: p.Trigger, Round: p.Round,
				FailureCategory: category, Message: message}))
		case turns.ToolStarted:
			var p turns.Begun
			_ = json.Unmarshal(ev.Payload, &p) // likewise
			list = append(list, scope.ToolFailed(ev.ToolCallID, turns.ToolFailure{ToolName: p.ToolName,
				FailureCategory: category, Message: message, DurationMS: lasted(ev.Timestamp, now)}))
		case turns.ProcessStarted:
			list = append(list, scope.ProcessEnded(ev.ToolCallID, ev.ProcessID, turns.ProcessEnd{FailureCategory: "lost",
				Message: message, DurationMS: lasted(ev.Timestamp, now)}))
		case turns.ModelRequested:
			attempt := cutOff(ev, now, used)
			list = append(list, scope.ModelFailed(ev.ModelRequestID, turns.AttemptFailure{FailureCategory: category,
				Message: message, Outcome: turns.OutcomeFailFast, DurationMS: attempt.DurationMS, ProviderAttempt: attempt}),
				scope.CostRecorded(ev.ModelRequestID, *cmp.Or(used, &turns.TokenUsage{})))
			used = nil
		}
	}
	return list
}

// cutOff is the attempt of a model request that did not end, of which that became known at the given time.
func cutOff(requested turns.RuntimeEvent, at turns.Time, used *turns.TokenUsage) *turns.ProviderAttempt {
	var p turns.Requested
	_ = json.Unmarshal(requested.Payload, &p) // agentd wrote it; what is damaged is left out
	return &turns.ProviderAttempt{Provider: p.ProviderName, ModelRef: p.ProviderName + "/" + p.ModelName,
		Round: p.Round, Attempt: p.Attempt, MaxAttempts: p.MaxAttempts, Purpose: p.Purpose,
		StartedAt: requested.Timestamp, CompletedAt: at, FailureKind: "interrupted",
		DurationMS:  lasted(requested.Timestamp, at),
		Disposition: "fail_fast", Outcome: turns.OutcomeFailFast, TokenUsage: used}
}

// lasted is the time between two clocks' times, in milliseconds.
func lasted(from, to turns.Time) int64 { return max(0, to.Sub(from).Milliseconds()) }
