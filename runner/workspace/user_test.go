package workspace

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// Permissions mean nothing to root, so the tests that depend on them run once
// more as nobody.
func TestAsOrdinaryUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("the other tests already run as an ordinary user")
	}
	dir, err := os.MkdirTemp("", "holon-ordinary-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	const nobody = 65534
	if err := os.Chown(dir, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	again := func(tests string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run", "^("+tests+")$", "-test.count=1")
		cmd.Dir = dir
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "TMPDIR=" + dir,
			foreignVariable + "=" + filepath.Join(dir, "foreign")}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	again("TestHostileTree|TestCrash.*|TestUnreadable|TestPlainDirectory|TestApply|TestNoConfigurationExecutes|TestLookAlike")
	again("TestForeignFiles")
	// As a container of another user would, leave what its holder may not remove.
	trees, err := filepath.Glob(filepath.Join(dir, "foreign/cache/trees/*/0/tree"))
	if err != nil || len(trees) != 1 {
		t.Fatalf("trees = %v, %v", trees, err)
	}
	write(t, trees[0], map[string]string{"theirs/f": "x"})
	again("TestForeignFiles")
}

const foreignVariable = "HOLON_TEST_FOREIGN"

// A tree that can't be cleaned is put aside and a new one is made.
func TestForeignFiles(t *testing.T) {
	dir := os.Getenv(foreignVariable)
	if dir == "" || os.Getuid() == 0 {
		t.Skip("run by TestAsOrdinaryUser")
	}
	isolate(t)
	repo := filepath.Join(dir, "repo")
	_, err := os.Stat(repo)
	second := err == nil
	if !second {
		run(t, "", "git", "init", "-q", "-b", "main", repo)
		write(t, repo, map[string]string{"a.txt": "a\n"})
		run(t, repo, "git", "add", "-A")
		run(t, repo, "git", "commit", "-qm", "x")
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
	if os.Getuid() == 0 {
		t.Skip("root reads everything")
	}
	isolate(t)
	plain := filepath.Join(t.TempDir(), "plain")
	write(t, plain, map[string]string{"a": "a\n", "locked": "x\n", "d/x": "x\n"})
	run(t, plain, "chmod", "000", "locked", "d")
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

	repo := newRepo(t, map[string]string{"a": "a\n"})
	write(t, repo, map[string]string{"locked": "x\n"})
	run(t, repo, "chmod", "000", "locked")
	source, err := Open(t.Context(), Options{Dir: repo, IncludeDirty: true, CacheDir: filepath.Join(t.TempDir(), "c")})
	if err == nil {
		_, err = source.Acquire(t.Context())
	}
	wantCode(t, err, CodePermission)
}
