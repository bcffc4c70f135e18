package workspace

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"holon/runner/workspace/git"
	"holon/test/expect"
	"holon/test/gittest"
)

func TestMain(m *testing.M) {
	gittest.Isolate()
	git.IgnoreTime, git.RenameTime = time.Second, time.Second // so that what takes git long takes it that, in all tests
	goleak.VerifyTestMain(m)
}

func openSource(t testing.TB, options Options) *Source {
	t.Helper()
	if options.CacheDir == "" {
		options.CacheDir = filepath.Join(t.TempDir(), "cache")
	}
	source, err := Open(t.Context(), options)
	expect.NoError(t, err)
	return source
}

// acquire opens and acquires; the tree is released at the end of the test.
func acquire(t testing.TB, options Options) *Tree {
	t.Helper()
	return acquireFrom(t, openSource(t, options))
}

func acquireFrom(t testing.TB, source *Source) *Tree {
	t.Helper()
	tree, err := source.Acquire(t.Context())
	expect.NoError(t, err)
	t.Cleanup(func() {
		if err := tree.Release(context.Background()); err != nil { // the test's context is over by now
			t.Error(err)
		}
	})
	return tree
}

// diffOf returns the diff and the patch's text.
func diffOf(t testing.TB, tree *Tree) (*Diff, string) {
	t.Helper()
	diff, err := tree.Diff(t.Context(), DiffOptions{Patch: filepath.Join(t.TempDir(), "diff.patch")})
	expect.NoError(t, err)
	patch, err := os.ReadFile(diff.Patch)
	expect.NoError(t, err)
	if int64(len(patch)) != diff.PatchBytes {
		t.Fatalf("the patch has %d bytes, the diff says %d", len(patch), diff.PatchBytes)
	}
	return diff, string(patch)
}

// changes renders a diff's files as "A path", "R from -> path", ….
func changes(diff *Diff) []string {
	list := []string{}
	for _, f := range diff.Files {
		line := strings.ToUpper(f.Status[:1]) + " "
		if f.From != "" {
			line += f.From + " -> "
		}
		list = append(list, line+f.Path)
	}
	return list
}

func wantChanges(t testing.TB, diff *Diff, want ...string) {
	t.Helper()
	if got := changes(diff); !slices.Equal(got, want) && len(got)+len(want) > 0 {
		t.Fatalf("changes = %q, want %q (warnings %+v)", got, want, diff.Warnings)
	}
}

func wantWarning(t testing.TB, diff *Diff, code, path string) {
	t.Helper()
	if !slices.ContainsFunc(diff.Warnings, func(w Warning) bool { return w.Code == code && w.Path == path }) {
		t.Fatalf("warnings = %+v, want %s for %q", diff.Warnings, code, path)
	}
}
