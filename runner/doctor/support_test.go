package doctor

import (
	"strings"
	"testing"

	"holon/runner/engine"
)

// What is known of an engine is said with the reason, and what to do instead.
func TestJudgeEngine(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		info    engine.Info
		streams bool
		status  string
		reason  string
	}{
		"docker":  {engine.Info{Product: engine.ProductDocker}, false, statusOK, "tested"},
		"desktop": {engine.Info{Product: engine.ProductDesktop}, true, statusWarning, "not tried"},
		"rootless": {engine.Info{Product: engine.ProductDocker, Rootless: true}, true, statusOK,
			"reached by a stream"},
		"cluster": {engine.Info{Product: engine.ProductKubernetes}, true, statusWarning, "NetworkPolicy"},
		"podman":  {engine.Info{Product: engine.ProductPodman}, true, statusWarning, "part of the limits"},
	} {
		t.Run(name, func(t *testing.T) {
			got := judgeEngine(&tc.info, tc.streams)
			if got.Status != tc.status || !strings.Contains(got.Seen, tc.reason) ||
				(got.Remedy == "") != (tc.status == statusOK) {
				t.Errorf("got %+v, want %s because of %q", got, tc.status, tc.reason)
			}
		})
	}
}

// On macOS the doctor says what does not bound git.
func TestJudgeSystem(t *testing.T) {
	t.Parallel()
	if got := judgeSystem("linux", "arm64"); got.Status != statusOK || got.Seen != "linux/arm64" {
		t.Errorf("on Linux: %+v", got)
	}
	got := judgeSystem("darwin", "arm64")
	if got.Status != statusWarning || !strings.Contains(got.Seen, "darwin/arm64: nothing bounds the memory of git") ||
		!strings.Contains(got.Remedy, "run holon on Linux") {
		t.Errorf("on macOS: %+v", got)
	}
}
