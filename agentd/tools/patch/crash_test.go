package patch

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"holon/agentd/tools"
)

// everything is a patch with every kind of step, and the trees around it.
var (
	everythingBefore = files{"f": abc, "run!": "x\n", "gone/deep/g": "x\n", "h": "y\n", "old/m": "z\n", "name": "n\n",
		"other/o": "o\n"}
	everythingAfter = files{"f": "A\nb\nc\nd\ne\nf\n", "run!": "y\n", "h": "Y\n", "new/er/m": "z\n",
		"name/below": "pwned\n", "fresh/a/b": "pwned\n", "other/o": "o\n"}
	everything = "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+A\n--- a/run\n+++ b/run\n@@ -1 +1 @@\n-x\n+y\n" +
		"--- a/gone/deep/g\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n--- a/h\n+++ b/h\n@@ -1 +1 @@\n-y\n+Y\n" +
		"diff --git a/old/m b/new/er/m\nrename from old/m\nrename to new/er/m\n--- a/name\n+++ /dev/null\n@@ -1 " +
		"+0,0 @@\n-n\n" +
		create("name/below") + create("fresh/a/b")
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
	doc, bad := parse(everything)
	if bad != nil {
		t.Fatal(bad)
	}
	tr, bad := openTree(t.Context(), dir)
	if bad != nil {
		t.Fatal(bad)
	}
	defer tr.close()
	tr.root.fault = fault
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
				if !strings.HasPrefix(where, "remove ") && !strings.HasPrefix(where, "rmdir ") &&
					!strings.HasPrefix(where, "link ") {
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
		if leftover().MatchString(filepath.Base(strings.TrimSuffix(name, "!"))) {
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

// A rollback keeps a file that another program has changed since, and says where the earlier content is.
func TestRollbackKeepsWhatOthersChanged(t *testing.T) {
	dir := t.TempDir()
	files{"f": abc, "g": "x\n"}.make(t, dir)
	doc, _ := parse("--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+A\n" + create("n") + change("g"))
	tr, bad := openTree(t.Context(), dir)
	if bad != nil {
		t.Fatal(bad)
	}
	defer tr.close()
	tr.root.fault = func(op, path string) error {
		if op == "link" && path == "g" {
			files{"f": "edited\n", "n": "edited too\n"}.make(t, dir)
		}
		if op == "rename" && path == "g" {
			return unix.EIO
		}
		return nil
	}
	_, bad = tr.apply(t.Context(), doc)
	if bad == nil || bad.Kind != kindWrite {
		t.Fatalf("error %+v, want %s", bad, kindWrite)
	}
	got := read(t, dir)
	var aside string
	for name, data := range got {
		if strings.HasPrefix(name, ".holon-") {
			aside = name
			if data != abc {
				t.Errorf("%s holds %q, want %q", name, data, abc)
			}
		}
	}
	delete(got, aside)
	if diff := cmp.Diff(files{"f": "edited\n", "n": "edited too\n", "g": "x\n"}, got); diff != "" {
		t.Error(diff)
	}
	if want := "the earlier content of f is in " + aside; aside == "" || !strings.Contains(bad.Message, want) {
		t.Errorf("message %q, want %q in it", bad.Message, want)
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

// A process that is really killed leaves files that are each wholly old or wholly new, and no other names than those of
// temporary files.
func TestKilledProcess(t *testing.T) {
	if dir := os.Getenv("HOLON_PATCH_TREE"); dir != "" {
		for {
			for _, p := range []string{"-x\n+y\n", "-y\n+x\n"} {
				var text strings.Builder
				for i := range 8 {
					fmt.Fprintf(&text, "--- a/d/f%d\n+++ b/d/f%d\n@@ -1 +1 @@\n%s", i, i, p)
				}
				if _, bad := apply(context.Background(), dir, text.String()); bad == nil {
					fmt.Println("applied")
				}
			}
		}
	}
	for round := range 12 {
		dir := t.TempDir()
		for i := range 8 {
			files{fmt.Sprintf("d/f%d", i): "x\n"}.make(t, dir)
		}
		cmd := exec.Command(os.Args[0], "-test.run=^TestKilledProcess$")
		cmd.Env = append(os.Environ(), "HOLON_PATCH_TREE="+dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for range 1 + rand.IntN(20) { // any moment will do, once it is at work
			lines.Scan()
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		if _, bad := apply(t.Context(), dir, create("n")); bad != nil {
			t.Fatalf("round %d: %+v", round, bad)
		}
		for name, data := range read(t, dir) {
			switch {
			case strings.HasPrefix(name, "d/f"):
				if data != "x\n" && data != "y\n" {
					t.Errorf("round %d: %s holds %q, want all of one version", round, name, data)
				}
			case name != "n" && !leftover().MatchString(filepath.Base(name)):
				t.Errorf("round %d: left %s", round, name)
			}
		}
	}
}

// While a directory is swapped for a link to .git, to the outside or to another
// directory and back, nothing behind the links changes.
func TestSwappedDirectories(t *testing.T) {
	outer := t.TempDir()
	dir := filepath.Join(outer, "tree")
	files{"secret/f": "x\n", "tree/.git/f": "x\n", "tree/real/f": "x\n", "tree/other/f": "x\n"}.make(t, outer)
	d := filepath.Join(dir, "d")
	if err := os.Rename(filepath.Join(dir, "real"), d); err != nil {
		t.Fatal(err)
	}
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
		if got[name] != "x\n" {
			t.Errorf("%s: %q", name, got[name])
		}
	}
	for name := range got {
		switch {
		case strings.HasPrefix(name, "secret/") && name != "secret/f":
			t.Errorf(`%.120q: strings.HasPrefix(name, "secret/") && name != "secret/f", want the contrary`, name)
		case strings.HasPrefix(name, "tree/.git/") && name != "tree/.git/f":
			t.Errorf(`%.120q: strings.HasPrefix(name, "tree/.git/") && name != "tree/.git/f", want the contrary`, name)
		case strings.HasPrefix(name, "tree/other/") && name != "tree/other/f":
			t.Errorf(`%.120q: strings.HasPrefix(name, "tree/other/") && name != "tree/other/f", want the contrary`,
				name)
		}
	}
	if applied == 0 {
		t.Error("no patch was applied, so nothing was tried")
	}
}

// Somebody without rights is refused, whole.
func TestWithoutRights(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can give up rights")
	}
	dir := t.TempDir()
	for d := dir; d != "/" && d != os.TempDir(); d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	files{"own/f": "x\n", "foreign/f": "x\n", "hidden/f": "x\n"}.make(t, dir)
	const nobody = 65534
	for _, p := range []string{"own", "own/f"} {
		if err := os.Chown(filepath.Join(dir, p), nobody, nobody); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Join(dir, "hidden/f"), 0o600); err != nil {
		t.Fatal(err)
	}
	before := digest(t, dir)
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
		"diff --git a/own/f b/foreign/g\nrename from own/f\nrename to foreign/g\n"} {
		// The first file could be changed, the second cannot.
		bad := as(change("own/f") + p)
		if strings.HasPrefix(p, "diff") {
			bad = as(p)
		}
		if bad == nil {
			t.Errorf("accepted: %s", p)
		} else if !strings.Contains(bad.Message, "permission denied") {
			t.Errorf("%s: %s", p, bad.Message)
		}
		if diff := cmp.Diff(before, digest(t, dir)); diff != "" {
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

// Two calls on one tree take turns, and one that waits can be cancelled.
func TestCallsTakeTurns(t *testing.T) {
	dir := t.TempDir()
	files{"f": "x\n"}.make(t, dir)
	tr, bad := openTree(t.Context(), dir)
	if bad != nil {
		t.Fatal(bad)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	result := make(chan *tools.Error)
	go func() {
		_, bad := apply(ctx, dir, change("f"))
		result <- bad
	}()
	cancel(errors.New("enough"))
	if bad := <-result; bad == nil || bad.Kind != tools.KindCanceled {
		t.Errorf("error %+v", bad)
	}
	go func() {
		_, bad := apply(t.Context(), dir, change("f"))
		result <- bad
	}()
	tr.close()
	if bad := <-result; bad != nil {
		t.Errorf("error %+v", bad)
	}
}
