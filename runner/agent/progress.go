package agent

import (
	"encoding/json"

	"holon/internal/redact"
	"holon/internal/visible"
	"holon/responses"
	"holon/responses/turns"
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
// facts that are not recorded.
func progressOf(ev turns.RuntimeEvent) (scheduler.Progress, bool) {
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
		return fact(rules.ToolExecuted, ev, func(r turns.Result) any {
			return map[string]any{"tool_name": r.ToolName, "summary": visible.OneLine(r.Summary, 300),
				"duration_ms": r.DurationMS, "exit_code": r.ExitCode, "status": "success"}
		})
	case turns.ToolFailed:
		return fact(rules.ToolExecuted, ev, func(f turns.ToolFailure) any {
			return map[string]any{"tool_name": f.ToolName, "kind": f.Kind, "error": visible.OneLine(f.Message, 300),
				"duration_ms": f.DurationMS, "status": "error"}
		})
	case turns.RuntimeError:
		return fact(rules.RuntimeError, ev, func(n turns.Notice) any {
			return map[string]any{"code": n.Code, "message": visible.OneLine(n.Message, 300), "component": n.Component}
		})
	}
	return scheduler.Progress{}, false
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
