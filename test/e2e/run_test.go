package e2e

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"holon/responses"
	"holon/state"
)

// The main job: a failing test is repaired on a private copy, the result is
// reviewed and applied.
func TestDemo(t *testing.T) {
	t.Parallel()
	h, project := newHome(t), demoProject(t)
	before := snapshot(t, project)
	r := h.run(project, "run", "--model", "scripted/demo", "--name", "try it", "fix the failing test")
	if r.code != 0 || !strings.Contains(r.stdout, "The test passes now.") {
		t.Fatalf("exit code %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	if diff := cmp.Diff(before, snapshot(t, project)); diff != "" {
		t.Errorf("the user's repository was touched:\n%s", diff)
	}

	rec := checkRecord(t, r)
	if rec.Status != responses.StatusCompleted || rec.Rounds != 5 || rec.ToolCalls.Total != 5 ||
		rec.Model != "scripted/demo" {
		t.Errorf("record: %+v", rec)
	}
	m := r.manifest
	if m.Status != state.StatusCompleted || m.Outcome != state.OutcomeSuccess || m.Error != nil || m.Name != "try it" ||
		m.Image != baseImage {
		t.Errorf("manifest: %+v", m)
	}
	if m.Usage == nil || m.Usage.TotalTokens == 0 || *m.Usage != *rec.Usage {
		t.Errorf("usage: %+v, the record has %+v", m.Usage, rec.Usage)
	}
	if want := (state.Limits{TimeoutMS: 3_600_000, MaxRounds: 200, MaxOutput: 4 << 30, DiskBytes: 10 << 30,
		MemoryBytes: 2 << 30, Pids: 512, CPUs: min(4, float64(runtime.NumCPU()))}); m.Limits != want {
		t.Errorf("limits: %+v, want %+v", m.Limits, want)
	}
	if logs, _ := filepath.Glob(filepath.Join(r.dir, "tools/*/stdout.log")); len(logs) == 0 {
		t.Error("the tools' logs are missing")
	}
	checkChanged(t, r, "modified src/slug.sh")

	applied := h.run(project, "apply", m.RunID)
	if applied.code != 0 || applied.stdout != "  written  src/slug.sh\n" {
		t.Fatalf("apply: exit code %d\n%s%s", applied.code, applied.stdout, applied.stderr)
	}
	sh(t, project, "sh test.sh")
}

// A command that fails is the agent's business; a scenario that meets another
// reality than it expects fails the run, and what was done is kept.
func TestFailingCommands(t *testing.T) {
	t.Parallel()
	h, repo := newHome(t), repository(t, "echo a > a")

	r := h.play(0, repo, "failing")
	rec := checkRecord(t, r)
	if r.stdout != "The command failed as it should.\n" || rec.ToolCalls.Total != 1 || rec.ToolCalls.Failed != 0 {
		t.Errorf("%q, %+v", r.stdout, rec.ToolCalls)
	}
	checkChanged(t, r)

	r = h.play(1, repo, "diverging")
	rec = checkRecord(t, r)
	if f := r.failure(t); f.Code != "scenario_diverged" || rec.Status != responses.StatusFailed ||
		rec.Error.Code != f.Code {
		t.Errorf("%+v, record %+v", f, rec)
	}
	checkChanged(t, r, "added half.txt")
}

// A scenario that cannot be played is refused before the turn begins.
func TestInvalidScenario(t *testing.T) {
	t.Parallel()
	h, repo := newHome(t), repository(t, "echo a > a")
	r := h.run(repo, "run", "--model", scripted(t, "invalid"), "x")
	if r.code != 2 && r.code != 4 || !strings.Contains(r.stderr, "txet") {
		t.Errorf("exit code %d\n%s", r.code, r.stderr)
	}
	if r.manifest != nil && r.manifest.Turn != nil {
		t.Errorf("a turn began: %+v", r.manifest.Turn)
	}
}

// A command that takes too much memory is killed, and the turn goes on.
func TestMemoryLimit(t *testing.T) {
	t.Parallel()
	h, repo := newHome(t), repository(t, "echo a > a")
	r := h.play(0, repo, "memory", "--memory", "96m")
	checkRecord(t, r)
	if r.manifest.Limits.MemoryBytes != 96<<20 || r.stdout != "The command was killed for its memory.\n" {
		t.Errorf("%+v: %s", r.manifest.Limits, r.stdout)
	}
}

// --input, --skill and --env reach the agent, and it can change none of them.
func TestWhatTheAgentIsGiven(t *testing.T) {
	t.Parallel()
	h, repo := newHome(t), repository(t, "echo a > a")
	given := t.TempDir()
	sh(t, given, `mkdir in greeting
echo given-notes > in/notes.txt
printf -- '---\nname: greeting\ndescription: How to greet.\n---\n\nsay-hello-kindly\n' > greeting/SKILL.md`)
	before := snapshot(t, given)
	r := h.play(0, repo, "given", "--input", filepath.Join(given, "in"), "--skill", filepath.Join(given, "greeting"),
		"--env", "GREETING=hello there")
	checkRecord(t, r)
	for _, want := range []string{"given-notes", "say-hello-kindly", "GREETING=hello there"} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("the agent did not see %q:\n%s", want, r.stdout)
		}
	}
	if diff := cmp.Diff(before, snapshot(t, given)); diff != "" {
		t.Errorf("what was given was changed:\n%s", diff)
	}
}

// --keep keeps what a person wants to look at, and never the container.
func TestKeep(t *testing.T) {
	t.Parallel()
	h, repo := newHome(t), repository(t, "echo a > a")
	r := h.play(0, repo, "failing", "--keep")
	if log := r.read(t, "container.log"); !strings.Contains(log, "msg=serving") {
		t.Errorf("container.log: %q", log)
	}
	session := filepath.Join(r.dir, "session")
	if _, err := os.Stat(filepath.Join(session, "output/turns", r.manifest.Turn.TurnID, "turn.json")); err != nil {
		t.Error(err)
	}
	if err := os.RemoveAll(session); err != nil {
		t.Error(err)
	}
	checkRecord(t, r) // which lists nothing of the session
}

// Files that a turn leaves under the names of the host's record are not taken
// for it, and nothing that is left prevents the change from being collected.
func TestHostileLeftovers(t *testing.T) {
	t.Parallel()
	h, repo := newHome(t), repository(t, "echo a > a")
	r := h.play(0, repo, "hostile")
	checkRecord(t, r)
	checkChanged(t, r, "added by-agent.txt")
	if where := r.contains(t, "planted"); !slices.Equal(onlyLogs(where), where) {
		t.Errorf("files of the turn stand for the host's: %v", where)
	}
	if r.read(t, "report.md") != "report\n" {
		t.Error("the agent's own artifact is missing")
	}
	if warnings := strings.Join(r.manifest.Warnings, "\n"); !strings.Contains(warnings, "manifest.json") ||
		!strings.Contains(warnings, "checkout.json") || !strings.Contains(warnings, "link") {
		t.Errorf("warnings:\n%s", warnings)
	}
	if r := h.run(repo, "apply", "last"); r.code != 0 {
		t.Errorf("apply: %s", r.stderr)
	}
}

// onlyLogs keeps the files that rightly hold what the agent said and did.
func onlyLogs(paths []string) (logs []string) {
	for _, path := range paths {
		if strings.HasSuffix(path, ".ndjson") || strings.Contains(path, "/tools/") {
			logs = append(logs, path)
		}
	}
	return logs
}
