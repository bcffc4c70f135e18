package e2e

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"holon/runner/oneshot"
	"holon/state"
	"holon/test/expect"
)

// bestOf starts two attempts that play scenarios of testdata, the result of which is checked.
func (h *home) bestOf(repo, check string, scenarios ...string) *process {
	h.t.Helper()
	for i, name := range scenarios {
		scenarios[i] = scripted(h.t, name)
	}
	return h.begin(repo, "run", "--models", strings.Join(scenarios, ","), "--check", check, "do what the scenario says")
}

// Wherever holon is killed, a run with attempts gets one end, what they did is saved, and nothing is left.
func TestKilledAttempts(t *testing.T) {
	for _, tc := range []struct {
		name  string
		reach string
		check string
		saved bool
	}{
		{"base taken", "runs/run_*/base", "true", false},
		{"recorded", "runs/run_*/session.json", "true", false},
		{"first attempt", "runs/run_*/attempts/*/session.json", "true", false},
		{"working", "cache/trees/*/*/tree/started", "true", true},
		{"sockets of a check", "ipc/run_*-1-check", "true", true},
		{"preparing a check", "runs/run_*/attempts/1/check/session.json", "true", true},
		{"checking", "cache/trees/*/*/tree/checking", "touch checking; sleep 600", true},
		{"one ended", "runs/run_*/attempts/1/manifest.json", "true", true},
		{"ended", "runs/run_*/manifest.json", "false", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			h, repo := newHome(t), repository(t, "echo a > a")
			second := "slow"
			if tc.name == "ended" {
				second = "failing"
			}
			p := h.bestOf(repo, tc.check, "failing", second)
			await(t, tc.name, func() bool { return exists(h, tc.reach) })
			p.kill()
			h.awaitCreated()
			h.age("runs/.*")
			h.gc("--force")
			if again := h.gc("--force"); len(again) > 0 {
				t.Errorf("the second gc found %+v", again)
			}
			h.checkTidy()
			for _, pattern := range []string{"runs/*/base", "runs/*/attempts/*/session*", "runs/*/attempts/*/*/session*"} {
				if exists(h, pattern) {
					t.Errorf("%s is left", pattern)
				}
			}
			v := h.only()
			if !v.Status.Terminal() || v.Outcome == nil {
				t.Fatalf("it stands as %s", v.Status)
			}
			if m := h.settled(v.ID).manifest; tc.saved && len(m.Attempts) != 2 {
				t.Errorf("%d attempts, want 2", len(m.Attempts))
			}
			if found, err := filepath.Glob(filepath.Join(h.dir, "runs/*/attempts/*/"+oneshot.DiffFile)); tc.saved &&
				(err != nil || len(found) == 0) {
				t.Errorf("no work is saved (%v)", err)
			}
		})
	}
}

// Ctrl-C ends all attempts and keeps what they did.
func TestInterruptedAttempts(t *testing.T) {
	t.Parallel()
	h, repo := newHome(t), repository(t, "echo a > a")
	p := h.bestOf(repo, "true", "slow", "slow")
	h.awaitStarted(2)
	p.signal(syscall.SIGINT)
	r := p.wait()
	if r.code != 130 || r.manifest.Outcome != state.OutcomeCancelled {
		t.Errorf("exit code %d, %s\n%s", r.code, r.manifest.Outcome, r.stderr)
	}
	for _, a := range r.manifest.Attempts {
		expect.Equal(t, "an attempt", a.Status, state.StatusCancelled)
		expect.Equal(t, "its files", a.Files, 2)
	}
	h.checkTidy()
}

// Ctrl-C ends a check, and so does holon stop after a kill. The turn had ended, and stays completed. What the check
// printed is shown, and nothing else of its end.
func TestInterruptedCheck(t *testing.T) {
	t.Parallel()
	const cancelled = "completed cancelled"
	for name, scenarios := range map[string][]string{"one": {"failing"}, "attempts": {"failing", "failing"},
		"killed": {"failing"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, repo := newHome(t), repository(t, "echo a > a")
			p := h.bestOf(repo, "echo begun; touch checking; sleep 600", slices.Clone(scenarios)...)
			await(t, "the checks", func() bool {
				found, _ := filepath.Glob(filepath.Join(h.dir, "cache/trees/*/*/tree/checking")) // the pattern is right
				return len(found) == len(scenarios)
			})
			if name == "killed" {
				p.kill()
				h.run(repo, "stop", "last")
				m := h.settled(h.only().ID).manifest
				expect.Equal(t, "its end", fmt.Sprint(m.Status, " ", m.Outcome), cancelled)
				return
			}
			p.signal(syscall.SIGINT)
			r := p.wait()
			if r.code != 130 || r.manifest.Outcome != state.OutcomeCancelled {
				t.Errorf("exit code %d, %s\n%s", r.code, r.manifest.Outcome, r.stderr)
			}
			ends := r.manifest.Attempts
			if len(ends) == 0 {
				ends = []state.Attempt{{Status: r.manifest.Status, Outcome: r.manifest.Outcome, Checked: r.manifest.Checked}}
			}
			for _, a := range ends {
				expect.Equal(t, "its end", fmt.Sprint(a.Status, " ", a.Outcome), cancelled)
				expect.Equal(t, "its check", a.Checked.Status, state.CheckNotRun)
				expect.Equal(t, "its output", a.Checked.Output, "begun\n")
			}
			expect.Equal(t, "JSON is shown", strings.ContainsAny(r.stderr, "{}"), false)
			h.checkTidy()
		})
	}
}

// awaitStarted waits for the commands of n attempts.
func (h *home) awaitStarted(n int) {
	h.t.Helper()
	await(h.t, "the commands", func() bool {
		found, _ := filepath.Glob(filepath.Join(h.dir, "cache/trees/*/*/tree/started")) // the pattern is right
		return len(found) == n
	})
}

// Attempts whose holon was killed go on when the run is attached to.
func TestAttachToAttempts(t *testing.T) {
	t.Parallel()
	h, repo := newHome(t), repository(t, "echo a > a")
	p := h.bestOf(repo, "true", "pausing", "slow")
	h.awaitStarted(2)
	p.kill()
	if v := h.only(); v.Status != state.StatusOrphaned || v.Container != "running" || len(v.Attempts) != 2 {
		t.Fatalf("%+v", v)
	}
	attached := h.begin(repo, "attach", "last")
	await(t, "both turns", func() bool {
		shown := attached.stderr.String()
		return strings.Contains(shown, "[1] ") && strings.Contains(shown, "[2] ")
	})
	attached.signal(syscall.SIGINT)
	r := attached.wait()
	if r.code != 130 || r.manifest.Status != state.StatusCancelled {
		t.Errorf("exit code %d, %s\n%s", r.code, r.manifest.Status, r.stderr)
	}
	for _, a := range r.manifest.Attempts {
		expect.Equal(t, "an attempt", a.Status, state.StatusCancelled)
		expect.Equal(t, "its files", a.Files > 0, true)
	}
	h.checkTidy()
}

// A run whose holon was killed while its result was checked, or before that began, keeps the end of its turn, and is
// checked when it is attached to.
func TestAttachToChecks(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		scenarios []string
		reach     string
	}{
		"cut":       {[]string{"failing"}, "cache/trees/*/*/tree/checking"},
		"cut of 2":  {[]string{"failing", "failing"}, "cache/trees/*/*/tree/checking"},
		"not begun": {[]string{"failing"}, "runs/run_*/diff.patch"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, repo := newHome(t), repository(t, "echo a > a")
			again := filepath.Join(repo, "input") // which the check has, too
			expect.NoError(t, os.Mkdir(again, 0o755))
			for i, name := range tc.scenarios {
				tc.scenarios[i] = scripted(t, name)
			}
			p := h.begin(repo, "run", "--models", strings.Join(tc.scenarios, ","), "--input", again, "--check",
				"touch checking; test -e $HOLON_INPUT_DIR/go || sleep 600", "do what the scenario says")
			await(t, name, func() bool { return exists(h, tc.reach) })
			p.kill()
			h.awaitCreated()
			expect.NoError(t, os.WriteFile(filepath.Join(again, "go"), nil, 0o644))
			r := h.run(repo, "attach", "last")
			if r.code != 0 || r.manifest.Status != state.StatusCompleted {
				t.Fatalf("exit code %d, %s, %+v\n%s", r.code, r.manifest.Status, r.manifest.Checked, r.stderr)
			}
			if c := r.manifest.Checked; c != nil {
				expect.Equal(t, "the check", c.Status, state.CheckPassed)
			}
			for _, a := range r.manifest.Attempts {
				expect.Equal(t, "the check of an attempt", a.Checked.Status, state.CheckPassed)
			}
			h.age("runs/.*")
			h.gc()
			h.checkTidy()
		})
	}
}

// A check has a container of its own: without the sockets of models and tools, without a network, as a user who can
// change neither what runs it nor what it is judged by, and nothing that an attempt left outside of its tree is there.
func TestCheckStandsAlone(t *testing.T) {
	t.Parallel()
	h, repo := newHome(t), repository(t, "echo a > a")
	leave := filepath.Join(t.TempDir(), "leave.yaml")
	expect.NoError(t, os.WriteFile(leave, []byte(`rounds:
  - calls: [{tool: ExecCommand, arguments: {cmd: "echo b >a; echo x >$HOME/.profile; echo x >/tmp/left; (sleep 500 &)"}}]
  - text: Done.
`), 0o644))
	const check = `test "$(cat a)" = b || exit 10
test ! -e $HOME/.profile && test ! -e /tmp/left || exit 11
ls /holon/host; test ! -e /holon/host/model.sock || exit 12
test "$(ls /sys/class/net)" = lo || exit 13
! kill -9 1 2>/dev/null || exit 14
! sh -c 'echo x >/holon/output/x' 2>/dev/null && ! ls /holon/state/* 2>/dev/null || exit 15
env | grep -c MODEL_SOCKET; test -z "$HOLON_MODEL_SOCKET" || exit 16`
	r := h.run(repo, "run", "--model", "scripted/"+leave, "--check", check, "--check-paths", "", "x")
	if r.code != 0 || r.manifest.Checked.Status != state.CheckPassed {
		t.Fatalf("exit code %d\n%+v\n%s", r.code, r.manifest.Checked, r.stderr)
	}
	isolation := h.settledPart(r.manifest.RunID, state.PartCheck).Isolation
	confined := maps.Collect(r.manifest.Isolation.Axes())
	for name, axis := range isolation.Axes() {
		expect.Equal(t, name, axis.Level, confined[name].Level)
	}
	h.checkTidy()
}

// settledPart is the manifest of a part of a run.
func (h *home) settledPart(run, part string) *state.Manifest {
	h.t.Helper()
	data, err := os.ReadFile(filepath.Join(h.dir, "runs", run, part, state.ManifestFile))
	expect.NoError(h.t, err)
	m, err := state.DecodeManifest(data)
	expect.NoError(h.t, err)
	return m
}
