package workspace

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"holon/runner/workspace/git"
	"holon/test/expect"
	"holon/test/gittest"
)

const foreignVariable = "HOLON_TEST_FOREIGN"

// A tree that can't be cleaned, because a container of another user left files there, is put aside and a new one is
// made. Root plays the container, and runs the test once more as a user without privileges.
func TestForeignFiles(t *testing.T) {
	t.Parallel()
	if dir := os.Getenv(foreignVariable); dir != "" {
		acquireAmongForeign(t, dir)
		return
	}
	if os.Getuid() != 0 {
		t.Skip("only root can leave files that another may not remove")
	}
	home, err := os.MkdirTemp("", "holon-foreign-")
	expect.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(home) })
	const nobody = 65534
	expect.NoError(t, os.Chown(home, nobody, nobody))
	runAgain := func() {
		cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run", "^TestForeignFiles$", "-test.count=1")
		cmd.Dir, cmd.Env = home, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home,
			foreignVariable + "=" + filepath.Join(home, "foreign")}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	runAgain()
	trees, err := filepath.Glob(filepath.Join(home, "foreign/cache/trees/*/0/tree"))
	if err != nil || len(trees) != 1 {
		t.Fatalf("trees = %v, %v, want one", trees, err)
	}
	gittest.Write(t, trees[0], map[string]string{"theirs/f": "x"})
	runAgain()
}

func acquireAmongForeign(t *testing.T, dir string) {
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

// What can't be read of the user's is refused or warned about, and its permissions stay as they are.
func TestUserUnreadable(t *testing.T) {
	t.Parallel()
	if os.Getuid() == 0 {
		t.Skip("root reads everything")
	}
	plain := filepath.Join(t.TempDir(), "plain")
	gittest.Write(t, plain, map[string]string{"a": "a\n", "locked": "x\n", "d/x": "x\n"})
	gittest.Run(t, plain, "chmod", "000", "locked", "d")
	t.Cleanup(func() { os.Chmod(filepath.Join(plain, "d"), 0o700) })
	tree := acquire(t, Options{Dir: plain})
	if info := tree.Info(); len(info.Warnings) != 2 || info.Warnings[0].Code != warnUnreadable {
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
