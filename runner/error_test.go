package runner_test

import (
	"fmt"
	"strings"
	"testing"

	"holon/internal/platform"
	"holon/responses"
	"holon/runner"
	"holon/runner/engine"
)

// What is missing on another system is said with where it is, however deep the error comes from.
func TestDescribeNeedsLinux(t *testing.T) {
	lacking := platform.NeedsLinux{What: "the local engine"}
	for name, err := range map[string]error{
		"alone": lacking,
		"of an engine": fmt.Errorf("start: %w", &engine.Error{Code: engine.CodeUnreachable, Param: "engine", Err: lacking,
			Message: "it cannot be reached"}),
	} {
		t.Run(name, func(t *testing.T) {
			got := runner.Describe(err)
			if got.Code != "needs_linux" || got.Hint != runner.NeedsLinuxHint ||
				!strings.Contains(got.Message, "the local engine needs Linux") {
				t.Errorf("got %+v", got)
			}
		})
	}
}

// A turn that ran out of time is told of in one way, whether agentd ended it or the host.
func TestOutOfTime(t *testing.T) {
	resp := &responses.Response{Status: responses.StatusIncomplete,
		IncompleteDetails: &responses.IncompleteDetails{Reason: responses.ReasonTimeout}}
	end := runner.End{Response: resp}
	end.Settle(nil, nil)
	agentd, host := end.Failure, runner.Describe(runner.ErrDeadline)
	if want := "the turn ended early: it ran out of time"; agentd.Message != want || host.Message != want {
		t.Errorf("agentd's end is %q and the host's %q, want %q", agentd.Message, host.Message, want)
	}
}
