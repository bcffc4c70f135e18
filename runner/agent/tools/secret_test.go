package tools

import (
	"context"
	"encoding/json"
	"testing"

	"holon/internal/redact"
	"holon/runner/agent/scheduler"
	"holon/runner/hosttools"
	"holon/test/expect"
)

// No tool gets a known secret, wherever a call has it.
func TestToolsSeeNoSecrets(t *testing.T) {
	secrets := new(redact.Set)
	secrets.Add("the URL", "token-of-the-trigger")
	type args struct {
		A []string `json:"a"`
	}
	var got args
	var text string
	x := tool(Options{Secrets: secrets, Scheduler: new(scheduler.Scheduler)}, hosttools.Tool{Name: "x"},
		func(_ context.Context, c hosttools.Call, a args) (hosttools.Result, error) {
			got, text = a, c.Round.Text
			return hosttools.Result{}, nil
		})
	_, err := x.Call(t.Context(), hosttools.Call{Arguments: json.RawMessage(`{"a":["x token-of-the-trigger"]}`),
		Round: hosttools.Round{Text: "I post to token-of-the-trigger."}})
	if want := "x [redacted]"; err != nil || len(got.A) != 1 || got.A[0] != want {
		t.Errorf("the tool gets %q, %v, want %s", got.A, err, want)
	}
	expect.Equal(t, "the tool gets the text", text, "I post to [redacted].")
}
