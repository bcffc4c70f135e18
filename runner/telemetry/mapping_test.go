package telemetry

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/attribute"

	"holon/internal/tracecontext"
	"holon/responses"
	"holon/responses/turns"
)

// A mapping takes each fact once and keeps no more of it than a span has.
func TestMapping(t *testing.T) {
	type fact struct{ class, id, payload string }
	const asked = `{"provider_name":"p","model_name":"m"}`
	for name, tt := range map[string]struct {
		facts []fact
		final *responses.Response
		how   Ending
		want  string // each span: name, failure, number of attributes of its own
	}{
		"nothing": {nil, nil, Lost, "invoke_agent turn_lost 0;"},
		"refused": {nil, nil, Ending{turns.StatusFailed, responses.CodeMCPUnavailable},
			"invoke_agent mcp_server_unavailable 0;"},
		"ended by the host": {nil, nil, Ending{"of its own", "of its own"}, "invoke_agent _OTHER 0;"},
		"no turn yet": {[]fact{{turns.ModelRequested, "r1", asked}}, nil, Lost,
			"invoke_agent turn_lost 0;chat m interrupted 0;"},
		"repeated": {[]fact{{turns.TurnSubmitted, "", `{"response_id":"r"}`},
			{turns.TurnSubmitted, "", `{"response_id":"s"}`},
			{turns.TurnStarted, "", `{"queue_wait_ms":3}`}, {turns.TurnStarted, "", `{"queue_wait_ms":4}`},
			{turns.ModelRequested, "r1", asked}, {turns.ModelRequested, "r1", asked},
			{turns.ModelCompleted, "r1", `{}`}, {turns.ModelFailed, "r1", `{}`},
			{turns.TurnFailed, "", `{"failure_category":"cancelled"}`}, {turns.TurnCompleted, "", `{"rounds":3}`}},
			&responses.Response{Status: responses.StatusCancelled}, Ending{},
			"invoke_agent cancelled 0;turn cancelled 3;chat m  0;"},
		"without ids, of no request, and malformed": {[]fact{{turns.TurnSubmitted, "", `{}`},
			{turns.ModelRequested, "", asked},
			{turns.ModelCompleted, "r9", `{}`}, {turns.ModelRequested, "r1", `[]`}, {turns.TurnStarted, "", `7`},
			{turns.TurnCompleted, "", `{"usage":{"input_tokens":-1},"rounds":-2}`}},
			&responses.Response{Status: responses.StatusCompleted}, Ending{}, "invoke_agent  0;turn  1;"},
		"failed": {[]fact{{turns.TurnSubmitted, "", `{}`}, {turns.TurnFailed, "", `{"failure_category":"of its own"}`}},
			&responses.Response{Status: responses.StatusFailed, Error: &responses.ResponseError{Code: "deadline"}}, Ending{},
			"invoke_agent " + failure("deadline") + " 0;turn _OTHER 1;"},
	} {
		m := newMapping(Invocation{TurnID: "turn_1"}, tracecontext.Root("turn_1"), Options{})
		for _, f := range tt.facts {
			ev := turns.RuntimeEvent{
				Type:           f.class,
				TurnID:         "turn_1",
				ModelRequestID: f.id,
				Status:         turns.StatusCancelled,
				Payload:        json.RawMessage(f.payload),
			}
			m.take(ev)
		}
		got := ""
		for _, s := range m.end(time.Now(), time.Now(), tt.final, tt.how) {
			got += s.name + " " + s.failure + " " + string(rune('0'+len(s.more))) + ";"
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: the spans differ (-want +got):\n%s", name, diff)
		}
	}
}

// A turn that did not complete has counts too, by its requests and calls.
func TestCountsOfAFailedTurn(t *testing.T) {
	m := newMapping(Invocation{TurnID: "turn_1"}, tracecontext.Root("turn_1"), Options{})
	for _, f := range []struct{ class, id, payload string }{
		{turns.TurnSubmitted, "", `{}`}, {turns.ModelRequested, "r1", `{"round":1}`},
		{turns.ModelCompleted, "r1", `{"usage":{"input_tokens":10,"output_tokens":2}}`},
		{turns.ToolStarted, "t1", `{}`}, {turns.ToolResult, "t1", `{}`}, {turns.ToolStarted, "t1", `{}`},
		{turns.ModelRequested, "r2", `{"round":2}`},
		{turns.ModelFailed, "r2", `{"provider_attempt":{"token_usage":{"input_tokens":20,"output_tokens":1}}}`},
		{turns.TurnFailed, "", `{}`},
	} {
		m.take(turns.RuntimeEvent{Type: f.class, TurnID: "turn_1", ModelRequestID: f.id, ToolCallID: f.id,
			Status: turns.StatusFailed, Payload: json.RawMessage(f.payload)})
	}
	spans := m.end(time.Now(), time.Now(), &responses.Response{Status: responses.StatusFailed}, Ending{})
	for i, want := range []map[attribute.Key]int64{{keyInputTokens: 30, keyOutputTokens: 3, keyRounds: 0, keyToolCalls: 0},
		{keyInputTokens: 30, keyOutputTokens: 3, keyRounds: 2, keyToolCalls: 1}} {
		got := attribute.NewSet(spans[i].attributes()...)
		for key, n := range want {
			if v, _ := got.Value(key); v.AsInt64() != n { // 0 for none
				t.Errorf("%s: %s is %d, want %d", spans[i].name, key, v.AsInt64(), n)
			}
		}
	}
}
