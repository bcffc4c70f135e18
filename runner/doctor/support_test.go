package doctor

import (
	"strings"
	"testing"

	"holon/runner"
	"holon/runner/engine"
)

// What is known of an engine is said with the reason, and what to do instead.
func TestJudgeEngine(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		info   engine.Info
		status string
		reason string
	}{
		"docker":   {engine.Info{Product: engine.ProductDocker}, statusOK, "tested"},
		"desktop":  {engine.Info{Product: engine.ProductDesktop}, statusFailed, "processes have other numbers"},
		"rootless": {engine.Info{Product: engine.ProductDocker, Rootless: true}, statusFailed, "users of its containers"},
		"podman":   {engine.Info{Product: engine.ProductPodman}, statusWarning, "part of the limits"},
		"podman, rootless": {engine.Info{Product: engine.ProductPodman, Rootless: true}, statusFailed,
			"users of its containers"},
	} {
		t.Run(name, func(t *testing.T) {
			got := judgeEngine(&tc.info)
			if got.Status != tc.status || !strings.Contains(got.Seen, tc.reason) ||
				(got.Remedy == "") != (tc.status == statusOK) {
				t.Errorf("got %+v, want %s because of %q", got, tc.status, tc.reason)
			}
		})
	}
}

// On another system the doctor says that runs need Linux, and what works from there.
func TestJudgeSystem(t *testing.T) {
	t.Parallel()
	if got := judgeSystem("linux", "arm64"); got.Status != statusOK || got.Seen != "linux/arm64" {
		t.Errorf("on Linux: %+v", got)
	}
	got := judgeSystem("darwin", "arm64")
	if got.Status != statusFailed || got.Seen != "a run (this is darwin/arm64) needs Linux" ||
		got.Remedy != runner.NeedsLinuxHint {
		t.Errorf("on macOS: %+v", got)
	}
}
