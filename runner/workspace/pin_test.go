package workspace_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"holon/runner/workspace"
	"holon/test/expect"
	"holon/test/gittest"
)

// Trees of a pinned source have one base, whatever the user does meanwhile. One of them begins with the change that was
// made in another, but for the paths that are restored.
func TestPinnedBase(t *testing.T) {
	t.Parallel()
	files := map[string]string{"a.txt": "base\n", "test.txt": "base\n", "gone.txt": "base\n", "dir/x": "base\n"}
	kinds(t, files, func(t *testing.T, w *continuedWork) {
		gittest.Write(t, w.dir, map[string]string{"a.txt": "dirty\n", "new.txt": "untracked\n"})
		source, err := workspace.Open(t.Context(), workspace.Options{Dir: w.dir, CacheDir: w.cache, IncludeDirty: true})
		expect.NoError(t, err)
		expect.NoError(t, source.Pin(t.Context(), filepath.Join(t.TempDir(), "base")))
		gittest.Write(t, w.dir, map[string]string{"a.txt": "later\n", "test.txt": "later\n"})

		work, err := source.With("run_1", nil).Acquire(t.Context())
		expect.NoError(t, err)
		if got := content(t, work.Dir(), "a.txt", "test.txt", "new.txt"); !slices.Equal(got,
			[]string{"dirty\n", "base\n", "untracked\n"}) {
			t.Fatalf("the tree has %q", got)
		}
		gittest.Write(t, work.Dir(), map[string]string{"a.txt": "done\n", "test.txt": "weaker\n", "added.txt": "x\n"})
		expect.NoError(t, os.Remove(filepath.Join(work.Dir(), "gone.txt")))
		expect.NoError(t, os.RemoveAll(filepath.Join(work.Dir(), "dir")))
		gittest.Write(t, work.Dir(), map[string]string{"dir": "a file now\n"})
		held := work.Held()
		expect.NoError(t, work.Leave()) // as a holon that is killed
		work, err = workspace.Resume(t.Context(), workspace.Options{CacheDir: w.cache}, held)
		expect.NoError(t, err)
		results := t.TempDir()
		from := &workspace.Continuation{Run: "run_1", Patch: filepath.Join(results, "diff.patch"),
			Objects: filepath.Join(results, "objects"),
			Restore: []string{"test.txt", "gone.txt", "added.txt", "dir", "dir/x", "never.txt"}}
		diff, err := work.Diff(t.Context(), workspace.DiffOptions{Patch: from.Patch, Objects: from.Objects})
		expect.NoError(t, err)
		expect.Equal(t, "changed files", len(diff.Files), 6)
		expect.NoError(t, work.Release(t.Context()))

		check, err := source.With("run_1-check", from).Acquire(t.Context())
		expect.NoError(t, err)
		if got := content(t, check.Dir(), "a.txt", "test.txt", "gone.txt", "added.txt", "new.txt", "dir/x"); !slices.Equal(got,
			[]string{"done\n", "base\n", "base\n", "", "untracked\n", "base\n"}) {
			t.Errorf("the other tree has %q", got)
		}
		listed, err := check.BaseFiles(t.Context())
		expect.NoError(t, err)
		if want := []string{"a.txt", "dir/x", "gone.txt", "new.txt", "test.txt"}; !slices.Equal(listed, want) {
			t.Errorf("the base has %q, want %q", listed, want)
		}
		expect.Equal(t, "bases", check.Info().BaseTree, held.Info.BaseTree)
		expect.NoError(t, check.Release(t.Context()))
	})
}

// The results of a tree of a pinned source are whole when what was pinned is gone.
func TestPinnedResults(t *testing.T) {
	t.Parallel()
	kinds(t, map[string]string{"a.txt": "1\n2\n3\n4\n5\n6\n7\n8\n9\n"}, func(t *testing.T, w *continuedWork) {
		gittest.Write(t, w.dir, map[string]string{"a.txt": "1\n2\n3\n4\n5\n6\n7\n8\nnine\n"})
		options := workspace.Options{Dir: w.dir, CacheDir: w.cache, IncludeDirty: true}
		source, err := workspace.Open(t.Context(), options)
		expect.NoError(t, err)
		pinned, results := filepath.Join(t.TempDir(), "base"), t.TempDir()
		expect.NoError(t, source.Pin(t.Context(), pinned))
		work, err := source.With("run_1", nil).Acquire(t.Context())
		expect.NoError(t, err)
		gittest.Write(t, work.Dir(), map[string]string{"a.txt": "one\n2\n3\n4\n5\n6\n7\n8\nnine\n"})
		from := &workspace.Continuation{Run: "run_1", Patch: filepath.Join(results, "diff.patch"),
			Objects: filepath.Join(results, "objects")}
		_, err = work.Diff(t.Context(), workspace.DiffOptions{Patch: from.Patch, Objects: from.Objects})
		expect.NoError(t, err)
		expect.NoError(t, work.Release(t.Context()))
		expect.NoError(t, os.RemoveAll(pinned))
		gittest.Write(t, w.dir, map[string]string{"a.txt": "1\n2\nthree\n4\n5\n6\n7\n8\nnine\n"})

		options.CacheDir, options.Continue, options.Claim = filepath.Join(t.TempDir(), "cache"), from, "run_2"
		source, err = workspace.Open(t.Context(), options)
		expect.NoError(t, err)
		next, err := source.Acquire(t.Context())
		expect.NoError(t, err)
		expect.Equal(t, "the merged file", content(t, next.Dir(), "a.txt")[0], "one\n2\nthree\n4\n5\n6\n7\n8\nnine\n")
		expect.NoError(t, next.Release(t.Context()))
	})
}
