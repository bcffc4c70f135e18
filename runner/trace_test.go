package runner

import (
	"errors"
	"log/slog"
	"testing"

	"holon/runner/telemetry"
	"holon/runner/telemetry/telemetrytest"
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
		if err != nil {
			t.Fatal(err)
		}
		traced(t.Context(), e.Begin(t.Context(), telemetry.Invocation{TurnID: "turn_1"}), TurnResult{Err: tt.err})
		if err := e.Close(); err != nil {
			t.Error(err)
		}
		c.Close()
		if got := len(c.Spans()); got != tt.want {
			t.Errorf("a turn that is %s has %d spans, want %d", name, got, tt.want)
		}
	}
}
