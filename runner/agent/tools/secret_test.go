package tools

import (
	"context"
	"encoding/json"
	"testing"

	"holon/internal/redact"
	"holon/runner/hosttools"
)

// No tool is told a known secret, wherever a call says it.
func TestToolsSeeNoSecrets(t *testing.T) {
	secrets := new(redact.Set)
	secrets.Add("the URL", "token-of-the-trigger")
	var seen hosttools.Call
	list := Options{Secrets: secrets}.withoutSecrets([]hosttools.Tool{{Name: "x",
		Call: func(_ context.Context, c hosttools.Call) (hosttools.Result, error) {
			seen = c
			return hosttools.Result{}, nil
		}}})
	_, err := list[0].Call(t.Context(), hosttools.Call{Arguments: json.RawMessage(`{"a":["x token-of-the-trigger"]}`),
		Round: hosttools.Round{Text: "I post to token-of-the-trigger."}})
	if want := `{"a":["x [redacted]"]}`; err != nil || string(seen.Arguments) != want {
		t.Errorf("the tool sees %s, %v, want %s", seen.Arguments, err, want)
	}
	if want := "I post to [redacted]."; seen.Round.Text != want {
		t.Errorf("the tool sees the text %q, want %q", seen.Round.Text, want)
	}
}
