package turns_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"holon/internal/redact"
	"holon/responses"
	"holon/responses/tasks"
	"holon/responses/turns"
	"holon/test/expect"
)

var update = flag.Bool("update", false, "rewrite the golden files in testdata")

var instant = time.Date(2026, 3, 4, 5, 6, 7, 890_999_000, time.FixedZone("", 3600))

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	var out bytes.Buffer
	if err := json.Indent(&out, got, "", "  "); err != nil {
		t.Fatalf("indent: %v", err)
	}
	out.WriteByte('\n')
	file := filepath.Join("testdata", name)
	if *update {
		expect.NoError(t, os.MkdirAll("testdata", 0o755))
		expect.NoError(t, os.WriteFile(file, out.Bytes(), 0o644))
	}
	want, err := os.ReadFile(file)
	expect.NoError(t, err)
	if diff := cmp.Diff(string(want), out.String()); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

func encode(t testing.TB, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	expect.NoError(t, err)
	return b
}

func accepted() turns.Record {
	prev := "resp_0"
	resp := responses.NewResponse("resp_1", "scripted/demo", instant.Unix(), &responses.Request{})
	resp.Status = responses.StatusQueued
	resp.PreviousResponseID = &prev
	return turns.NewRecord("sess_1", "turn_1", &resp, strings.Repeat("ab", 32), "inst_1", "v0.1.0", instant)
}

func finished() turns.Record {
	r := accepted()
	resp := responses.NewResponse("resp_1", "scripted/demo", instant.Unix(), &responses.Request{})
	resp.Status = responses.StatusFailed
	resp.Usage = &responses.Usage{InputTokens: 10, OutputTokens: 5, TotalTokens: 15}
	resp.Error = &responses.ResponseError{Code: responses.CodeModelError, Message: "the model said <no>",
		Type: responses.TypeModelError}
	r.StartedAt = turns.At(instant.Add(time.Millisecond))
	r.Rounds = 2
	r.ToolCalls.Add("ExecCommand", false)
	r.ToolCalls.Add("ApplyPatch", true)
	r.Settle(&resp, instant.Add(2*time.Second))
	told, waiting := turns.NewInput{ID: "msg_1", Text: "no, the other one"}.Input(),
		turns.NewInput{ID: "msg_2", Text: "wait"}.Input()
	told.Inserted, told.Round = true, 2
	r.Inputs = []turns.Input{told, waiting}
	r.Artifacts = []turns.Artifact{{Path: "tools/tc_1.log", Bytes: 12, SHA256: strings.Repeat("0", 64)}}
	return r
}

func TestRecordGolden(t *testing.T) {
	a, f := accepted(), finished()
	incomplete := responses.NewResponse("resp_1", "scripted/demo", 0, &responses.Request{})
	incomplete.Status = responses.StatusIncomplete
	incomplete.IncompleteDetails = &responses.IncompleteDetails{Reason: responses.ReasonMaxRounds}
	i := accepted()
	i.Settle(&incomplete, instant)
	for name, r := range map[string]turns.Record{"record-accepted.json": a, "record-failed.json": f,
		"record-incomplete.json": i} {
		b, err := r.Encode()
		expect.NoError(t, err)
		golden(t, name, b)
		back, err := turns.DecodeRecord(b)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if again, err := back.Encode(); err != nil || !bytes.Equal(again, b) {
			t.Errorf("%s changed in a round trip:\n%s\n%s", name, b, again)
		}
	}
}

func TestDecodeRecordRefuses(t *testing.T) {
	for _, tt := range []struct {
		param, path string
		value       any
	}{
		{"schema", "schema", "holon.turn/2"},
		{"turn_id", "turn_id", "../x"},
		{"session_id", "session_id", ""},
		{"status", "status", "done"},
		{"created_at", "created_at", nil},
		{"completed_at", "completed_at", nil}, // though it has ended
		{"tool_calls", "rounds", -1},
		{"tool_calls", "tool_calls", map[string]any{"total": 1, "failed": 2}},
		{"inputs[0].id", "inputs.id", "../x"},
		{"inputs[0].digest", "inputs.digest", ""},
		{"inputs[0].round", "inputs.round", 0},
		{"inputs", "inputs", make([]map[string]any, turns.MaxInputs+1)},
		{"artifacts[0].path", "artifacts.path", "../../etc/passwd"},
		{"artifacts[0].path", "artifacts.path", "/etc/passwd"},
		{"artifacts[0].path", "artifacts.path", "."},
		{"artifacts[0].bytes", "artifacts.bytes", -1},
		{"artifacts[0].sha256", "artifacts.sha256", "00"},
		{"rounds", "rounds", "two"},
		{"created_at", "created_at", "yesterday"},
	} {
		_, err := turns.DecodeRecord(with(t, finished(), tt.path, tt.value))
		if e, ok := errors.AsType[*responses.Error](err); !ok || e.Param != tt.param {
			t.Errorf("%s = %.40v: %#v, want a *responses.Error about %q", tt.path, tt.value, err, tt.param)
		}
	}
}

// with encodes v with another value at a key, or at "list.key" in the first element of a list.
func with(t *testing.T, v any, path string, value any) []byte {
	t.Helper()
	var m map[string]any
	expect.NoError(t, json.Unmarshal(encode(t, v), &m))
	in := m
	list, key, ok := strings.Cut(path, ".")
	if ok {
		in = m[list].([]any)[0].(map[string]any)
	} else {
		key = path
	}
	in[key] = value
	return encode(t, m)
}

func TestHealth(t *testing.T) {
	h := turns.Health{Status: turns.HealthReady, Version: "v0.1.0", Engine: turns.EngineAgentd,
		Models: []string{"scripted/demo"}, ActiveTurns: 1, Instance: "inst_1",
		RuntimeID: "rt_1", Programs: []string{"sh"}}
	b := encode(t, h)
	golden(t, "health.json", b)
	if _, err := turns.DecodeHealth(b); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{``, `[]`, `null`, `{"status":"fine","instance":"i"}`, `{"status":"ready"}`,
		`{"status":"ready","instance":"a b"}`, `{"status":1}`} {
		if _, err := turns.DecodeHealth([]byte(bad)); err == nil {
			t.Errorf("DecodeHealth(%s) succeeded", bad)
		}
	}
}

func TestTime(t *testing.T) {
	for in, want := range map[string]string{
		`null`:                             `null`,
		`"2026-03-04T05:06:07Z"`:           `"2026-03-04T05:06:07.000Z"`,
		`"2026-03-04T05:06:07.123456789Z"`: `"2026-03-04T05:06:07.123Z"`,
		`"2026-03-04T05:06:07.9+01:00"`:    `"2026-03-04T04:06:07.900Z"`,
	} {
		var got turns.Time
		if err := json.Unmarshal([]byte(in), &got); err != nil {
			t.Errorf("%s: %v", in, err)
			continue
		}
		if b := encode(t, got); string(b) != want {
			t.Errorf("%s became %s, want %s", in, b, want)
		}
	}
	for _, in := range []string{`""`, `"now"`, `5`, `{}`} {
		var got turns.Time
		if err := json.Unmarshal([]byte(in), &got); err == nil {
			t.Errorf("%s was accepted as %v", in, got)
		}
	}
	if turns.At(instant) != turns.At(instant.UTC()) {
		t.Error("the same instant in two zones differs")
	}
	expect.Equal(t, "difference to an unset time", turns.At(instant).Sub(turns.Time{}), 0)
}

// No id that is minted here is taken for a secret.
func TestIDsAreNotSecrets(t *testing.T) {
	for _, prefix := range []string{responses.PrefixResponse, responses.PrefixTurn, responses.PrefixSession,
		responses.PrefixMessage, responses.PrefixReasoning, responses.PrefixCall, responses.PrefixCallID,
		responses.PrefixCallOutput, responses.PrefixToolCall, responses.PrefixAction, responses.PrefixCompaction,
		responses.PrefixRequest,
		responses.PrefixEvent, responses.PrefixRun, responses.PrefixModelRequest, responses.PrefixInstance,
		responses.PrefixContext, tasks.Prefix} {
		known := &redact.Set{}
		known.AddEnviron([]string{"A_TOKEN=" + responses.NewID(prefix), "B_TOKEN=" + responses.NewID(prefix)[:8]}, nil)
		if !known.Empty() {
			t.Errorf("an id with the prefix %s is a secret", prefix)
		}
	}
}

// A timeline for an event has the newest attempts that fit, and counts the others.
func TestTimelineWithin(t *testing.T) {
	var l turns.ProviderTimeline
	for i := range 40 {
		l.Add(turns.ProviderAttempt{Provider: strings.Repeat("p", 300), ModelRef: "p/m", Attempt: i + 1,
			Prompt: &turns.Prompt{Fingerprint: "x"}, TransportDiagnostics: &turns.TransportDiagnostics{Stage: "body"}})
	}
	short := l.Within(4 << 10)
	data, err := json.Marshal(short)
	switch n := len(short.Attempts); {
	case err != nil || len(data) > 4<<10:
		t.Errorf("%d bytes, %v", len(data), err)
	case n == 0, n+short.Omitted != 40, short.Attempts[n-1].Attempt != 40:
		t.Errorf("%d attempts, %d omitted", n, short.Omitted)
	case short.Attempts[0].Prompt != nil, short.Attempts[0].TransportDiagnostics != nil:
		t.Error("it has what is too long")
	case len(l.Attempts) != 40, l.Attempts[0].Prompt == nil:
		t.Error("the original was changed")
	}
	if (*turns.ProviderTimeline)(nil).Within(1) != nil {
		t.Error("no timeline became one")
	}
}
