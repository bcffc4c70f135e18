package e2e

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"holon/runner/workspace"
)

// applyHere applies the last run in dir.
func (h *home) applyHere(dir string) {
	h.t.Helper()
	if r := h.run(dir, "apply", "last"); r.code != 0 {
		h.t.Fatalf("apply: exit code %d\n%s", r.code, r.stderr)
	}
}

// wantUntouched fails when the user's directory is not byte for byte as before.
func wantUntouched(t *testing.T, dir string, before map[string]string) {
	t.Helper()
	if diff := cmp.Diff(before, snapshot(t, dir)); diff != "" {
		t.Errorf("the user's directory was touched:\n%s", diff)
	}
}

// A repository with a submodule: its files are there to be read.
func TestSubmodule(t *testing.T) {
	t.Parallel()
	h, lib := newHome(t), repository(t, "echo from-the-submodule > inside.txt")
	repo := repository(t, "echo outer > outer.txt; git submodule --quiet add '"+lib+"' lib")
	before := snapshot(t, repo)
	r := h.play(0, repo, "submodule")
	checkRecord(t, r)
	checkChanged(t, r, "modified outer.txt")
	wantUntouched(t, repo, before)
	h.applyHere(repo)
	if got := sh(t, repo, "cat outer.txt; git status --porcelain"); got != "outer\nouter\n M outer.txt\n" {
		t.Errorf("%q", got)
	}
}

// A directory without a repository works by copy.
func TestPlainDirectory(t *testing.T) {
	t.Parallel()
	h, dir := newHome(t), t.TempDir()
	sh(t, dir, "echo plain-note > note.txt")
	before := snapshot(t, dir)
	r := h.play(0, dir, "plain")
	checkRecord(t, r)
	checkChanged(t, r, "added sub/new.txt", "modified note.txt")
	if info := r.manifest.Workspace.Source; info.Kind != workspace.KindCopy {
		t.Errorf("workspace: %+v", info)
	}
	wantUntouched(t, dir, before)
	h.applyHere(dir)
	if got := sh(t, dir, "cat note.txt sub/new.txt"); got != "plain-note\nagent\nn\n" {
		t.Errorf("%q", got)
	}
}

// Uncommitted changes are part of what the agent sees, unless they are not
// wanted; they are never part of its change.
func TestDirtyTree(t *testing.T) {
	for _, tc := range []struct {
		name, flag     string
		included       bool
		sees, seesNone string
	}{
		{"included", "--include-dirty=true", true, "edited", "committed"},
		{"left out", "--include-dirty=false", false, "committed", "fresh"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			h, repo := newHome(t), repository(t, "echo committed > tracked.txt; echo base > other.txt")
			sh(t, repo, "echo edited > tracked.txt; echo fresh > untracked.txt")
			before := snapshot(t, repo)
			r := h.play(0, repo, "dirty", tc.flag)
			checkRecord(t, r)
			if !strings.Contains(r.stdout, tc.sees) || strings.Contains(r.stdout, tc.seesNone) {
				t.Errorf("the agent saw:\n%s", r.stdout)
			}
			if info := r.manifest.Workspace.Source; !info.Dirty || info.IncludedDirty != tc.included {
				t.Errorf("workspace: %+v", info)
			}
			checkChanged(t, r, "modified other.txt")
			wantUntouched(t, repo, before)
			h.applyHere(repo)
			if got := sh(t, repo, "cat tracked.txt untracked.txt other.txt"); got != "edited\nfresh\nagent\n" {
				t.Errorf("%q", got)
			}
		})
	}
}
