package landing

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holon/runner/workspace"
	"holon/runner/workspace/git"
	"holon/test/expect"
	"holon/test/gittest"
)

// Damaged and hostile objects don't get past the quarantine.
func TestQuarantine(t *testing.T) {
	t.Parallel()
	finished := changedOnce(t, map[string]string{"a.txt": "a\n"})
	const (
		blob = "blob=$(echo x | git hash-object -w --stdin); "
		raw  = "; git hash-object -t tree -w --stdin --literally < t"
	)
	entry := func(mode, content, name string) string { // a tree with one entry
		return fmt.Sprintf(`blob=$(printf '%s' | git hash-object -w --stdin); printf '%s blob %%s\t%s\n' $blob | `+
			`git mktree`, content, mode, name)
	}
	for name, plant := range map[string]string{
		"harmless":             entry("100644", "x", "gitx"),
		"dot git":              entry("100644", "x", ".GIT"),
		"dot dot":              blob + `printf '40000 ..\0' > t; git mktree </dev/null | xxd -r -p >> t` + raw,
		"hfs":                  entry("100644", "x", `.g\342\200\214it`),
		"ntfs":                 entry("100644", "x", "git~1"),
		"link for .gitmodules": entry("120000", "/etc/passwd", ".gitmodules"),
		"option as submodule": entry("100644", `[submodule "x"]\n\tpath = x\n\turl = --upload-pack=touch\n`,
			".gitmodules"),
		"padded mode":  blob + `(printf '0100644 a\0'; printf %s $blob | xxd -r -p) > t` + raw,
		"missing blob": `printf '100644 blob 1111111111111111111111111111111111111111\ta\n' | git mktree --missing`,
		"not sorted": blob + `(printf '100644 b\0'; printf %s $blob | xxd -r -p; printf '100644 a\0'; ` +
			`printf %s $blob | xxd -r -p) > t` + raw,
	} {
		t.Run(name, func(t *testing.T) {
			o := finished(t)
			evil := gittest.NewRepo(t, nil)
			o.Diff.ResultTree = strings.TrimSpace(gittest.Run(t, evil, "sh", "-ec", plant))
			gittest.Run(t, evil, "cp", "-r", filepath.Join(evil, ".git/objects")+"/.", o.Objects)
			before := gittest.Fingerprint(t, o.Dir)
			_, err := Checkout(t.Context(), o)
			if name == "harmless" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			wantRefusal(t, err, git.CodeUnsafeObjects)
			t.Log(err)
			gittest.WantUntouched(t, before, gittest.Fingerprint(t, o.Dir))
		})
	}
}

// A person's changes in the working tree are never lost.
func TestRemove(t *testing.T) {
	t.Parallel()
	finished := changedOnce(t, map[string]string{"a.txt": "a\n", ".gitignore": "*.log\n"})
	for _, tc := range []struct {
		name, do string
		save     bool
		why      string // "" when it goes
		saved    string // content of the patch
	}{
		{name: "clean", do: "true"},
		{name: "gone already", do: "cd ..; rm -rf run_1"},
		{name: "ignored files", do: "echo x > x.log"},
		{name: "committed", do: "echo c > a.txt; git commit -qam c"},
		{name: "changed", do: "echo c > a.txt", why: "uncommitted changes"},
		{name: "staged", do: "echo c > a.txt; git add a.txt", why: "uncommitted changes"},
		{name: "untracked", do: "echo c > new", why: "uncommitted changes"},
		{name: "saved", do: "echo c > a.txt; echo staged > s; git add s; echo 'un tracked' > 'a file'", save: true,
			saved: "+un tracked"},
		{name: "saved but nested", do: "git init -q n; echo x > n/f", save: true, why: "another repository"},
		{name: "locked by another", do: "git worktree unlock .; git worktree lock --reason mine .",
			why: "locked: \"mine\""},
		{name: "unlocked", do: "git worktree unlock ."},
		{name: "detached with commits", do: "git checkout -q --detach; echo c > a.txt; git commit -qam c",
			why: "no branch"},
		{name: "detached on a branch", do: "git checkout -q --detach main"},
		{name: "another branch", do: "git checkout -q -b other"},
		{name: "merge under way", do: "echo c > a.txt; git commit -qam c; git checkout -q -b x HEAD~; echo d > " +
			"a.txt; git commit -qam d; ! git merge -q holon/run_1; git reset -q; git checkout -q .; touch $(git " +
			"rev-parse --git-path MERGE_HEAD)", why: "under way"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o := finished(t)
			repo := o.Dir
			result := checkedOut(t, o)
			gittest.Run(t, result.Path, "sh", "-ec", "("+tc.do+") >/dev/null 2>&1")
			removed, err := Remove(t.Context(), RemoveOptions{RunDir: o.RunDir, Save: tc.save})
			gittest.Run(t, repo, "git", "rev-parse", "--verify", "-q", "holon/run_1")
			if tc.why != "" {
				wantRefusal(t, err, CodeWorktreeInUse)
				if _, statErr := os.Stat(result.Path); statErr != nil || !strings.Contains(err.Error(), tc.why) {
					t.Errorf("%v, %v", err, statErr)
				}
				return
			}
			expect.NoError(t, err)
			if git.Exists(result.Path) || git.Exists(registrationPath(o.RunDir)) ||
				strings.Contains(gittest.Run(t, repo, "git", "worktree", "list"), "worktrees") {
				t.Error("the working tree, its registration or its entry in the repository is still there")
			}
			if tc.saved != "" {
				patch, err := os.ReadFile(removed.Saved)
				if err != nil || !strings.Contains(string(patch), tc.saved) {
					t.Errorf("saved %q, %v", patch, err)
				}
				gittest.Run(t, repo, "git", "checkout", "-q", "holon/run_1")
				gittest.Run(t, repo, "git", "apply", removed.Saved)
			}
			if again, err := Remove(t.Context(), RemoveOptions{RunDir: o.RunDir}); again != nil || err != nil {
				t.Errorf("the second time: %+v, %v", again, err)
			}
		})
	}
}

func TestRemoveBranch(t *testing.T) {
	t.Parallel()
	repo := gittest.NewRepo(t, map[string]string{"a.txt": "a\n"})
	tree := acquire(t, workspace.Options{Dir: repo})
	o := finished(t, repo, tree, func(dir string) { gittest.Write(t, dir, map[string]string{"a.txt": "b\n"}) })
	result := checkedOut(t, o)
	gittest.Run(t, result.Path, "sh", "-ec", "echo c > a.txt; git commit -qam c")
	_, err := Remove(t.Context(), RemoveOptions{RunDir: o.RunDir, DeleteBranch: true})
	wantRefusal(t, err, CodeBranchExists)
	gittest.Run(t, repo, "git", "merge", "-q", "holon/run_1")
	removed, err := Remove(t.Context(), RemoveOptions{RunDir: o.RunDir, DeleteBranch: true})
	if err != nil || !removed.BranchDeleted || gittest.Run(t, repo, "git", "branch", "--list", "holon/*") != "" {
		t.Errorf("%+v, %v", removed, err)
	}
}

// A repository that is gone leaves nothing to clean but the registration; a working tree without a repository is left.
func TestRemoveWithoutRepository(t *testing.T) {
	t.Parallel()
	repo := gittest.NewRepo(t, map[string]string{"a.txt": "a\n"})
	tree := acquire(t, workspace.Options{Dir: repo})
	o := finished(t, repo, tree, func(dir string) { gittest.Write(t, dir, map[string]string{"a.txt": "b\n"}) })
	result := checkedOut(t, o)
	gittest.Run(t, repo, "mv", ".git", "elsewhere")
	defer gittest.Run(t, repo, "mv", "elsewhere", ".git") // for the tree's release
	_, err := Remove(t.Context(), RemoveOptions{RunDir: o.RunDir, Save: true})
	wantRefusal(t, err, CodeWorktreeInUse)
	expect.NoError(t, os.RemoveAll(result.Path))
	if _, err := Remove(t.Context(), RemoveOptions{RunDir: o.RunDir}); err != nil ||
		git.Exists(registrationPath(o.RunDir)) {
		t.Error(err)
	}
}
