package e2e

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"holon/responses"
	"holon/responses/turns"
	"holon/state"
	"holon/test/expect"
)

// The main job: a failing test is repaired on a private copy, the result is
// reviewed and applied.
func TestUserDemo(t *testing.T) {
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
	switch {
	case rec.Status != responses.StatusCompleted:
		t.Errorf("record: rec.Status = %q, want %q", rec.Status, responses.StatusCompleted)
	case rec.Rounds != 5:
		t.Errorf("record: rec.Rounds = %d, want 5", rec.Rounds)
	case rec.ToolCalls.Total != 5:
		t.Errorf("record: rec.ToolCalls.Total = %d, want 5", rec.ToolCalls.Total)
	case rec.Model != "scripted/demo":
		t.Errorf(`record: rec.Model = %q, want "scripted/demo"`, rec.Model)
	}
	m := r.manifest
	switch {
	case m.Status != state.StatusCompleted:
		t.Errorf("manifest: m.Status = %q, want %q", m.Status, state.StatusCompleted)
	case m.Outcome != state.OutcomeSuccess:
		t.Errorf("manifest: m.Outcome = %q, want %q", m.Outcome, state.OutcomeSuccess)
	case m.Error != nil:
		t.Errorf("manifest: m.Error = %+v, want nil", m.Error)
	case m.Name != "try it":
		t.Errorf(`manifest: m.Name = %q, want "try it"`, m.Name)
	case m.Image != baseImage:
		t.Errorf("manifest: m.Image = %q, want %q", m.Image, baseImage)
	}
	if m.Usage == nil || m.Usage.TotalTokens == 0 || m.Usage.Usage != *rec.Usage {
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
	if applied.code != 0 || applied.stdout != "written\tsrc/slug.sh\n" {
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
	expect.Equal(t, "r.stdout", r.stdout, "The command failed as it should.\n")
	expect.Equal(t, "rec.ToolCalls.Total", rec.ToolCalls.Total, 1)
	expect.Equal(t, "rec.ToolCalls.Failed", rec.ToolCalls.Failed, 0)
	checkChanged(t, r)

	r = h.play(1, repo, "diverging")
	rec = checkRecord(t, r)
	switch f := r.failure(t); {
	case f.Code != "scenario_diverged":
		t.Errorf(`f.Code = %q, want "scenario_diverged"`, f.Code)
	case rec.Status != responses.StatusFailed:
		t.Errorf("rec.Status = %q, want %q", rec.Status, responses.StatusFailed)
	case rec.Error.Code != f.Code:
		t.Errorf("rec.Error.Code = %q, want %q", rec.Error.Code, f.Code)
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
	expect.Contains(t, "container.log", r.read(t, "container.log"), "msg=serving")
	session := filepath.Join(r.dir, "session")
	if _, err := os.Stat(filepath.Join(session, "output/turns", r.manifest.Turn.TurnID, "turn.json")); err != nil {
		t.Error(err)
	}
	expect.NoError(t, os.RemoveAll(session))
	checkRecord(t, r) // which lists nothing of the session
}

// Files that a turn leaves under the names of the host's record are not taken
// for it, and nothing that is left prevents the change from being collected.
func TestUserHostileLeftovers(t *testing.T) {
	t.Parallel()
	h, repo := newHome(t), repository(t, "echo a > a")
	r := h.play(0, repo, "hostile")
	checkRecord(t, r)
	checkChanged(t, r, "added by-agent.txt")
	for _, name := range []string{"manifest.json", "diff.patch", "summary.md"} {
		expect.Equal(t, name, r.read(t, turns.ArtifactsDir+"/"+name), "planted\n")
	}
	if r.read(t, turns.ArtifactsDir+"/report.md") != "report\n" {
		t.Error("the agent's own artifact is missing")
	}
	switch warnings := strings.Join(r.manifest.Warnings, "\n"); {
	case !strings.Contains(warnings, "link"):
		t.Errorf(`warnings = %q, want it to contain "link"`, warnings)
	}
	if r := h.run(repo, "apply", "last"); r.code != 0 {
		t.Errorf("apply: %s", r.stderr)
	}
}
