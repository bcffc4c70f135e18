package agent

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"holon/internal/visible"
	"holon/responses/agentruntime"
	"holon/responses/tasks"
	"holon/responses/turns"
	"holon/runner/activity"
	"holon/runner/agent/record"
	"holon/runner/agent/scheduler"
	"holon/state/ledger"
)

// maxPreview bounds the text of a round or a result in an event, in bytes.
const maxPreview = 2 << 10

// maxTranscript bounds the text of a transcript's entry, in bytes. The whole of
// it is in the stored response.
const maxTranscript = 64 << 10

// taken are the classes, or the beginnings of classes, of the facts that a container is the producer of. Of sessions,
// threads, turns, queues and tasks the host writes its own.
var taken = []string{
	"model.",
	"reasoning.",
	"tool.",
	"context.",
	"process.",
	"output.",
	"permission.evaluated",
	"sandbox.",
	"hook.",
	"routing.",
	"cost.",
	"rate_limit.",
	"quota.",
	"limit.changed",
	"artifact.",
	"runtime.",
	"run.status",
	"holon.",
}

// takes reports whether the record takes over facts of a class.
func takes(class string) bool {
	if _, ok := agentruntime.ClassOf(class); !ok && !agentruntime.IsVendor(class) {
		return false
	}
	return slices.ContainsFunc(taken, func(prefix string) bool { return strings.HasPrefix(class, prefix) })
}

// progressOf returns what is recorded of a fact about a turn; false for facts that are not. call is what the call of a
// tool does that the fact ends. A fact that has a type of events keeps its own payload beside what that type has.
func progressOf(ev turns.RuntimeEvent, call begunCall) (scheduler.Progress, bool) {
	if ev.Type == turns.TurnStarted { // the host's own is written before it knows the environment
		ev.Type = "run.status"
	}
	if ev.Type == turns.TaskCreated {
		return taskOf(ev)
	}
	if !takes(ev.Type) {
		return scheduler.Progress{}, false
	}
	p := scheduler.Progress{ToolName: call.tool, Event: ledger.Event{Type: ev.Type, Class: ev.Type, Status: ev.Status,
		CreatedAt: ev.Timestamp.Time(), ProducerSeq: ev.Sequence}}
	ids := &p.Event.IDs
	ids[agentruntime.Step], ids[agentruntime.ToolCall] = ev.StepID, ev.ToolCallID
	ids[agentruntime.ModelRequest], ids[agentruntime.Process] = ev.ModelRequestID, ev.ProcessID
	ids[agentruntime.Task], ids[agentruntime.Run] = ev.TaskID, ev.RunID
	ids[agentruntime.Trace], ids[agentruntime.Span] = ev.TraceID, ev.SpanID
	if ev.Type == turns.ToolStarted { // for the case that it is cut off
		p.Does, p.Input, p.Round = call.Text, call.input, call.round
	}
	typ, data := audited(ev.Type, ev.Payload, call)
	if typ != "" {
		p.Event.Type = typ
	}
	p.Event.Data = joined(ev.Payload, data)
	if ran, ok := data.(executed); ok {
		t := execution(ev, ran, call)
		p.Tool = t
		p.Transcript = &ledger.TranscriptEntry{Kind: ledger.TranscriptTools, Round: call.round,
			Data: encode(toolResult{ran, t.ID, t.Input, t.Output, t.OutputRef})}
	}
	return p, true
}

// taskOf is a task that a turn began. Its container tells the rest of it.
func taskOf(ev turns.RuntimeEvent) (scheduler.Progress, bool) {
	var b turns.TaskBegun
	if json.Unmarshal(ev.Payload, &b) != nil || b.Process == nil {
		return scheduler.Progress{}, false
	}
	return scheduler.Progress{Task: &tasks.Snapshot{TaskID: ev.TaskID, Kind: tasks.KindCommand, Status: tasks.Running,
		Summary: "command is running", CreatedAt: ev.Timestamp, TurnID: ev.TurnID,
		Command: &tasks.Command{Cmd: b.Process.Command, CmdPreview: b.Process.Command, Workdir: b.Process.Cwd,
			TTY: b.Process.TTY, AcceptsInput: b.Process.AcceptsInput}}}, true
}

// audited is the type of events that tells of a fact to people, and its data; "" when there is none.
func audited(class string, payload json.RawMessage, call begunCall) (typ string, data any) {
	switch class {
	case turns.ModelCompleted:
		return fact(record.ProviderRound, payload, func(s turns.Sampled) any {
			return providerRound(s.ProviderAttempt, s.DurationMS, turns.OutcomeSucceeded)
		})
	case turns.ModelFailed:
		return fact(record.ProviderRound, payload, func(f turns.AttemptFailure) any {
			return providerRound(f.ProviderAttempt, f.DurationMS, f.Outcome)
		})
	case turns.ToolResult:
		return fact(record.ToolExecuted, payload, func(r turns.Result) any {
			return executed{Tool: r.ToolName, Call: call.Text, Files: named(call.Files),
				Summary: visible.OneLine(
					r.Summary,
					300,
				), DurationMS: r.DurationMS, ExitCode: r.ExitCode, Status: "success"}
		})
	case turns.ToolFailed:
		return fact(record.ToolExecuted, payload, func(f turns.ToolFailure) any {
			return executed{Tool: f.ToolName, Call: call.Text, Files: named(call.Files), Kind: f.Kind,
				Error: visible.OneLine(f.Message, 300), DurationMS: f.DurationMS, Status: "error"}
		})
	case turns.ReminderInjected:
		return record.WorkReminderInjected, nil
	case turns.ReminderSkipped:
		return record.WorkReminderSkipped, nil
	case turns.RuntimeError:
		return fact(record.RuntimeError, payload, func(n turns.Notice) any {
			return map[string]any{"code": n.Code, "message": visible.OneLine(n.Message, 300), "component": n.Component}
		})
	}
	return "", nil
}

// execution is the record of a call of a tool that ended.
func execution(ev turns.RuntimeEvent, ran executed, call begunCall) *ledger.ToolExecution {
	var end struct {
		Preview   string `json:"preview"`
		OutputRef string `json:"output_ref"`
	}
	_ = json.Unmarshal(ev.Payload, &end) // it was decoded before
	at := ev.Timestamp.Time()
	return &ledger.ToolExecution{ID: ev.ToolCallID, Tool: ran.Tool, CreatedAt: cmp.Or(call.at, at), CompletedAt: at,
		DurationMS: ran.DurationMS, Status: ran.Status, Input: call.input, Output: visible.Clip(end.Preview, maxPreview),
		Summary: cmp.Or(ran.Summary, ran.Error), OutputRef: end.OutputRef}
}

// joined is the payload of a fact with the data of its event. What an event has no room for is left out, the whole
// result first, which the stored response has.
func joined(payload json.RawMessage, data any) json.RawMessage {
	all := map[string]json.RawMessage{}
	if json.Unmarshal(payload, &all) != nil {
		return nil
	}
	delete(all, "canonical")
	if data != nil {
		_ = json.Unmarshal(encode(data), &all) // it is an object of ours
	}
	out := encode(all)
	for _, key := range []string{"preview", "safe_args"} {
		if len(out) <= ledger.MaxEventData {
			break
		}
		delete(all, key)
		out = encode(all)
	}
	return out
}

// executed is the data of tool_executed. Call is what was done, for a person: the command, the files that were edited,
// or the tool with its arguments.
type executed struct {
	Tool       string          `json:"tool_name"`
	Call       string          `json:"call,omitempty"`
	Files      []activity.File `json:"files,omitempty"`
	Summary    string          `json:"summary,omitempty"`
	Kind       string          `json:"kind,omitempty"`
	Error      string          `json:"error,omitempty"`
	DurationMS int64           `json:"duration_ms"`
	ExitCode   *int            `json:"exit_code"`
	Status     string          `json:"status"`
}

// toolResult is what a transcript tells of a call: in addition, its arguments and the result, both cut.
type toolResult struct {
	executed
	ID        string `json:"tool_call_id"`
	Arguments string `json:"arguments"`
	Output    string `json:"output"`
	OutputRef string `json:"output_ref,omitempty"` // file with the whole output, relative to the turn's directory
}

// named bounds the files of an event.
func named(files []activity.File) []activity.File {
	const most = 20
	return files[:min(len(files), most)]
}

// providerRound is the data of provider_round_completed. Times are those of the
// attempt that gave the answer.
func providerRound(a *turns.ProviderAttempt, ms int64, outcome string) any {
	data := map[string]any{"provider_round_ms": ms, "outcome": outcome}
	if a != nil {
		data["round"], data["model_ref"], data["attempt"] = a.Round, visible.OneLine(a.ModelRef, 200), a.Attempt
		data["provider_started_at"], data["provider_completed_at"] = a.StartedAt, a.CompletedAt
		data["token_usage"], data["backoff_ms"] = a.TokenUsage, a.BackoffMS
	}
	return data
}

// fact decodes the payload of a fact, which a container wrote, and makes the data
// of an event of it.
func fact[P any](typ string, payload json.RawMessage, data func(P) any) (string, any) {
	var p P
	if json.Unmarshal(payload, &p) != nil {
		return "", nil
	}
	return typ, data(p)
}
