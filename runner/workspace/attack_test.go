package workspace

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"holon/runner/workspace/git"
	"holon/test/expect"
	"holon/test/gittest"

	"golang.org/x/sys/unix"
)

// Ignore rules that take git minutes are done without: those of an agent's tree as if they were not there, those of the
// user's by leaving untracked files out.
func TestSlowIgnoreRules(t *testing.T) {
	t.Parallel()
	plant := func(dir string) {
		files := map[string]string{".gitignore": strings.Repeat("[n]*[e]?[w]x\n", 80_000)}
		for i := range 1000 {
			files[fmt.Sprintf("%snew-%d", strings.Repeat("ne", 60), i)] = "x\n"
		}
		gittest.Write(t, dir, files)
	}
	t.Run("agent", func(t *testing.T) {
		t.Parallel()
		tree := acquire(t, Options{Dir: gittest.NewRepo(t, map[string]string{"a.txt": "a\n"})})
		plant(tree.Dir())
		diff, _ := diffOf(t, tree)
		wantWarning(t, diff, warnSlowIgnore, ".gitignore")
		if len(diff.Files) != 1001 {
			t.Errorf("%d files, warnings %+v", len(diff.Files), diff.Warnings)
		}
	})
	t.Run("user", func(t *testing.T) {
		t.Parallel()
		repo := gittest.NewRepo(t, map[string]string{"a.txt": "a\n"})
		plant(repo)
		gittest.Write(t, repo, map[string]string{"a.txt": "dirty\n"})
		dirty := acquire(t, Options{Dir: repo, IncludeDirty: true})
		if warnings := dirty.Info().Warnings; len(warnings) != 1 || warnings[0].Code != warnSlowIgnore {
			t.Errorf("warnings = %+v", warnings)
		}
		if got := gittest.Contents(t, dirty.Dir()); got["a.txt"] != "dirty\n" || len(got) != 1 {
			t.Errorf("%d files", len(got))
		}
	})
}

// Git would wait for a pipe in place of its index.
func TestPipeAsIndex(t *testing.T) {
	t.Parallel()
	repo := gittest.NewRepo(t, map[string]string{"a": "a"})
	index := filepath.Join(repo, ".git", "index")
	expect.NoError(t, os.Remove(index))
	expect.NoError(t, unix.Mkfifo(index, 0o600))
	_, err := Open(t.Context(), Options{Dir: repo, CacheDir: t.TempDir(), IncludeDirty: true})
	if e, ok := errors.AsType[*git.Error](err); !ok || e.Code != git.CodeBrokenRepository || e.Param != index {
		t.Errorf("Open: %v, want %s of %s", err, git.CodeBrokenRepository, index)
	}
}

// A commit whose tree holds itself many times is left out, and the change is there.
func TestBombAsHistory(t *testing.T) {
	defer func(most int) { maxHistoryTree = most }(maxHistoryTree)
	maxHistoryTree = 1 << 20
	repo := gittest.NewRepo(t, map[string]string{"a": "a"})
	tree := acquire(t, Options{Dir: repo, IncludeDirty: true})
	gittest.Run(t, tree.Dir(), "sh", "-ec", `b=$(echo x | git hash-object -w --stdin)
		t=$(for i in 0 1 2 3 4 5 6 7 8 9; do printf "100644 blob $b\tf$i\n"; done | git mktree)
		for l in 1 2 3 4; do
			t=$(for i in 0 1 2 3 4 5 6 7 8 9; do printf "040000 tree $t\td$i\n"; done | git mktree)
		done
		git update-ref HEAD $(git commit-tree -p HEAD -m bomb $t)
		echo z > b`)
	d, err := tree.Diff(t.Context(), DiffOptions{Patch: filepath.Join(t.TempDir(), "p"),
		Objects: filepath.Join(t.TempDir(), "o")})
	expect.NoError(t, err)
	if d.History != nil {
		t.Errorf("history %+v, want none", d.History)
	}
	wantChanges(t, d, "A b")
	if !slices.ContainsFunc(d.Warnings, func(w Warning) bool { return strings.Contains(w.Message, "printed more than") }) {
		t.Errorf("warnings %+v, want one that says what git printed", d.Warnings)
	}
}
