package workspace_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"holon/runner/workspace"
	"holon/runner/workspace/git"
	"holon/runner/workspace/landing"
	"holon/test/expect"
	"holon/test/gittest"
)

// continuedWork is a directory of the user's and what a run did in its tree.
type continuedWork struct {
	dir, cache string
}

// runIn makes a tree of the directory, lets work write and delete there, and returns the result of that run.
func (w *continuedWork) runIn(t *testing.T, from *workspace.Continuation,
	work map[string]string, gone ...string) workspace.Continuation {
	t.Helper()
	source, err := workspace.Open(t.Context(), workspace.Options{Dir: w.dir, CacheDir: w.cache, IncludeDirty: true,
		Continue: from})
	expect.NoError(t, err)
	tree, err := source.Acquire(t.Context())
	expect.NoError(t, err)
	gittest.Write(t, tree.Dir(), work)
	for _, name := range gone {
		expect.NoError(t, os.Remove(filepath.Join(tree.Dir(), name)))
	}
	results := t.TempDir()
	result := workspace.Continuation{Run: "run_x", Patch: filepath.Join(results, "diff.patch"),
		Objects: filepath.Join(results, "objects")}
	if _, err := tree.Diff(t.Context(), workspace.DiffOptions{Patch: result.Patch, Objects: result.Objects}); err != nil {
		t.Fatal(err)
	}
	expect.NoError(t, tree.Release(t.Context()))
	return result
}

// content is the text of files that are there.
func content(t *testing.T, dir string, names ...string) (texts []string) {
	t.Helper()
	for _, name := range names {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		texts = append(texts, string(data))
	}
	return texts
}

func kinds(t *testing.T, files map[string]string, test func(t *testing.T, w *continuedWork)) {
	for kind, make := range map[string]func(t *testing.T) string{
		workspace.KindGit: func(t *testing.T) string { return gittest.NewRepo(t, files) },
		workspace.KindCopy: func(t *testing.T) string {
			dir := t.TempDir()
			gittest.Write(t, dir, files)
			return dir
		},
	} {
		t.Run(kind, func(t *testing.T) {
			test(t, &continuedWork{dir: make(t), cache: filepath.Join(t.TempDir(), "cache")})
		})
	}
}

// A chain of three runs, each on top of the one before, of which only the last is applied and the others are gone by
// then, while the user's files change too.
func TestContinue(t *testing.T) {
	t.Parallel()
	files := map[string]string{"a.txt": "1\n2\n3\n4\n5\n6\n7\n8\n9\n", "gone.txt": "g\n", "mine.txt": "m\n"}
	kinds(t, files, func(t *testing.T, w *continuedWork) {
		first := w.runIn(t, nil, map[string]string{"a.txt": "one\n2\n3\n4\n5\n6\n7\n8\n9\n", "new.txt": "new\n"})
		gittest.Write(t, w.dir, map[string]string{"mine.txt": "changed meanwhile\n"})
		second := w.runIn(t, &first, map[string]string{"new.txt": "newer\n", "sub/b.txt": "b\n"})
		expect.NoError(t, os.RemoveAll(filepath.Dir(first.Patch)))
		source, err := workspace.Open(t.Context(), workspace.Options{Dir: w.dir, CacheDir: w.cache, IncludeDirty: true,
			Continue: &second})
		expect.NoError(t, err)
		tree, err := source.Acquire(t.Context())
		expect.NoError(t, err)
		want := []string{"one\n2\n3\n4\n5\n6\n7\n8\n9\n", "newer\n", "b\n", "changed meanwhile\n"}
		names := []string{"a.txt", "new.txt", "sub/b.txt", "mine.txt"}
		if got := content(t, tree.Dir(), names...); !slices.Equal(got, want) {
			t.Fatalf("the third run begins with %q, not %q", got, want)
		}
		expect.NoError(t, tree.Release(t.Context()))
		third := w.runIn(t, &second, map[string]string{"sub/b.txt": "bb\n"})
		if _, err := landing.Apply(t.Context(), landing.ApplyOptions{Dir: w.dir, Patch: third.Patch,
			Objects: third.Objects}); err != nil {
			t.Fatal(err)
		}
		want[2] = "bb\n"
		if got := content(t, w.dir, names...); !slices.Equal(got, want) {
			t.Errorf("the sum is %q, not %q", got, want)
		}
	})
}

// What the user has applied already is not part of the next run's change.
func TestContinueApplied(t *testing.T) {
	t.Parallel()
	kinds(t, map[string]string{"a.txt": "a\n"}, func(t *testing.T, w *continuedWork) {
		first := w.runIn(t, nil, map[string]string{"a.txt": "b\n", "new.txt": "n\n"})
		if _, err := landing.Apply(t.Context(), landing.ApplyOptions{Dir: w.dir, Patch: first.Patch,
			Objects: first.Objects}); err != nil {
			t.Fatal(err)
		}
		second := w.runIn(t, &first, map[string]string{"a.txt": "c\n"})
		applied, err := landing.Apply(t.Context(), landing.ApplyOptions{Dir: w.dir, Patch: second.Patch,
			Objects: second.Objects})
		if err != nil || !slices.Equal(applied.Written, []string{"a.txt"}) {
			t.Errorf("applied %v, %v", applied, err)
		}
	})
}

// Of a change that the user has in part, with deletions, the rest is merged. Lines that repeat are not taken for those
// that were added.
func TestContinueAppliedInPart(t *testing.T) {
	t.Parallel()
	files := map[string]string{"a.txt": "x\nx\nx\nx\nx\n", "gone.txt": "g\n", "b.txt": "b\n"}
	kinds(t, files, func(t *testing.T, w *continuedWork) {
		first := w.runIn(t, nil, map[string]string{"a.txt": "x\nx\nx\nx\nx\nx\n"}, "gone.txt", "b.txt")
		expect.NoError(t, os.Remove(filepath.Join(w.dir, "gone.txt")))
		second := w.runIn(t, &first, map[string]string{"n.txt": "n\n"})
		applied, err := landing.Apply(t.Context(), landing.ApplyOptions{Dir: w.dir, Patch: second.Patch,
			Objects: second.Objects})
		if err != nil || !slices.Equal(applied.Written, []string{"a.txt", "n.txt"}) ||
			!slices.Equal(applied.Deleted, []string{"b.txt"}) {
			t.Errorf("applied %+v, %v", applied, err)
		}
	})
}

// A conflict starts nothing, names the files, and leaves the tree to the next run.
func TestContinueConflict(t *testing.T) {
	t.Parallel()
	kinds(t, map[string]string{"a.txt": "a\n", "b.txt": "b\n"}, func(t *testing.T, w *continuedWork) {
		first := w.runIn(t, nil, map[string]string{"a.txt": "theirs\n", "b.txt": "theirs\n"})
		gittest.Write(t, w.dir, map[string]string{"a.txt": "mine\n"})
		source, err := workspace.Open(t.Context(), workspace.Options{Dir: w.dir, CacheDir: w.cache, IncludeDirty: true,
			Continue: &first})
		expect.NoError(t, err)
		_, err = source.Acquire(t.Context())
		e, ok := err.(*git.Error) //nolint:errorlint // exported functions return it as it is
		if !ok || e.Code != workspace.CodeContinueConflict || !slices.Equal(e.Paths, []string{"a.txt"}) || e.Hint == "" {
			t.Fatalf("a conflict is %v", err)
		}
		if claims, err := workspace.Claims(t.Context(), w.cache); err != nil || len(claims) > 0 {
			t.Errorf("claims %v, %v", claims, err)
		}
		w.runIn(t, nil, map[string]string{"b.txt": "again\n"})
	})
}
