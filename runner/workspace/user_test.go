package workspace

import (
	"os"
	"path/filepath"
	"testing"

	"holon/runner/workspace/git"
	"holon/test/gittest"
)

// Permissions do not bind root, so the tests that depend on them run once more as an ordinary user.
func TestAsOrdinaryUser(t *testing.T) {
	t.Parallel()
	user := gittest.NewOrdinaryUser(t)
	user.Env = append(user.Env, foreignVariable+"="+filepath.Join(user.Home, "foreign"))
	user.Run(t, "^(TestHostileTree|TestCrash.*|TestUnreadable|TestPlainDirectory)$")
	user.Run(t, "^TestForeignFiles$")
	// As a container of another user would, leave what its holder may not remove.
	trees, err := filepath.Glob(filepath.Join(user.Home, "foreign/cache/trees/*/0/tree"))
	if err != nil || len(trees) != 1 {
		t.Fatalf("trees = %v, %v, want one", trees, err)
	}
	gittest.Write(t, trees[0], map[string]string{"theirs/f": "x"})
	user.Run(t, "^TestForeignFiles$")
}

const foreignVariable = "HOLON_TEST_FOREIGN"

// A tree that can't be cleaned is put aside and a new one is made.
func TestForeignFiles(t *testing.T) {
	t.Parallel()
	dir := os.Getenv(foreignVariable)
	if dir == "" || os.Getuid() == 0 {
		t.Skip("run by TestAsOrdinaryUser")
	}
	repo := filepath.Join(dir, "repo")
	_, err := os.Stat(repo)
	second := err == nil
	if !second {
		gittest.Run(t, "", "git", "init", "-q", "-b", "main", repo)
		gittest.Write(t, repo, map[string]string{"a.txt": "a\n"})
		gittest.Run(t, repo, "git", "add", "-A")
		gittest.Run(t, repo, "git", "commit", "-qm", "x")
	}
	tree := acquire(t, Options{Dir: repo, CacheDir: filepath.Join(dir, "cache")})
	wantPristine(t, tree)
	if _, err := os.Stat(filepath.Join(tree.slot.dir, "dead-0/theirs/f")); (err == nil) != second {
		t.Fatalf("second = %v, the abandoned tree: %v", second, err)
	}
}

// What can't be read of the user's is refused or warned about, and its
// permissions stay as they are.
func TestUnreadable(t *testing.T) {
	t.Parallel()
	if os.Getuid() == 0 {
		t.Skip("root reads everything")
	}
	plain := filepath.Join(t.TempDir(), "plain")
	gittest.Write(t, plain, map[string]string{"a": "a\n", "locked": "x\n", "d/x": "x\n"})
	gittest.Run(t, plain, "chmod", "000", "locked", "d")
	t.Cleanup(func() { os.Chmod(filepath.Join(plain, "d"), 0o700) })
	tree := acquire(t, Options{Dir: plain})
	if info := tree.Info(); len(info.Warnings) != 2 || info.Warnings[0].Code != WarnUnreadable {
		t.Fatalf("warnings = %+v", info.Warnings)
	}
	for _, name := range []string{"locked", "d"} {
		if st, err := os.Lstat(filepath.Join(plain, name)); err != nil || st.Mode().Perm() != 0 {
			t.Fatalf("%s now has mode %v, %v", name, st.Mode(), err)
		}
	}

	repo := gittest.NewRepo(t, map[string]string{"a": "a\n"})
	gittest.Write(t, repo, map[string]string{"locked": "x\n"})
	gittest.Run(t, repo, "chmod", "000", "locked")
	source, err := Open(t.Context(), Options{Dir: repo, IncludeDirty: true, CacheDir: filepath.Join(t.TempDir(), "c")})
	if err == nil {
		_, err = source.Acquire(t.Context())
	}
	wantCode(t, err, git.CodePermission)
}
