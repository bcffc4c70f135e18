package workspace

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"holon/runner/workspace/git"
	"holon/test/expect"
	"holon/test/gittest"

	"golang.org/x/sys/unix"
)

func TestTwoTreesAtOnce(t *testing.T) {
	t.Parallel()
	repo := gittest.NewRepo(t, map[string]string{"a.txt": "a\n"})
	cache := filepath.Join(t.TempDir(), "cache")
	first, second := acquire(t, Options{Dir: repo, CacheDir: cache, Keep: 1}),
		acquire(t, Options{Dir: repo, CacheDir: cache, Keep: 1})
	if first.Dir() == second.Dir() {
		t.Fatal("two runs share a tree")
	}
	gittest.Write(t, first.Dir(), map[string]string{"one": "1"})
	gittest.Write(t, second.Dir(), map[string]string{"two": "2"})
	for tree, want := range map[*Tree]string{first: "A one", second: "A two"} {
		diff, _ := diffOf(t, tree)
		wantChanges(t, diff, want)
		expect.NoError(t, tree.Release(t.Context()))
		if err := tree.Release(t.Context()); err != nil {
			t.Fatalf("second release: %v", err)
		}
		_, err := tree.Diff(t.Context(), DiffOptions{Patch: filepath.Join(t.TempDir(), "p")})
		wantCode(t, err, CodeReleased)
	}
	if _, err := os.Stat(first.Dir()); err != nil {
		t.Fatalf("the kept tree is gone: %v", err)
	}
	if _, err := os.Stat(second.Dir()); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("the tree beyond Keep is still there: %v", err)
	}
}

// Temporary files of an unfinished claim are removed, and those next to the slots, but not in a slot in use.
func TestSweepSlots(t *testing.T) {
	t.Parallel()
	repo := gittest.NewRepo(t, map[string]string{"a.txt": "a\n"})
	cache := filepath.Join(t.TempDir(), "cache")
	free, used := acquire(t, Options{Dir: repo, CacheDir: cache, Keep: 2}),
		acquire(t, Options{Dir: repo, CacheDir: cache, Keep: 2})
	const half = "../.tmp-0123456789abcdef"
	for _, tree := range []*Tree{free, used} {
		gittest.Write(t, tree.Dir(), map[string]string{half: "run_1", "../" + half: "the source"})
	}
	expect.NoError(t, free.Release(t.Context()))
	expect.NoError(t, SweepSlots(t.Context(), cache))
	for _, left := range []string{half, "../" + half} {
		if _, err := os.Stat(filepath.Join(free.Dir(), left)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s of a free slot is left: %v", left, err)
		}
	}
	if _, err := os.Stat(filepath.Join(used.Dir(), half)); err != nil {
		t.Errorf("it is gone from a slot in use: %v", err)
	}
}

// A holder that dies leaves everything as it was at that moment; the next one starts from the base all the same.
func TestUserCrashBetweenAcquireAndRelease(t *testing.T) {
	t.Parallel()
	repo := gittest.NewRepo(t, map[string]string{"a.txt": "a\n", "d/b.txt": "b\n"})
	cache := filepath.Join(t.TempDir(), "cache")
	for _, harm := range []string{
		"echo x > a.txt; rm -r d; echo y > new", "rm -rf ../git ../result", "rm ../index", "echo garbage > ../index",
		": > ../index",
		"rm ../git/holon-format; rm -r ../git/refs",
		"mkdir -p ../trash/1/2/3; mkfifo ../trash/1/2/p; chmod 0 ../trash/1", "rm -rf .git; mkdir -p .git/a/b",
		"mkdir -p ../result/objects",
	} {
		tree := acquire(t, Options{Dir: repo, CacheDir: cache})
		gittest.Write(t, tree.Dir(), map[string]string{"a.txt": "changed\n"})
		diffOf(t, tree)
		gittest.Run(t, tree.Dir(), "sh", "-ec", harm)
		if err := tree.slot.unlock(); err != nil { // what the kernel does for the dead
			t.Fatal(err)
		}
		tree.slot.lock = nil
		next := acquire(t, Options{Dir: repo, CacheDir: cache})
		if next.Dir() != tree.Dir() {
			t.Fatalf("%s: the slot was not reused", harm)
		}
		wantPristine(t, next)
		expect.NoError(t, next.Release(t.Context()))
	}
}

// A base that moves between runs: only what differs is written.
func TestBaseMoves(t *testing.T) {
	t.Parallel()
	repo := gittest.NewRepo(t, map[string]string{"a.txt": "1\n", "stays": "s\n", "d/x": "x\n"})
	cache := filepath.Join(t.TempDir(), "cache")
	tree := acquire(t, Options{Dir: repo, CacheDir: cache})
	handOutLater(tree)
	kept, _ := os.Lstat(filepath.Join(tree.Dir(), "stays"))
	expect.NoError(t, tree.Release(t.Context()))
	for _, step := range []string{"echo 2 > a.txt", "rm -r d; echo f > d", "rm d; mkdir d; echo y > d/y",
		"chmod +x a.txt", "rm a.txt; ln -s stays a.txt"} {
		gittest.Run(t, repo, "sh", "-ec", step+"; git add -A; git commit -qm x")
		tree := acquire(t, Options{Dir: repo, CacheDir: cache})
		handOutLater(tree)
		wantPristine(t, tree)
		now, err := os.Lstat(filepath.Join(tree.Dir(), "stays"))
		if err != nil || !os.SameFile(kept, now) {
			t.Fatalf("an unchanged file was rewritten: %v", err)
		}
		expect.NoError(t, tree.Release(t.Context()))
	}
}

// handOutLater lets the tree be one that was written long before it was handed
// out. A file that was written less than a tick before is written again.
func handOutLater(tree *Tree) { tree.record.header.Stamp += int64(time.Second) }

func TestPrune(t *testing.T) {
	t.Parallel()
	cache := filepath.Join(t.TempDir(), "cache")
	gone, stays := gittest.NewRepo(t, map[string]string{"a": "a"}), gittest.NewRepo(t, map[string]string{"a": "a"})
	released, kept := acquire(t, Options{Dir: gone, CacheDir: cache}), acquire(t, Options{Dir: stays, CacheDir: cache})
	expect.NoError(t, os.RemoveAll(gone))
	if list, err := Prune(t.Context(), cache, false, nil); err != nil || len(list) != 0 {
		t.Fatalf("pruned %v, %v while in use", list, err)
	}
	expect.NoError(t, released.slot.unlock())
	released.slot.lock = nil
	list, err := Prune(t.Context(), cache, false, nil)
	if err != nil || !slices.Equal(list, []string{gone}) {
		t.Fatalf("pruned %v, %v; want %s", list, err, gone)
	}
	if _, err := os.Stat(filepath.Dir(released.slot.dir)); !errors.Is(err, os.ErrNotExist) {
		t.Fatal("the trees of a vanished repository are still there")
	}
	if _, err := os.Stat(kept.Dir()); err != nil {
		t.Fatal(err)
	}
	if list, err := Prune(t.Context(), filepath.Join(cache, "absent"), false, nil); err != nil || list != nil {
		t.Fatalf("pruned %v, %v", list, err)
	}
}

func TestManyFiles(t *testing.T) {
	repo := filepath.Join(t.TempDir(), "repo")
	makeRepo(t, repo, 5000)
	tree := acquire(t, Options{Dir: repo})
	wantPristine(t, tree)
	gittest.Run(t, tree.Dir(), "sh", "-ec", "echo changed >> d0/e7/f7.go; rm d1/e99/f4999.go; mkdir node_modules; cd "+
		"node_modules; for i in $(seq 500); do echo $i > $i; done")
	diff, _ := diffOf(t, tree)
	if len(diff.Files) != 502 {
		t.Fatalf("%d changes", len(diff.Files))
	}
	recycled(t, tree)
}

// makeRepo makes n files of about 2 KiB, 50 in a folder, three deep.
func makeRepo(t testing.TB, dir string, n int) {
	t.Helper()
	gittest.Run(t, "", "git", "init", "-q", "-b", "main", dir)
	var stream bytes.Buffer
	stream.WriteString("commit refs/heads/main\ncommitter P <p@localhost> 1700000000 +0000\ndata 4\ninit\n")
	for i := range n {
		content := strings.Repeat(fmt.Sprintf("line of file %d, %x\n", i, i*7919), 30+i%80)
		fmt.Fprintf(&stream, "M 100644 inline d%d/e%d/f%d.go\ndata %d\n%s\n", i/2500, i/50%50+i/2500*50, i,
			len(content), content)
	}
	cmd := exec.CommandContext(t.Context(), "git", "fast-import", "--quiet")
	cmd.Dir, cmd.Stdin = dir, &stream
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("fast-import: %v\n%s", err, out)
	}
	gittest.Run(t, dir, "git", "reset", "-q", "--hard")
}

func TestCancelledDiff(t *testing.T) {
	t.Parallel()
	tree := acquire(t, Options{Dir: gittest.NewRepo(t, map[string]string{"a.txt": "a\n"})})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	patch := filepath.Join(t.TempDir(), "p")
	_, err := tree.Diff(ctx, DiffOptions{Patch: patch})
	wantCode(t, err, git.CodeCancelled)
	if entries, _ := os.ReadDir(filepath.Dir(patch)); len(entries) > 0 {
		t.Fatalf("left %v", entries)
	}
	diffOf(t, tree)
}

// A full disk is a typed error, and with space again everything works.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("needs root to mount a small file system")
	}
	repo := gittest.NewRepo(t, map[string]string{"a.txt": "a\n", "big": strings.Repeat("0123456789abcdef", 1<<15)})
	cache := filepath.Join(t.TempDir(), "cache")
	expect.NoError(t, os.Mkdir(cache, 0o700))
	if err := unix.Mount("tmpfs", cache, "tmpfs", 0, "size=2m"); err != nil {
		t.Skipf("can't mount: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(cache, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	filler := filepath.Join(cache, "filler")
	full := func(bytes int) {
		t.Helper()
		expect.NoError(t, os.WriteFile(filler, make([]byte, bytes), 0o600))
	}
	source := openSource(t, Options{Dir: repo, CacheDir: cache})
	full(1800 << 10)
	_, err := source.Acquire(t.Context())
	wantCode(t, err, git.CodeDiskFull)
	full(0)
	tree := acquireFrom(t, source)
	random := make([]byte, 900<<10)
	rand.Read(random)
	gittest.Write(t, tree.Dir(), map[string]string{"new": string(random)})
	full(400 << 10)
	_, err = tree.Diff(t.Context(), DiffOptions{Patch: filepath.Join(t.TempDir(), "p")})
	wantCode(t, err, git.CodeDiskFull)
	full(0)
	os.Remove(filepath.Join(tree.Dir(), "new"))
	wantPristine(t, tree)
}
