package model_test

import (
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"holon/agentd/model"
)

// An answer that broke off is repeated where it could be retracted, also by a fallback, and never after it took too
// long.
func TestRetract(t *testing.T) {
	broke := play{text: "a", err: failure(model.KindTransport)}
	late := play{text: "a", err: failure(model.KindTimeout)}
	for _, tt := range []struct {
		name     string
		plays    []play
		fallback bool
		refuse   bool // to retract
		lines    []string
		retracts int
	}{
		{"and an answer", []play{broke, {text: "b"}}, false, false,
			[]string{"p/m 1/3 retrying transport", "p/m 2/3 succeeded"}, 1},
		{"three times", []play{broke, broke, broke}, false, false,
			[]string{"p/m 1/3 retrying transport", "p/m 2/3 retrying transport", "p/m 3/3 retries_exhausted transport"}, 2},
		{"three times, and a fallback", []play{broke, broke, broke}, true, false, []string{"p/m 1/3 retrying transport",
			"p/m 2/3 retrying transport", "p/m 3/3 retries_exhausted transport advanced", "q/f 1/3 succeeded"}, 3},
		{"then an outage, and a fallback", []play{broke, {err: failure(model.KindOverloaded)},
			{err: failure(model.KindOverloaded)}}, true, false, []string{"p/m 1/3 retrying transport",
			"p/m 2/3 retrying overloaded", "p/m 3/3 retries_exhausted overloaded advanced", "q/f 1/3 succeeded"}, 1},
		{"what cannot be retracted", []play{broke}, true, true, []string{"p/m 1/3 fail_fast_aborted transport"}, 1},
		{"what took too long", []play{late}, true, false, []string{"p/m 1/3 fail_fast_aborted timeout"}, 0},
		{"what makes no sense", []play{{text: "a", err: failure(model.KindProtocol)}}, true, false,
			[]string{"p/m 1/3 fail_fast_aborted protocol"}, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			w, retracts := &watch{}, 0
			list := []model.Candidate{
				{Ref: "p/m", Transport: &attempts{plays: tt.plays}, Policy: model.DefaultPolicy()}}
			if tt.fallback {
				list = append(list, model.Candidate{Ref: "q/f", Policy: model.DefaultPolicy(),
					Transport: &attempts{plays: []play{{text: "b"}}}})
			}
			retract := func(model.Attempt) bool {
				retracts++
				return !tt.refuse
			}
			// How it ends is in the lines.
			_, _ = read(t.Context(), model.Chain(list...), model.Request{Observer: w, Retract: retract})
			if diff := cmp.Diff(tt.lines, w.lines); diff != "" || retracts != tt.retracts {
				t.Errorf("%s: %d retracted, want %d (-want +got):\n%s", tt.name, retracts, tt.retracts, diff)
			}
		})
	}
}
