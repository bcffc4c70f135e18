package runner

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"holon/responses"
	"holon/runner/telemetry"
	"holon/test/expect"
	"holon/test/telemetrytest"
)

// A turn that goes on without this process is told of by the one that takes it up, and by no other.
func TestTraceOfTurnThatIsLeft(t *testing.T) {
	for name, tt := range map[string]struct {
		err  error
		want int
	}{"left": {ErrLeft, 0}, "ended": {nil, 1}, "broke off": {errors.New("gone"), 1}} {
		c := telemetrytest.Start(nil)
		t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", c.URL)
		e, err := telemetry.Open(t.Context(), telemetry.Options{Traces: true, Log: slog.New(slog.DiscardHandler)})
		expect.NoError(t, err)
		(&Session{}).settled(t.Context(), e.Begin(t.Context(), telemetry.Invocation{TurnID: "turn_1"}),
			End{Err: tt.err, Response: &responses.Response{Status: responses.StatusCompleted}})
		expect.NoError(t, e.Close())
		c.Close()
		if got := len(c.Spans()); got != tt.want {
			t.Errorf("a turn that is %s has %d spans, want %d", name, got, tt.want)
		}
	}
}

// What is told of a turn without a final response is what its host says of it.
func TestEndingOfATurn(t *testing.T) {
	gone := errors.New("gone")
	ended, end := context.WithCancelCause(t.Context())
	end(gone)
	refusal := &responses.Error{Code: responses.CodeMCPUnavailable}
	for name, tt := range map[string]struct {
		ctx    context.Context
		result End
		want   telemetry.Ending
	}{
		"refused": {t.Context(), End{Err: refusal}, telemetry.Ending{Status: "failed",
			Failure: "mcp_server_unavailable"}},
		"broken off": {t.Context(), End{Err: refusal, Response: &responses.Response{}}, telemetry.Lost},
		"out of reach": {t.Context(), End{Err: &responses.Error{Code: responses.CodeServerUnreachable}},
			telemetry.Lost},
		"gone":  {t.Context(), End{Err: gone}, telemetry.Lost},
		"ended": {ended, End{Err: gone}, telemetry.Ending{Status: "cancelled", Failure: "cancelled"}},
		"interrupted": {t.Context(), End{Err: ErrInterrupted}, telemetry.Ending{Status: "cancelled",
			Failure: "cancelled"}},
		"late": {t.Context(), End{Err: ErrDeadline}, telemetry.Ending{Status: "incomplete",
			Failure: "deadline_exceeded"}},
		"over its quota": {t.Context(), End{stopped: &Error{Code: codeDiskQuota},
			Response: &responses.Response{}},
			telemetry.Ending{Status: "incomplete", Failure: "disk_quota"}},
	} {
		tt.result.Settle(context.Cause(tt.ctx), nil)
		if got := ending(tt.result); got != tt.want {
			t.Errorf("a turn that is %s ended %+v, want %+v", name, got, tt.want)
		}
	}
}
