package agent

import (
	"encoding/json"

	"holon/internal/redact"
	"holon/internal/visible"
	"holon/responses"
	"holon/responses/turns"
	"holon/runner/activity"
	"holon/runner/agent/rules"
	"holon/runner/agent/scheduler"
	"holon/state/ledger"
)

// maxPreview bounds the text of a round or a result in an event, in bytes.
const maxPreview = 2 << 10

// assistantRound is what a complete message of the model is for events and
// transcript; false for any other event of the stream.
func assistantRound(ev responses.Event, secrets *redact.Set) (scheduler.Progress, bool) {
	m, ok := ev.Item.(*responses.Message)
	if !ok || ev.Type != responses.EventItemDone || m.Role != responses.RoleAssistant {
		return scheduler.Progress{}, false
	}
	text := secrets.Text(m.Text())
	return scheduler.Progress{
		Event: ledger.Event{Type: rules.AssistantRound,
			Data: encode(map[string]any{"phase": m.Phase, "text_preview": visible.Clip(text, maxPreview),
				"chars": len(text)})},
		Transcript: &ledger.TranscriptEntry{Kind: ledger.TranscriptRound,
			Data: encode(map[string]any{"text": visible.Clip(text, maxTranscript), "phase": m.Phase})},
	}, true
}

// maxTranscript bounds the text of a transcript's entry, in bytes. The whole of
// it is in the stored response.
const maxTranscript = 64 << 10

// progressOf returns the event and transcript entry of a fact about a turn; false for
// facts that are not recorded. call is what the call of a tool does that the fact ends.
func progressOf(ev turns.RuntimeEvent, call activity.Call) (scheduler.Progress, bool) {
	switch ev.Type {
	case turns.ModelCompleted:
		return fact(rules.ProviderRound, ev, func(s turns.Sampled) any {
			return providerRound(s.ProviderAttempt, s.DurationMS, turns.OutcomeSucceeded)
		})
	case turns.ModelFailed:
		return fact(rules.ProviderRound, ev, func(f turns.AttemptFailure) any {
			return providerRound(f.ProviderAttempt, f.DurationMS, f.Outcome)
		})
	case turns.ToolResult:
		return told(fact(rules.ToolExecuted, ev, func(r turns.Result) any {
			return executed{Tool: r.ToolName, Call: call.Text, Files: named(call.Files),
				Summary: visible.OneLine(r.Summary, 300), DurationMS: r.DurationMS, ExitCode: r.ExitCode, Status: "success"}
		}))
	case turns.ToolFailed:
		return told(fact(rules.ToolExecuted, ev, func(f turns.ToolFailure) any {
			return executed{Tool: f.ToolName, Call: call.Text, Files: named(call.Files), Kind: f.Kind,
				Error: visible.OneLine(f.Message, 300), DurationMS: f.DurationMS, Status: "error"}
		}))
	case turns.RuntimeError:
		return fact(rules.RuntimeError, ev, func(n turns.Notice) any {
			return map[string]any{"code": n.Code, "message": visible.OneLine(n.Message, 300), "component": n.Component}
		})
	}
	return scheduler.Progress{}, false
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

// named bounds the files of an event.
func named(files []activity.File) []activity.File {
	const most = 20
	return files[:min(len(files), most)]
}

// told adds the same to the transcript.
func told(p scheduler.Progress, ok bool) (scheduler.Progress, bool) {
	if ok {
		p.Transcript = &ledger.TranscriptEntry{Kind: ledger.TranscriptTools, Data: p.Event.Data}
	}
	return p, ok
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
func fact[P any](kind string, ev turns.RuntimeEvent, data func(P) any) (scheduler.Progress, bool) {
	var p P
	if json.Unmarshal(ev.Payload, &p) != nil {
		return scheduler.Progress{}, false
	}
	return scheduler.Progress{Event: ledger.Event{Type: kind, Data: encode(data(p))}}, true
}
