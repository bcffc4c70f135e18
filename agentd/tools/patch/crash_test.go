package patch

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"holon/agentd/tools"
	"holon/internal/folder"
	"holon/test/expect"
)

// everything is a patch with every kind of step, and the trees around it.
var (
	everythingBefore = files{"f": abc, "run!": "x\n", "gone/deep/g": "x\n", "h": "y\n", "old/m": "z\n", "name": "n\n",
		"other/o": "o\n"}
	everythingAfter = files{"f": "A\nb\nc\nd\ne\nf\n", "run!": "y\n", "h": "Y\n", "new/er/m": "z\n",
		"fresh/a/b": "pwned\n", "other/o": "o\n"}
	everything = "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+A\n--- a/run\n+++ b/run\n@@ -1 +1 @@\n-x\n+y\n" +
		"--- a/gone/deep/g\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n--- a/h\n+++ b/h\n@@ -1 +1 @@\n-y\n+Y\n" +
		"*** Update File: old/m\n*** Move to: new/er/m\n*** Delete File: name\n" + create("fresh/a/b")
)

// withFault applies everything to a new tree, where fault is asked before each
// change, and returns the tree.
func withFault(t *testing.T, fault func(n int, op, path string) error) (dir string, bad *tools.Error) {
	t.Helper()
	dir = t.TempDir()
	return dir, faulty(t, dir, fault)
}

func faulty(t *testing.T, dir string, fault func(n int, op, path string) error) *tools.Error {
	t.Helper()
	n := 0
	return faultyContext(t, t.Context(), dir, func(op, path string) error { n++; return fault(n, op, path) })
}

func faultyContext(t *testing.T, ctx context.Context, dir string, fault func(op, path string) error) *tools.Error {
	t.Helper()
	everythingBefore.make(t, dir)
	return applyWith(t, ctx, dir, everything, fault)
}

// applyWith is apply, where fault is called before each change.
func applyWith(t *testing.T, ctx context.Context, dir, text string, fault func(op, path string) error) *tools.Error {
	t.Helper()
	doc, bad := parse(text)
	if bad != nil {
		t.Fatal(bad)
	}
	root, err := folder.Open(dir)
	expect.NoError(t, err)
	defer root.Close()
	tr := newTree(dir, root)
	tr.fault = fault
	_, bad = tr.apply(ctx, doc)
	return bad
}

// changes counts the steps that change something.
func changes(t *testing.T) (all int) {
	dir, bad := withFault(t, func(n int, _, _ string) error { all = n; return nil })
	if bad != nil {
		t.Fatal(bad)
	}
	if diff := cmp.Diff(everythingAfter, read(t, dir)); diff != "" {
		t.Fatal(diff)
	}
	return all
}

// Whichever step fails, nothing has changed; only after the last rename a
// failure to tidy up does not count.
func TestEveryStepMayFail(t *testing.T) {
	all := changes(t)
	for _, errno := range []error{unix.EIO, unix.ENOSPC} {
		for k := 1; k <= all; k++ {
			var where string
			dir, bad := withFault(t, func(n int, op, path string) error {
				if n == k {
					where = op + " " + path
					return errno
				}
				return nil
			})
			got := read(t, dir)
			if bad == nil {
				if !strings.HasPrefix(where, "rmdir ") {
					t.Errorf("step %d (%s) failed and was passed over", k, where)
				}
				for name := range got {
					if strings.Contains(name, ".holon-") || strings.HasSuffix(name, "/") {
						delete(got, name)
					}
				}
				if diff := cmp.Diff(everythingAfter, got); diff != "" {
					t.Errorf("step %d (%s):\n%s", k, where, diff)
				}
				continue
			}
			if bad.Kind != kindWrite || !strings.Contains(bad.Message, "nothing was changed") {
				t.Errorf("step %d (%s): %+v", k, where, bad)
			}
			if diff := cmp.Diff(everythingBefore, got); diff != "" {
				t.Errorf("step %d (%s) failed, but:\n%s", k, where, diff)
			}
		}
	}
}

type killed struct{}

// A call that is killed leaves files that are each wholly old or wholly new, what it had put aside, and temporary files
// under names that the host recognises. The next call works on the tree as it is.
func TestKilledAtEveryStep(t *testing.T) {
	all := changes(t)
	for k := 1; k <= all; k++ {
		var where string
		dir := t.TempDir()
		func() {
			defer func() {
				if r := recover(); r != (killed{}) {
					panic(r)
				}
			}()
			faulty(t, dir, func(n int, op, path string) error {
				if n == k {
					where = op + " " + path
					panic(killed{})
				}
				return nil
			})
		}()
		if _, bad := apply(t.Context(), dir, create("zzz")); bad != nil {
			t.Errorf("killed at %d (%s): the next patch is refused: %+v", k, where, bad)
		}
		got := read(t, dir)
		checkEachFile(t, fmt.Sprintf("killed at %d (%s)", k, where), got)
	}
}

// checkEachFile checks a tree in which a call was killed that applied everything.
func checkEachFile(t *testing.T, what string, got files) {
	t.Helper()
	aside := map[string]bool{}
	for name, data := range got {
		_, old := everythingBefore[name]
		_, new := everythingAfter[name]
		if leftover.MatchString(filepath.Base(strings.TrimSuffix(name, "!"))) {
			aside[data] = true
		} else if !old && !new && name != "zzz" && !strings.HasSuffix(name, "/") {
			t.Errorf("%s: left %s", what, name)
		}
	}
	for name, old := range everythingBefore {
		data, there := got[name]
		after, stays := everythingAfter[name]
		switch {
		case there && data != old && (!stays || data != after):
			t.Errorf("%s: %s holds %q, want %q or %q", what, name, data, old, after)
		case !there && stays && !aside[old]:
			t.Errorf("%s: %s is lost", what, name)
		}
	}
}

// A call that is undone keeps a file that another program has changed since, and names it.
func TestUndoKeepsWhatOthersChanged(t *testing.T) {
	dir := t.TempDir()
	files{"f": abc, "g": "x\n"}.make(t, dir)
	text := "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+A\n" + create("n") + change("g")
	bad := applyWith(t, t.Context(), dir, text, func(op, path string) error {
		if op == "rename" && path == "g" {
			files{"f": "edited\n", "n": "edited too\n"}.make(t, dir)
			return unix.EIO
		}
		return nil
	})
	if bad == nil || bad.Kind != kindWrite || !strings.Contains(bad.Message, "something else changed") {
		t.Fatalf("error %+v, want %s that names the file", bad, kindWrite)
	}
	if diff := cmp.Diff(files{"f": "edited\n", "n": "edited too\n", "g": "x\n"}, read(t, dir)); diff != "" {
		t.Error(diff)
	}
}

// A call that is cancelled while files change puts everything back.
func TestCancelledAtEveryStep(t *testing.T) {
	undone := 0
	for k := 1; k <= changes(t); k++ {
		dir := t.TempDir()
		ctx, cancel := context.WithCancel(t.Context())
		n := 0
		bad := faultyContext(t, ctx, dir, func(op, path string) error {
			if n++; n == k {
				cancel()
			}
			return nil
		})
		cancel()
		want := everythingAfter
		if bad != nil {
			want = everythingBefore
			undone++
			if bad.Kind != tools.KindCanceled {
				t.Errorf("cancelled at %d: error %+v, want %s", k, bad, tools.KindCanceled)
			}
		}
		if diff := cmp.Diff(want, read(t, dir)); diff != "" {
			t.Errorf("cancelled at %d, error %v:\n%s", k, bad, diff)
		}
	}
	if undone == 0 {
		t.Error("no call was undone")
	}
}

// While a directory is swapped for a link to .git, to the outside or to another
// directory and back, nothing behind the links changes.
func TestSwappedDirectories(t *testing.T) {
	outer := t.TempDir()
	dir := filepath.Join(outer, "tree")
	files{"secret/f": "x\n", "tree/.git/f": "x\n", "tree/real/f": "x\n", "tree/other/f": "x\n"}.make(t, outer)
	d := filepath.Join(dir, "d")
	expect.NoError(t, os.Rename(filepath.Join(dir, "real"), d))
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		targets := []string{".git", "../secret", "other"}
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			link := filepath.Join(dir, "l")
			_ = os.Symlink(targets[i%3], link)
			_ = unix.Renameat2(unix.AT_FDCWD, link, unix.AT_FDCWD, d, unix.RENAME_EXCHANGE)
			runtime.Gosched()
			_ = unix.Renameat2(unix.AT_FDCWD, link, unix.AT_FDCWD, d, unix.RENAME_EXCHANGE)
			_ = os.Remove(link)
		}
	}()
	applied := 0
	for range 300 {
		for _, p := range []string{change("d/f"), "--- a/d/f\n+++ b/d/f\n@@ -1 +1 @@\n-pwned\n+x\n", create("d/new/n"),
			"--- a/d/new/n\n+++ /dev/null\n"} {
			if _, bad := apply(t.Context(), dir, p); bad == nil {
				applied++
			}
		}
	}
	close(stop)
	<-stopped
	got := read(t, outer)
	for _, name := range []string{"secret/f", "tree/.git/f", "tree/other/f"} {
		expect.Equal(t, fmt.Sprintf("%s: got[name]", name), got[name], "x\n")
	}
	for name := range got {
		for _, d := range []string{"secret/", "tree/.git/", "tree/other/"} {
			if strings.HasPrefix(name, d) && name != d+"f" {
				t.Errorf("%s was made", name)
			}
		}
	}
	if applied == 0 {
		t.Error("no patch was applied, so nothing was tried")
	}
}

// A call without rights to one of its files changes none.
func TestWithoutRights(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can give up rights")
	}
	dir := t.TempDir()
	for d := dir; d != "/" && d != os.TempDir(); d = filepath.Dir(d) {
		expect.NoError(t, os.Chmod(d, 0o755))
	}
	files{"own/f": "x\n", "foreign/f": "x\n", "hidden/f": "x\n"}.make(t, dir)
	const nobody = 65534
	for _, p := range []string{"own", "own/f"} {
		expect.NoError(t, os.Chown(filepath.Join(dir, p), nobody, nobody))
	}
	expect.NoError(t, os.Chmod(filepath.Join(dir, "hidden/f"), 0o600))
	before := read(t, dir)
	as := func(patch string) (bad *tools.Error) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			runtime.LockOSThread() // and never unlocked: the thread ends with its identity
			if err := syscall.Setfsuid(nobody); err != nil {
				t.Error(err)
				return
			}
			_, bad = apply(context.Background(), dir, patch)
		}()
		<-done
		return bad
	}
	for _, p := range []string{change("foreign/f"), change("hidden/f"), create("new"), create("foreign/new"),
		"--- a/foreign/f\n+++ /dev/null\n",
		"*** Update File: own/f\n*** Move to: foreign/g\n"} {
		// The first file could be changed, the second cannot.
		bad := as(change("own/f") + p)
		if strings.HasPrefix(p, "***") {
			bad = as(p)
		}
		if bad == nil {
			t.Errorf("accepted: %s", p)
		} else if !strings.Contains(bad.Message, "permission denied") {
			t.Errorf("%s: %s", p, bad.Message)
		}
		if diff := cmp.Diff(before, read(t, dir)); diff != "" {
			t.Fatalf("%s:\n%s", p, diff)
		}
	}
	if bad := as(change("own/f")); bad != nil {
		t.Errorf("a file of one's own in a tree of another: %+v", bad)
	}
	if got := read(t, dir); got["own/f"] != "pwned\n" {
		t.Errorf("%q", got)
	}
}
