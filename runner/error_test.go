package runner_test

import (
	"fmt"
	"strings"
	"testing"

	"holon/internal/platform"
	"holon/runner"
	"holon/runner/engine"
)

// What is missing on another system is said with where it is, however deep the error comes from.
func TestDescribeNeedsLinux(t *testing.T) {
	lacking := platform.NeedsLinux{What: "the filter of system calls"}
	for name, err := range map[string]error{
		"alone": lacking,
		"of an engine": fmt.Errorf("start: %w", &engine.Error{Code: engine.CodeUnreachable, Param: "engine", Err: lacking,
			Message: "a container cannot be confined"}),
	} {
		t.Run(name, func(t *testing.T) {
			got := runner.Describe(err)
			if got.Code != "needs_linux" || got.Hint != runner.NeedsLinuxHint ||
				!strings.Contains(got.Message, "the filter of system calls needs Linux") {
				t.Errorf("got %+v", got)
			}
		})
	}
}
