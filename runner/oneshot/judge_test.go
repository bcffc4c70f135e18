package oneshot

import (
	"testing"

	"holon/state"
)

// A limit of a run that was taken up has no flag; what is not a limit stays.
func TestWithoutFlag(t *testing.T) {
	for _, tc := range []struct{ param, hint, wantParam, wantHint string }{
		{"--max-rounds", "raise --max-rounds", "max_rounds", "raise it for the next run"},
		{"--max-output-bytes", "raise --max-output-bytes, or ask for less text", "max_output_bytes",
			"raise it for the next run, or ask for less text"},
		{"runtime.max_output_tokens", "ask for less", "runtime.max_output_tokens", "ask for less"},
		{"", "try again", "", "try again"},
	} {
		f := state.Failure{Param: tc.param, Hint: tc.hint}
		if withoutFlag(&f); f.Param != tc.wantParam || f.Hint != tc.wantHint {
			t.Errorf("withoutFlag(%q, %q) = %q, %q, want %q, %q", tc.param, tc.hint, f.Param, f.Hint, tc.wantParam, tc.wantHint)
		}
	}
}
