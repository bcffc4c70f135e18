package telemetry

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

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
		err   error
		want  string // each span: name, failure, number of attributes of its own
	}{
		"nothing": {nil, nil, errors.New("gone"), "invoke_agent turn_lost 0;"},
		"no turn yet": {[]fact{{turns.ModelRequested, "r1", asked}}, nil, nil,
			"invoke_agent turn_lost 0;chat m interrupted 0;"},
		"repeated": {[]fact{{turns.TurnSubmitted, "", `{"response_id":"r"}`},
			{turns.TurnSubmitted, "", `{"response_id":"s"}`},
			{turns.TurnStarted, "", `{"queue_wait_ms":3}`}, {turns.TurnStarted, "", `{"queue_wait_ms":4}`},
			{turns.ModelRequested, "r1", asked}, {turns.ModelRequested, "r1", asked},
			{turns.ModelCompleted, "r1", `{}`}, {turns.ModelFailed, "r1", `{}`},
			{turns.TurnFailed, "", `{"failure_category":"cancelled"}`}, {turns.TurnCompleted, "", `{"rounds":3}`}},
			&responses.Response{Status: responses.StatusCancelled}, nil,
			"invoke_agent cancelled 0;turn cancelled 3;chat m  1;"},
		"without ids, of no request, and malformed": {[]fact{{turns.TurnSubmitted, "", `{}`},
			{turns.ModelRequested, "", asked},
			{turns.ModelCompleted, "r9", `{}`}, {turns.ModelRequested, "r1", `[]`}, {turns.TurnStarted, "", `7`},
			{turns.TurnCompleted, "", `{"usage":{"input_tokens":-1},"rounds":-2}`}},
			&responses.Response{Status: responses.StatusCompleted}, nil, "invoke_agent  0;turn  1;"},
		"failed": {[]fact{{turns.TurnSubmitted, "", `{}`}, {turns.TurnFailed, "", `{"failure_category":"of its own"}`}},
			&responses.Response{Status: responses.StatusFailed, Error: &responses.ResponseError{Code: "deadline"}}, nil,
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
		for _, s := range m.end(time.Now(), time.Now(), tt.final, tt.err) {
			got += s.name + " " + s.failure + " " + string(rune('0'+len(s.more))) + ";"
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: the spans differ (-want +got):\n%s", name, diff)
		}
	}
}
