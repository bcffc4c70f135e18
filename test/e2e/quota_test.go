package e2e

import (
	"strings"
	"testing"

	"holon/runner"
	"holon/state"
)

// A run that writes more than its quota is ended, and what it did is kept.
func TestDiskQuota(t *testing.T) {
	t.Parallel()
	h, repo := newHome(t), repository(t, "echo a > a")
	r := h.run(repo, "run", "--model", scripted(t, "hoarding"), "--disk", "20m", "do what the scenario says")
	if r.code != 1 || r.failure(t).Code != string(runner.CodeDiskQuota) || r.manifest.Status != state.StatusIncomplete {
		t.Fatalf("exit code %d\n%s", r.code, r.stderr)
	}
	if !strings.Contains(r.stderr, "--disk: ") || !strings.Contains(r.stderr, "raise --disk") {
		t.Errorf("the error names no remedy:\n%s", r.stderr)
	}
	checkRecord(t, r)
	if !strings.Contains(r.read(t, runner.DiffFile), "kept.txt") {
		t.Error("the work so far is lost")
	}
	h.checkTidy()
}
