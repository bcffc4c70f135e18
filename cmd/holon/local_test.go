package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"holon/internal/redact"
	"holon/test/expect"
	"holon/test/programs"
)

// notTerminals are the streams of a command that no person watches.
func notTerminals(out, errs io.Writer) Streams {
	width := func() int { return 80 }
	return Streams{Secrets: &redact.Set{}, Out: out, Err: errs, NoHead: new(bool), Failed: new(error),
		Watching: &watching{}, Width: width, ErrWidth: width}
}

// localRuns makes a directory with an empty workspace, work, and a scenario. command makes commands of holon in the
// workspace, which have their home in the directory, the local engine and the scenario as their model.
func localRuns(t *testing.T, scenario string) (dir string, command func(args ...string) *exec.Cmd) {
	t.Helper()
	holon, agentd := programs.Must("holon"), programs.Must("agentd")
	dir = t.TempDir()
	expect.NoError(t, os.WriteFile(filepath.Join(dir, "scenario.yaml"), []byte(scenario), 0o600))
	expect.NoError(t, os.Mkdir(filepath.Join(dir, "work"), 0o700))
	return dir, func(args ...string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), holon, args...)
		cmd.Dir = filepath.Join(dir, "work")
		cmd.Env = append(os.Environ(), "HOLON_HOME="+filepath.Join(dir, "home"), "HOLON_AGENTD="+agentd, "TERM=xterm",
			"HOLON_ENGINE=local", "HOLON_MODEL=scripted/"+filepath.Join(dir, "scenario.yaml"),
			"CI=", "GITHUB_ACTIONS=", "TF_BUILD=", "TEAMCITY_VERSION=") // a person is at the terminal
		return cmd
	}
}

// succeed runs a command that has to succeed.
func succeed(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
}

// startDaemon starts a daemon that ends with the test.
func startDaemon(t *testing.T, dir string, command func(args ...string) *exec.Cmd) {
	t.Helper()
	t.Cleanup(func() { stopDaemon(t, filepath.Join(dir, "home")) })
	succeed(t, command("daemon", "start"))
}
