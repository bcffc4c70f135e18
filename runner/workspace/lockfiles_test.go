package workspace

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"holon/test/expect"
	"holon/test/gittest"
)

// Who writes has the files of a working tree alone, below whichever directory; copies are made at once.
func TestLockFiles(t *testing.T) {
	t.Parallel()
	repo, plain, cache := gittest.NewRepo(t, map[string]string{"sub/a": "a\n"}), t.TempDir(), t.TempDir()
	try := func(write bool, dirs ...string) (unlock func(), ok bool) {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		unlock, err := LockFiles(ctx, cache, write, dirs...)
		return unlock, err == nil
	}
	for _, tc := range []struct {
		write bool
		other []string
		want  bool
	}{
		{true, []string{filepath.Join(repo, "sub")}, false}, {false, []string{plain, repo}, false},
		{true, []string{plain}, true}, {false, []string{plain, plain}, true},
	} {
		unlock, err := LockFiles(t.Context(), cache, true, repo, repo)
		expect.NoError(t, err)
		again, ok := try(tc.write, tc.other...)
		expect.Equal(t, "while it is written to", ok, tc.want)
		if ok {
			again()
		}
		unlock()
		again, ok = try(tc.write, tc.other...)
		expect.Equal(t, "later", ok, true)
		again()
	}
	one, err := LockFiles(t.Context(), cache, false, repo)
	expect.NoError(t, err)
	defer one()
	two, ok := try(false, filepath.Join(repo, "sub"))
	expect.Equal(t, "two copies", ok, true)
	two()
	_, ok = try(true, repo)
	expect.Equal(t, "a write while it is copied", ok, false)
}
