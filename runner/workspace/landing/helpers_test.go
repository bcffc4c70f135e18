package landing

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"holon/runner/workspace"
	"holon/runner/workspace/git"
	"holon/test/expect"
	"holon/test/gittest"
)

func TestMain(m *testing.M) {
	gittest.Isolate()
	goleak.VerifyTestMain(m)
}

// wantCode fails unless err is a *git.Error with the code, and its message one line.
func wantCode(t testing.TB, err error, code string) {
	t.Helper()
	if failed, ok := errors.AsType[*git.Error](err); !ok || failed.Code != code {
		t.Fatalf("error %v (%T), want code %s", err, err, code)
	}
	if strings.ContainsRune(err.Error(), '\n') {
		t.Fatalf("the message %q has several lines, want one", err)
	}
}

// acquire opens a directory and acquires a tree of it, which is released at the end of the test.
func acquire(t testing.TB, options workspace.Options) *workspace.Tree {
	t.Helper()
	return acquireFrom(t, openSource(t, options))
}

func openSource(t testing.TB, options workspace.Options) *workspace.Source {
	t.Helper()
	options.CacheDir = filepath.Join(t.TempDir(), "cache")
	source, err := workspace.Open(t.Context(), options)
	expect.NoError(t, err)
	return source
}

func acquireFrom(t testing.TB, source *workspace.Source) *workspace.Tree {
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
