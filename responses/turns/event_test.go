package turns_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"holon/responses"
	"holon/responses/turns"
	"holon/test/expect"
)

func scope() turns.Scope {
	return turns.Scope{RuntimeID: "inst_1", SessionID: "sess_1", TurnID: "turn_1", Now: func() time.Time {
		return instant
	}}
}

// everyEvent returns one event of each class, in the order of a turn.
func everyEvent() []turns.RuntimeEvent {
	s, code := scope(), 1
	usage := responses.Usage{InputTokens: 3, OutputTokens: 2, TotalTokens: 5}
	ofItem := func(ev turns.RuntimeEvent) turns.RuntimeEvent {
		ev.StepID = "rs_1"
		return ev
	}
	return []turns.RuntimeEvent{
		s.TurnSubmitted(turns.Submitted{Source: "responses", ResponseID: "resp_1", RequestDigest: "d"}, true),
		s.Event(turns.TurnStarted, turns.Started{Attempt: 1, QueueWaitMS: 4, Model: "scripted/demo",
			WorkDir: "/holon/workspaces/main"}),
		s.SandboxApplied("/holon/workspaces/main"),
		s.CatalogResolved(turns.Catalog{Count: 1, Revision: "sha256:00",
			Tools: []turns.Offered{{ToolName: "ExecCommand", Host: "server", Policy: turns.DecisionAllow,
				Owner: turns.OwnerAgentd}}}),
		s.ContextResolved(turns.Context{Items: 1, Tools: []string{"ExecCommand"},
			ActiveSkills: []string{"agent/pdf session_active"}}),
		s.OfRequest(turns.ModelRequested, "mr_1", turns.Requested{ProviderName: "scripted", ModelName: "demo",
			ProviderSelector: "scripted/demo", Attempt: 1, MaxAttempts: 3, Round: 1}),
		s.OfRequest(turns.ModelFailed, "mr_1", turns.AttemptFailure{FailureCategory: "rate_limit_exceeded",
			Message: "slow down", Retryable: true, Outcome: turns.OutcomeRetrying, HTTPStatus: 429, BackoffMS: 500}),
		ofItem(s.OfRequest(turns.ReasoningDelta, "mr_2", turns.Withheld{Redacted: true, OutputChars: 9,
			EncryptedBytes: 40})),
		ofItem(s.OfRequest(turns.ReasoningSummary, "mr_2", turns.Summarized{TextRef: "rs_1", PartIndex: 1,
			OutputChars: 12})),
		s.OfRequest(turns.ModelCompleted, "mr_2", turns.Sampled{Usage: turns.UsageOf(usage), StopReason: "tool_calls",
			DurationMS: 7, OutputChars: 2}),
		s.ToolStarted("tc_1", turns.Begun{ToolName: "ExecCommand", CallID: "call_1", Kind: "command",
			Arguments: `{"cmd":"a < b"}`}),
		s.ToolResult("tc_1", turns.Result{ToolName: "ExecCommand", Summary: "exited with 1", Preview: "no\n",
			OutputRef: "tools/tc_1.log", DurationMS: 3, ExitCode: &code}),
		s.OfCall(turns.OutputTruncated, "tc_1", turns.Truncation{OutputRef: "tools/tc_1.log", SizeBytes: 900, KeptBytes: 100,
			Truncation: "head_tail"}),
		s.OfCall(turns.PermissionDecided, "tc_3", turns.Decision{ToolName: "ApplyPatch", Decision: turns.DecisionDeny,
			Source: "rule", Reason: "no tool may be called in this response"}),
		s.OfCall(turns.SandboxViolated, "tc_2", turns.Violation{Axis: "filesystem",
			Attempted: "the path is outside the working tree", Outcome: "blocked"}),
		s.OfCall(turns.SkillActivated, "tc_1", turns.Skill{SkillID: "agent/pdf", Name: "pdf", Scope: "agent",
			LoadReason: "run_skill_script", Path: "/holon/skills/pdf/scripts/fill.py",
			EntrypointPath: "/holon/skills/pdf/SKILL.md", ActivationSource: "implicit_from_catalog",
			ActivationState: "turn_active", Digest: "sha256:00"}),
		s.ToolStarted("tc_2", turns.Begun{ToolName: "ApplyPatch", CallID: "call_2"}),
		s.OfCall(turns.ToolFailed, "tc_2", turns.ToolFailure{ToolName: "ApplyPatch", FailureCategory: "invalid_input",
			Message: "hunk 1 does not apply", Error: &turns.ToolError{Kind: "invalid_tool_input",
				Message: "hunk 1 does not apply", Details: json.RawMessage(`{"field":"patch"}`),
				RecoveryHint: "read the file again"}}),
		s.Event(turns.InputAccepted, turns.Heard{InputID: "msg_1", Bytes: 12}),
		s.Event(turns.InputInserted, turns.Heard{InputID: "msg_1", Round: 2, ItemID: "msg_interjected_1"}),
		s.OfCall(turns.WorkDirChanged, "tc_1", turns.WorkDirChange{WorkDir: "/holon/workspaces/api"}),
		s.Event(turns.ReminderInjected, turns.Reminded{Round: 11, RoundsSince: 10, EstimatedTokens: 120}),
		s.Event(turns.ReminderSkipped, turns.Reminded{Round: 21, RoundsSince: 20, EstimatedTokens: 120}),
		s.Warning(turns.Notice{Code: "disk_low", Message: "little space is left", Component: "record",
			Recoverable: true}),
		s.Event(turns.RuntimeError, turns.Notice{Code: "server_error", Message: "broken", Component: "record",
			FailurePhase: "runtime_turn"}),
		s.Event(turns.EgressDecided, turns.EgressDecision{EgressID: "egr_1", Verdict: turns.VerdictAllowed,
			Reason: "listed", Scheme: "https", Host: "example.com", Port: 443, Address: "93.184.216.34"}),
		s.Event(turns.EgressEnded, turns.EgressEnd{EgressID: "egr_1", Host: "example.com", Port: 443,
			Address: "93.184.216.34", BytesSent: 517, BytesReceived: 4096, DurationMS: 12}),
		s.Event(turns.EgressOmitted, turns.EgressOmission{Allowed: 1, Denied: 2}),
		s.Event(turns.TurnCompleted, turns.Completed{TerminalKind: "answered", ResponseID: "resp_1", DurationMS: 20,
			Rounds: 2, ToolCalls: 2, Usage: turns.UsageOf(usage)}),
		s.Event(turns.TurnFailed, turns.Failure{FailureCategory: "incomplete", Message: "ran out of rounds",
			ResponseID: "resp_1", IncompleteReason: "max_rounds"}),
	}
}

func TestRuntimeEventsGolden(t *testing.T) {
	var all bytes.Buffer
	all.WriteByte('[')
	for i, e := range everyEvent() {
		if e.EventID == "" || !strings.HasPrefix(e.EventID, responses.PrefixEvent) {
			t.Errorf("%s has the event id %q", e.Type, e.EventID)
		}
		e.EventID, e.Sequence = "evt_x", int64(i+1)
		line, err := e.AppendLine(nil)
		expect.NoError(t, err)
		back, err := turns.DecodeRuntimeEvent(line)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if diff := cmp.Diff(e, back); diff != "" {
			t.Errorf("%s changed in a round trip (-want +got):\n%s", e.Type, diff)
		}
		if responses.EventType(line) != e.Type {
			t.Errorf("type is not the first key of %s", line)
		}
		if i > 0 {
			all.WriteByte(',')
		}
		all.Write(line)
	}
	all.WriteByte(']')
	golden(t, "runtime-events.json", all.Bytes())
}

// A payload with any texts of a model, tool or provider stays small and
// says what it can.
func TestPayloadsAreBounded(t *testing.T) {
	for _, text := range []string{strings.Repeat("x", 1<<20), strings.Repeat("\x01", 1<<20),
		strings.Repeat("\u2028", 1<<18), strings.Repeat("\xff", 1<<20), strings.Repeat("日", 1<<18)} {
		names := make([]string, 1000)
		for i := range names {
			names[i] = text[:2000]
		}
		s, long := scope(), json.RawMessage(`"`+strings.Repeat("x", 8<<10)+`"`)
		for _, e := range []turns.RuntimeEvent{
			s.TurnSubmitted(turns.Submitted{Source: text, InputRef: text}, false),
			s.Event(turns.TurnStarted, turns.Started{Model: text, WorkDir: text}),
			s.Event(turns.TurnFailed, turns.Failure{FailureCategory: text, Message: text, IncompleteReason: text,
				InterruptedBy: text}),
			s.OfRequest(turns.ModelRequested, "mr", turns.Requested{ProviderName: text, ModelName: text,
				ProviderSelector: text}),
			s.OfRequest(turns.ModelCompleted, "mr", turns.Sampled{StopReason: text, NativeRequestID: text}),
			s.CatalogResolved(turns.Catalog{Tools: make([]turns.Offered, 1000)}),
			s.OfRequest(turns.ModelFailed, "mr", turns.AttemptFailure{FailureCategory: text, Message: text}),
			s.ToolStarted("tc", turns.Begun{ToolName: text, CallID: text, Kind: text, Arguments: text}),
			s.ToolResult("tc", turns.Result{ToolName: text, Summary: text, Preview: text, OutputRef: text,
				Canonical: long}),
			s.OfCall(turns.ToolFailed, "tc", turns.ToolFailure{ToolName: text, FailureCategory: text, Message: text,
				OutputRef: text, Preview: text, Error: &turns.ToolError{Kind: text, Message: text, Details: long,
					RecoveryHint: text}}),
			s.Event(turns.EgressDecided, turns.EgressDecision{EgressID: text, Verdict: text, Reason: text,
				Scheme: text, Host: text, Address: text, Detail: text}),
			s.Event(turns.EgressEnded, turns.EgressEnd{EgressID: text, Host: text, Address: text, Error: text}),
			s.Warning(turns.Notice{Code: text, Message: text, Component: text, FailurePhase: text}),
			s.ContextResolved(turns.Context{Instructions: names, Tools: names, Omissions: names, ActiveSkills: names,
				Fingerprint: text}),
			s.OfCall(turns.SkillActivated, "tc", turns.Skill{SkillID: text, Name: text, Scope: text, LoadReason: text,
				Path: text, EntrypointPath: text, ActivationSource: text, ActivationState: text, Digest: text}),
		} {
			if len(e.Payload) > 8<<10 || strings.Contains(string(e.Payload), "could not be recorded") {
				t.Errorf("%s: payload of %d bytes for %.8q…: %.80s", e.Type, len(e.Payload), text, e.Payload)
			}
		}
	}
}

func TestDecodeRuntimeEventRefuses(t *testing.T) {
	tests := []struct{ key, value string }{
		{"type", `""`},
		{"type", `7`},
		{"schema_version", `"other"`},
		{"sequence", `0`},
		{"timestamp", `null`},
		{"event_id", `"a b"`},
		{"turn_id", `""`},
		{"tool_call_id", `"../x"`},
		{"payload", `"text"`},
		{"payload", `null`},
	}
	base := everyEvent()[0]
	base.Sequence = 1
	for _, tt := range tests {
		_, err := turns.DecodeRuntimeEvent(with(t, base, tt.key, json.RawMessage(tt.value)))
		if e, ok := errors.AsType[*responses.Error](err); !ok || e.Param != tt.key {
			t.Errorf("%s = %s: %#v, want an error about it", tt.key, tt.value, err)
		}
	}
}

func FuzzDecodeRecord(f *testing.F) {
	f.Add([]byte(`{"schema":"holon.turn/1"}`))
	fuzzStable(f, turns.DecodeRecord, accepted(), finished())
}

func FuzzDecodeRuntimeEvent(f *testing.F) {
	var seeds []any
	for _, e := range everyEvent() {
		e.Sequence = 1
		seeds = append(seeds, e)
	}
	fuzzStable(f, turns.DecodeRuntimeEvent, seeds...)
}

// fuzzStable checks that what is decoded is the same when it is encoded and decoded again.
func fuzzStable[T any](f *testing.F, decode func([]byte) (T, error), seeds ...any) {
	for _, v := range seeds {
		f.Add(encode(f, v))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := decode(data)
		if err != nil {
			return
		}
		once := encode(t, v)
		again, err := decode(once)
		if err != nil {
			t.Fatalf("re-reading %s: %v", once, err)
		}
		if twice := encode(t, again); !bytes.Equal(once, twice) {
			t.Fatalf("not stable:\n%s\n%s", once, twice)
		}
	})
}
