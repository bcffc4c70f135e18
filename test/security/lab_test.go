package security

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"holon/responses"
	"holon/responses/turns"
	"holon/runner"
	"holon/runner/engine/docker"
	"holon/runner/oneshot"
	"holon/runner/workspace"
	"holon/state"
	"holon/test/expect"
	"holon/test/programs"
)

// patience bounds what is waited for. It says when a test gives up, not how fast
// anything has to be.
const patience = 3 * time.Minute

// lab is a state home of its own with a repository to work on.
type lab struct {
	t          *testing.T
	home, repo string
	containers []string // ids of those that were made
}

func newLab(t *testing.T) *lab {
	t.Helper()
	dir, err := os.MkdirTemp("", "holon-sec-") // t.TempDir is too long for sockets
	expect.NoError(t, err)
	l := &lab{t: t, home: filepath.Join(dir, "home"), repo: filepath.Join(dir, "repo")}
	t.Cleanup(func() {
		l.checkResidue()
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	l.host("git", "init", "-q", "-b", "main", l.repo)
	expect.NoError(t, os.WriteFile(filepath.Join(l.repo, "a"), []byte("a\n"), 0o644))
	l.host("git", "-C", l.repo, "add", "-A")
	l.host("git", "-C", l.repo, "-c", "user.name=A", "-c", "user.email=a@example.org", "commit", "-qm", "base")
	return l
}

// host runs a program on the host.
func (l *lab) host(args ...string) string {
	l.t.Helper()
	// Cleaning up comes after the test's own context has ended.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(l.t.Context()), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_SYSTEM="+os.DevNull)
	out, err := cmd.CombinedOutput()
	if err != nil {
		l.t.Fatalf("%v: %v\n%s", args, err, out)
	}
	return string(out)
}

// checkResidue fails the test if something of a run outlived it.
func (l *lab) checkResidue() {
	l.t.Helper()
	if ids := strings.Fields(l.host("docker", "ps", "-aq", "--filter",
		"label="+runner.LabelHome+"="+l.home)); len(ids) > 0 {
		l.t.Errorf("containers are left: %v", ids)
		l.host(append([]string{"docker", "rm", "-f"}, ids...)...)
	}
	for _, pattern := range []string{"ipc/*", "runs/*/session", "runs/.new-*"} {
		if found, err := filepath.Glob(filepath.Join(l.home, pattern)); err != nil || len(found) > 0 {
			l.t.Errorf("files are left: %v (%v)", found, err)
		}
	}
	if mounts, err := os.ReadFile("/proc/self/mounts"); err != nil || strings.Contains(string(mounts), l.home) {
		l.t.Errorf("a mount is left (%v):\n%s", err, mounts)
	}
	groups, _ := filepath.Glob("/proc/[0-9]*/cgroup") // the pattern is right
	for _, name := range groups {
		group, err := os.ReadFile(name)
		if err == nil && slices.ContainsFunc(l.containers, func(id string) bool {
			return bytes.Contains(group, []byte(id))
		}) {
			command, _ := os.ReadFile(filepath.Join(filepath.Dir(name), "cmdline"))
			l.t.Errorf("a process of a container is left: %s %q", name, command)
		}
	}
}

// result is a run that is over.
type result struct {
	*state.Manifest
	dir  string
	said []string // what each command printed
}

// quiet watches nothing.
type quiet struct{}

func (quiet) Event(responses.Event)   {}
func (quiet) Fact(turns.RuntimeEvent) {}
func (quiet) Phase(string)            {}
func (quiet) Begin(*state.Manifest)   {}

// config is a session as the lab makes it.
func (l *lab) config() runner.Config {
	l.t.Helper()
	e, err := docker.New("", "")
	expect.NoError(l.t, err)
	l.t.Cleanup(func() {
		if err := e.Close(); err != nil {
			l.t.Error(err)
		}
	})
	return runner.Config{
		Engine: e, Agentd: programs.Must("agentd"), Image: baseImage,
		Labels: map[string]string{runner.LabelHome: l.home}, Log: slog.New(slog.DiscardHandler),
		Models: runner.Models{Model: "scripted/demo"},
		Files:  runner.Files{InputDir: input},
	}
}

// attack has the agent run commands, one a round, and returns what became of
// it. change may alter the run before it starts.
func (l *lab) attack(change func(*oneshot.Run), commands ...string) result {
	l.t.Helper()
	var rounds []map[string]any
	for _, command := range commands {
		rounds = append(rounds, map[string]any{"calls": []any{map[string]any{
			"tool": "ExecCommand", "arguments": map[string]any{"cmd": command,
				"yield_time_ms": patience.Milliseconds()}}}})
	}
	scenario, err := json.Marshal(map[string]any{"rounds": append(rounds, map[string]any{"text": "Done."})})
	expect.NoError(l.t, err)
	file := filepath.Join(filepath.Dir(l.home), "scenario.yaml")
	expect.NoError(l.t, os.WriteFile(file, scenario, 0o600))
	home, err := state.MakeHome(l.home, "")
	expect.NoError(l.t, err)
	shot := &oneshot.Run{
		Session: l.config(), Home: home, Watch: quiet{}, Version: "test",
		Workspace: workspace.Options{Dir: l.repo, IncludeDirty: true, CacheDir: home.CacheDir(),
			ContainerObjects: runner.ObjectsPath},
		Turn: runner.NewTurn("", "attack"),
	}
	shot.Session.Model, shot.Session.Scenario = "scripted/attack", file
	shot.Turn.Limits().TimeoutMS = time.Minute.Milliseconds()
	if change != nil {
		change(shot)
	}
	ctx, cancel := context.WithTimeout(l.t.Context(), 2*patience)
	defer cancel()
	manifest, err := shot.Do(ctx)
	expect.NoError(l.t, err)
	if manifest.Engine.ContainerID == "" {
		l.t.Error("the record does not name the container")
	}
	l.containers = append(l.containers, manifest.Engine.ContainerID)
	r := result{Manifest: manifest, dir: shot.ResultDir()}
	logs, err := filepath.Glob(filepath.Join(r.dir, "tools", "*", "stdout.log"))
	expect.NoError(l.t, err)
	slices.SortFunc(logs, func(a, b string) int { return modified(a).Compare(modified(b)) })
	for _, log := range logs {
		data, err := os.ReadFile(log)
		expect.NoError(l.t, err)
		r.said = append(r.said, string(data))
	}
	return r
}

func modified(path string) time.Time {
	info, err := os.Stat(path)
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

// completed fails the test unless the turn went through to its end.
func (r result) completed(t *testing.T) result {
	t.Helper()
	if r.Status != state.StatusCompleted {
		t.Fatalf("the run is %s: %+v %v", r.Status, r.Error, r.Warnings)
	}
	return r
}

// outcomes reads what the probe printed.
func (r result) outcomes(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, said := range r.said {
		for line := range strings.Lines(said) {
			if name, outcome, ok := strings.Cut(strings.TrimSpace(line), "\t"); ok {
				found[name] = outcome
			}
		}
	}
	if len(found) == 0 {
		t.Fatalf("the probe said nothing: %q %+v", r.said, r.Error)
	}
	return found
}

// denied compares every attempt with the reason for which it has to fail.
func denied(t *testing.T, got map[string]string, want map[string]string) {
	t.Helper()
	for name, reasons := range want {
		t.Run(name, func(t *testing.T) {
			if outcome, tried := got[name]; !tried {
				t.Error("was not tried")
			} else if !slices.Contains(strings.Split(reasons, "|"), outcome) {
				t.Errorf("%s, want %s", outcome, reasons)
			}
		})
	}
	for name, outcome := range got {
		if want[name] == "" {
			t.Errorf("%s was tried (%s), but the test has no wanted outcome for it", name, outcome)
		}
	}
}
