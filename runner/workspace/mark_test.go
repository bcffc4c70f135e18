package workspace

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holon/test/expect"
	"holon/test/gittest"
)

// marked are the files of each mark in order; "" is a file that is not there.
var marked = []map[string]string{
	{"a.txt": tenLines, "gone": "g\n", "dir/f": "f\n", "kind": "file\n", "new": "", "kind/now/b": ""},
	{"a.txt": "one\n", "gone": "", "dir/f": "f\n", "kind": "file\n", "new": "n\n"},
	{"a.txt": "one\n", "gone": "back\n", "dir/f": "", "dir/g/h": "h\n", "kind/now/b": "b\n", "new": "n\n"},
	{"a.txt": "three\n", "gone": "", "dir/f": "three\n", "kind/now/b": "", "kind": "-> a.txt", "new": ""},
}

func name(i int) string { return fmt.Sprint("turn_", i) }

// become makes the files of a tree those of a mark, as programs do.
func become(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	expect.NoError(t, os.RemoveAll(filepath.Join(dir, "kind"))) // a file, a directory or a link
	for path, text := range files {
		if text == "" {
			_ = os.RemoveAll(filepath.Join(dir, path)) // its directory may be a file by now
		} else {
			gittest.Write(t, dir, map[string]string{path: text})
		}
	}
}

func wantMarked(t *testing.T, dir string, i int) {
	t.Helper()
	for path, text := range marked[i] {
		got := ""
		if info, err := os.Lstat(filepath.Join(dir, path)); err == nil && !info.IsDir() {
			if got = look(t, filepath.Join(dir, path)); info.Mode().IsRegular() {
				_, got, _ = strings.Cut(got, " ")
			}
		}
		if got != text {
			t.Errorf("%s of the mark %d is %q, want %q", path, i, got, text)
		}
	}
}

// markAll makes the marks of a tree, of which the first is what it began with.
func markAll(t *testing.T, w *agentWork) *Tree {
	t.Helper()
	tree := acquire(t, w.options)
	expect.NoError(t, tree.MarkStart(name(0)))
	for i := range marked[1:] {
		become(t, tree.Dir(), marked[i+1])
		expect.NoError(t, tree.Mark(t.Context(), name(i+1)))
	}
	return tree
}

// The files become those of any mark, also once its change was applied and its objects packed anew; what no mark has
// stays, and the base too. Marks go with the claim.
func TestRestore(t *testing.T) {
	t.Parallel()
	files := map[string]string{".gitignore": "built\n"}
	for path, text := range marked[0] {
		if text != "" {
			files[path] = text
		}
	}
	eachKind(t, files, func(t *testing.T, w *agentWork) {
		tree := markAll(t, w)
		gittest.Write(t, tree.Dir(), map[string]string{"built": "ignored\n"})
		for _, i := range []int{0, 3, 1, 2, 2, 0, 1} {
			_, err := tree.Restore(t.Context(), Restore{Mark: name(i), Note: fmt.Sprint(i)})
			expect.NoError(t, err)
			wantMarked(t, tree.Dir(), i)
			note, err := Note(tree.Held())
			expect.NoError(t, err)
			expect.Equal(t, "note", note, fmt.Sprint(i))
		}
		diff, _ := diffOf(t, tree)
		wantChanges(t, diff, "M a.txt", "D gone", "A new")
		expect.NoError(t, tree.Advance(t.Context()))
		for i := range maxCopyPacks + 2 { // until they are packed
			gittest.Write(t, tree.Dir(), map[string]string{"many": fmt.Sprintln(i)})
			expect.NoError(t, tree.Mark(t.Context(), "many"))
		}
		expect.Equal(t, "marked", Marked(tree.Held(), name(3)), true)
		expect.Equal(t, "never marked", Marked(tree.Held(), "never"), false)
		held := tree.Held()
		die(t, tree)
		tree, err := Resume(t.Context(), Options{CacheDir: w.options.CacheDir}, held)
		expect.NoError(t, err)
		done, err := tree.Restore(t.Context(), Restore{Mark: name(3), Leave: "left"})
		expect.NoError(t, err)
		wantMarked(t, tree.Dir(), 3)
		if len(done.Files) == 0 {
			t.Error("no file changed")
		}
		_, err = tree.Restore(t.Context(), Restore{Mark: "left"})
		expect.NoError(t, err)
		wantMarked(t, tree.Dir(), 1)
		wantContent(t, tree.Dir(), map[string]string{"built": "ignored\n", "many": fmt.Sprintln(maxCopyPacks + 1)})
		_, err = tree.Restore(t.Context(), Restore{Mark: "never"})
		wantCode(t, err, CodeNotMarked)
		names, err := Marks(held)
		expect.NoError(t, err)
		expect.Equal(t, "marks", len(names), 6)
		expect.NoError(t, tree.Release(t.Context()))
		names, err = Marks(held)
		expect.NoError(t, err)
		expect.Equal(t, "marks of a tree that was given up", len(names), 0)
	})
}

// A process that ends at any step leaves the files as they were, or once the next one took the tree up those of the
// mark: the note says which.
func TestRestoreKilled(t *testing.T) {
	t.Parallel()
	tree := markAll(t, newAgentWork(t, gittest.NewRepo(t, map[string]string{"a.txt": tenLines, "gone": "g\n",
		"dir/f": "f\n", "kind": "file\n"})))
	cache := tree.source.options.CacheDir
	at := 3
	for n, step := range append(syncSteps, syncSteps...) {
		to := []int{0, 2, 1, 3}[n%4]
		killed := interruptAt(tree, step)
		_, err := tree.Restore(t.Context(), Restore{Mark: name(to), Note: fmt.Sprint(n)})
		if err != nil && !errors.Is(err, killed) {
			t.Fatalf("%s: %v", step, err)
		}
		held := tree.Held()
		die(t, tree)
		note, err := Note(held)
		expect.NoError(t, err)
		expect.Equal(t, step+" is after the decision", note == fmt.Sprint(n), step != "staged")
		if note == fmt.Sprint(n) {
			at = to
		}
		tree, err = Resume(t.Context(), Options{CacheDir: cache}, held)
		expect.NoError(t, err)
		wantMarked(t, tree.Dir(), at)
	}
	expect.NoError(t, tree.Release(t.Context()))
}

// What no mark has is not replaced, and no link is followed.
func TestRestoreInTheWay(t *testing.T) {
	t.Parallel()
	for what, tc := range map[string]struct {
		meanwhile map[string]string // what programs do before
		refused   string            // the path in the way
		want      map[string]string
	}{
		"an ignored file":        {map[string]string{".gitignore": "f\n", "f": "mine\n"}, "f", map[string]string{"f": "mine\n"}},
		"an ignored directory":   {map[string]string{".gitignore": "f\n", "f/x": "mine\n"}, "f", map[string]string{"f/x": "mine\n"}},
		"a file":                 {map[string]string{"f": "mine\n"}, "", map[string]string{"f": "f\n"}},
		"a link for a directory": {map[string]string{"d": "-> ../outside"}, "", map[string]string{"d/e": "e\n"}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			w := newAgentWork(t, gittest.NewRepo(t, map[string]string{"x": "x\n"}))
			tree := acquire(t, w.options)
			outside := filepath.Join(filepath.Dir(tree.Dir()), "outside")
			expect.NoError(t, os.Mkdir(outside, 0o755))
			gittest.Write(t, tree.Dir(), map[string]string{"f": "f\n", "d/e": "e\n"})
			expect.NoError(t, tree.Mark(t.Context(), "turn"))
			expect.NoError(t, errors.Join(os.Remove(tree.Dir()+"/f"), os.RemoveAll(tree.Dir()+"/d")))
			gittest.Write(t, tree.Dir(), tc.meanwhile)
			_, err := tree.Restore(t.Context(), Restore{Mark: "turn"})
			if tc.refused != "" {
				wantConflict(t, err, tc.refused)
			} else {
				expect.NoError(t, err)
			}
			wantContent(t, tree.Dir(), tc.want)
			left, err := os.ReadDir(outside)
			expect.NoError(t, err)
			expect.Equal(t, "files outside", len(left), 0)
		})
	}
}

// BenchmarkMark is what a turn costs in a tree of 5,000 files: one that changed nothing, and one that changed five.
func BenchmarkMark(b *testing.B) {
	files := map[string]string{}
	for n := range 5000 {
		files[fmt.Sprintf("d%02d/f%03d.go", n/100, n%100)] = fmt.Sprintf("package d\n\n// file %d\n", n)
	}
	for _, changed := range []int{0, 5} {
		b.Run(fmt.Sprint(changed, "changed"), func(b *testing.B) {
			tree := acquire(b, newAgentWork(b, gittest.NewRepo(b, files)).options)
			for n := range b.N {
				for i := range changed {
					path := filepath.Join(tree.Dir(), fmt.Sprintf("d%02d/f001.go", i))
					expect.NoError(b, os.WriteFile(path, fmt.Appendf(nil, "package d\n\n// %d\n", n), 0o644))
				}
				expect.NoError(b, tree.Mark(b.Context(), name(n)))
			}
		})
	}
}
