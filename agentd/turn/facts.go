package turn

import (
	"encoding/json"
	"slices"
	"strings"

	"holon/agentd/model"
	"holon/agentd/tools"
	"holon/responses"
	"holon/responses/turns"
)

// compactBytes is the size of a result in an event; the state of the items of a large batch may take more.
const compactBytes = 2 << 10

// toolStarted are the runtime events of a call that begins. A file of the turn, in a directory of its own next to those
// of results, has the arguments that the event cannot hold.
func (r *runner) toolStarted(c *ownCall) (facts []turns.RuntimeEvent) {
	p := turns.Begun{ToolName: c.Name, CallID: c.CallID, Arguments: c.Arguments}
	if p.TooLong() {
		p.Arguments = string(r.Journal.Shown([]byte(c.Arguments)))
		files := r.env.ForCall(c.ID).Artifacts
		if _, err := files.Write(turns.ArgumentsFile, []byte(p.Arguments)); err != nil {
			facts = append(facts, r.Scope.Warning(turns.Notice{Code: "arguments_not_kept", Component: "turn",
				Recoverable: true, Message: "the arguments of a call of " + c.Name + " are not kept whole: " + err.Error()}))
		}
		for _, kept := range files.List() {
			p.InputRef = kept.Path
		}
	}
	return append(facts, r.Scope.ToolStarted(c.ID, p))
}

// toolEnded are the runtime events of a finished tool call. Its end is the last.
func (r *runner) toolEnded(id string, o tools.Outcome) []turns.RuntimeEvent {
	ref := ""
	if len(o.Artifacts) > 0 {
		ref = o.Artifacts[0].Path
	}
	c := o.Canonical
	// Results that do not fit into an event are in the stored response.
	compact := r.Families.Compact(c, compactBytes)
	text := o.Rendered
	if len(text) > turns.MaxPreview {
		text = r.Families.Receipt(c, r.Dir, turns.MaxPreview*3/4) // escapes in JSON take room, too
	}
	if c.Error != nil {
		category := failureCategory(c.Error.Kind)
		var before []turns.RuntimeEvent
		if category == "sandbox_violation" {
			before = append(before, r.Scope.OfCall(turns.SandboxViolated, id,
				turns.Violation{Axis: "filesystem", Attempted: c.Error.Message, Outcome: "blocked"}))
		}
		return append(before, r.Scope.OfCall(turns.ToolFailed, id, turns.ToolFailure{
			ToolName: c.ToolName, FailureCategory: category, Message: c.Error.Message, Retryable: c.Error.Retryable,
			OutputRef: ref, DurationMS: o.Duration.Milliseconds(), Preview: text, Error: toolError(compact.Error),
		}))
	}
	// Of a family's result only what every host wants to show is looked at.
	var known struct {
		ExitStatus *int `json:"exit_status"`
	}
	_ = json.Unmarshal(c.Result, &known) // another shape just has none
	canonical, err := compact.Encode()
	if err != nil {
		canonical = nil
	}
	var before []turns.RuntimeEvent
	truncated := r.Families.Truncated(c)
	if truncated && ref != "" {
		before = append(before, r.Scope.OfCall(turns.OutputTruncated, id, turns.Truncation{OutputRef: ref,
			SizeBytes: max(o.KeptBytes, int64(len(o.Rendered))), // a full disk has less than the model was shown
			KeptBytes: int64(len(o.Rendered)), Truncation: "head_tail"}))
	}
	return append(before, r.Scope.ToolResult(id, turns.Result{
		ToolName: c.ToolName, Summary: c.SummaryText, Preview: text, OutputRef: ref,
		DurationMS: o.Duration.Milliseconds(), ExitCode: known.ExitStatus,
		Truncated: text != o.Rendered || truncated,
		Canonical: canonical,
	}))
}

// toolError is the error of a canonical result as an event has it.
func toolError(e *tools.Error) *turns.ToolError {
	out := &turns.ToolError{Kind: e.Kind, Message: e.Message, RecoveryHint: e.RecoveryHint, Retryable: e.Retryable}
	if len(e.Details) > 0 {
		out.Details, _ = responses.Marshal(e.Details) // they are JSON, or left out
	}
	return out
}

// taskBegun are the runtime events of a call that left a task behind, which its last process runs.
func (r *runner) taskBegun(call *responses.ToolCall, last *turns.Process, o tools.Outcome) []turns.RuntimeEvent {
	var known struct {
		Disposition string `json:"disposition"`
		TaskHandle  struct {
			TaskID string `json:"task_id"`
			Kind   string `json:"kind"`
		} `json:"task_handle"`
	}
	if o.Canonical.Error != nil || json.Unmarshal(o.Canonical.Result, &known) != nil ||
		known.Disposition != "promoted_to_task" || last == nil {
		return nil
	}
	p := turns.TaskBegun{TaskKind: known.TaskHandle.Kind, Objective: last.Command, Source: o.Canonical.ToolName,
		ToolCallID: call.ID, Process: last}
	return r.Scope.TaskBegun(known.TaskHandle.TaskID, p)
}

// observer records what something of the turn reports that cannot fail for the journal, whose error waits here for the
// turn.
type observer struct {
	runner *runner
	err    error
}

func (o *observer) record(ev turns.RuntimeEvent) {
	if o.err == nil {
		o.err = o.runner.Journal.Event(ev)
	}
}

// processes records the processes of a call.
type processes struct {
	observer
	call string
	last *turns.Process // that started last
}

func (p *processes) Started(id string, of turns.Process) {
	p.last = &of
	p.record(p.runner.Scope.OfProcess(turns.ProcessStarted, p.call, id, of))
}

func (p *processes) Written(id string, of turns.Written) {
	p.record(p.runner.Scope.OfProcess(turns.ProcessInput, p.call, id, of))
}

func (p *processes) Ended(id string, of turns.ProcessEnd) {
	p.record(p.runner.Scope.ProcessEnded(p.call, id, of))
}

// failureCategory maps a tool's kind of error to the categories of tool.failed.
func failureCategory(kind string) string {
	switch {
	case kind == tools.KindInvalidInput, strings.HasPrefix(kind, "invalid_"), strings.HasPrefix(kind, "empty_"):
		return "invalid_input"
	case kind == tools.KindRootViolation, kind == "unsafe_path":
		return "sandbox_violation"
	case kind == tools.KindUnknownTool, kind == "not_found", strings.HasSuffix(kind, "_not_found"):
		return "not_found"
	case strings.HasSuffix(kind, "_timeout"):
		return "timeout"
	case kind == tools.KindCanceled:
		return "cancelled"
	case strings.HasSuffix(kind, "_unavailable"):
		return "unavailable"
	}
	return "execution_error"
}

// attempts records every attempt at the model, retries and fallbacks included.
type attempts struct {
	observer
	sampler *sampler       // nil for attempts at a summary
	tokens  int            // of the input, as is estimated
	id      string         // of the present model request
	failed  *model.Attempt // the one before, when another model is asked next
}

// purpose is what the model is asked for, as in turns.ProviderAttempt.
func (w *attempts) purpose() string {
	if w.sampler == nil {
		return turns.PurposeSummary
	}
	return ""
}

// AttemptStarted records model.requested.
func (w *attempts) AttemptStarted(a model.Attempt) {
	w.id = responses.NewID(responses.PrefixModelRequest)
	if w.sampler != nil {
		w.sampler.asked = w.id
	}
	if f := w.failed; f != nil {
		w.record(w.runner.Scope.Event(turns.FallbackApplied,
			turns.Fallback{From: f.Ref, To: a.Ref, Reason: string(f.Err.Kind)}))
		w.failed = nil
	}
	provider, name, _ := strings.Cut(a.Ref, "/")
	w.record(w.runner.Scope.OfRequest(turns.ModelRequested, w.id, turns.Requested{
		ProviderName: provider, ModelName: name, ProviderSelector: a.Ref,
		Attempt: a.Number, MaxAttempts: a.Max, Round: w.runner.result.Rounds,
		EstimatedTokens: w.tokens, Purpose: w.purpose(),
	}))
}

// AttemptEnded records model.completed or model.failed.
func (w *attempts) AttemptEnded(a model.Attempt) {
	took := a.Ended.Sub(a.Started).Milliseconds()
	made := w.attempt(a)
	w.runner.result.Attempts.Add(made)
	var discarded []string
	said := turns.Sampled{Usage: turns.UsageOf(a.Usage), StopReason: string(a.Stop), DurationMS: took,
		NativeRequestID: a.RequestID, ProviderAttempt: &made}
	if w.sampler != nil {
		said.OutputChars = w.sampler.chars
		said.Messages, said.Calls, said.Tools = w.sampler.emitted()
		discarded, w.sampler.discarded = w.sampler.discarded, nil
		w.sampler.asked = ""
		w.answered(a)
	}
	if a.Advanced {
		w.failed = &a
	}
	defer w.handed()
	defer w.cost(a)
	if said.Discarded = discarded; a.Err == nil {
		w.record(w.runner.Scope.OfRequest(turns.ModelCompleted, w.id, said))
		return
	}
	w.record(w.runner.Scope.OfRequest(turns.ModelFailed, w.id, turns.AttemptFailure{
		FailureCategory: string(a.Err.Kind), Message: a.Err.Message, Retryable: a.Err.Retryable(),
		Outcome:    string(a.Outcome),
		HTTPStatus: a.Err.Status, BackoffMS: a.Backoff.Milliseconds(), DurationMS: took, AdvancedToFallback: a.Advanced,
		ProviderAttempt: &made, Discarded: discarded,
	}))
}

// tooManyRequests is the HTTP status of a provider that limits the rate of requests.
const tooManyRequests = 429

// cost records what an attempt took, and that it was one too many.
func (w *attempts) cost(a model.Attempt) {
	if a.Err != nil && a.Err.Status == tooManyRequests {
		hit := turns.RateLimit{By: "provider", Scope: a.Ref, RetryAfterMS: a.Err.RetryAfter.Milliseconds()}
		w.record(w.runner.Scope.OfRequest(turns.RateLimitHit, w.id, hit))
	}
	var used turns.TokenUsage
	if known := turns.Tokens(a.Usage); known != nil {
		used = *known
	}
	w.record(w.runner.Scope.CostRecorded(w.id, used))
}

// emitted returns the ids of what the answer holds so far, messages and calls of either side, and the names of the
// tools that are called, each once.
func (s *sampler) emitted() (messages, calls, tools []string) {
	called := func(id, tool string) {
		calls = append(calls, id)
		if !slices.Contains(tools, tool) {
			tools = append(tools, tool)
		}
	}
	for _, item := range s.Emitter.Response().Output[s.round.from:] {
		switch item := item.(type) {
		case *responses.Message:
			messages = append(messages, item.ID)
		case *responses.FunctionCall:
			called(turns.HandedCall(item.ID), item.Name)
		}
	}
	for _, call := range s.round.calls {
		called(call.ID, call.Name)
	}
	return messages, calls, tools
}

// answered takes in the end of an attempt at an answer. What a summary takes is counted when it is there.
func (w *attempts) answered(a model.Attempt) {
	if a.Err == nil || a.Begun { // a part of an answer is an answer too
		w.runner.Emitter.Answered(a.Ref)
	}
	if a.Err != nil {
		w.runner.spend(a.Usage)
	}
}

// handed records what the client has to answer since it was recorded last, also of an attempt that failed afterwards:
// a call that is on the stream is part of the conversation.
func (w *attempts) handed() {
	r := w.runner
	calls := turns.Handed(r.Emitter.Response().Output)
	for _, call := range calls[r.handed:] {
		w.record(r.Scope.ActionRequired(call))
	}
	r.handed = len(calls)
}
