package landing

import (
	"path/filepath"
	"testing"

	"holon/runner/workspace"
	"holon/runner/workspace/git"
	"holon/test/expect"
	"holon/test/gittest"

	"golang.org/x/sys/unix"
)

// Apply does not wait for a pipe that git would open for the files that it writes.
func TestApplyNextToPipe(t *testing.T) {
	t.Parallel()
	repo := gittest.NewRepo(t, map[string]string{"sub/a.txt": "a\n"})
	o := finished(t, repo, acquire(t, workspace.Options{Dir: repo}), func(dir string) {
		gittest.Write(t, dir, map[string]string{"sub/a.txt": "b\n"})
	})
	expect.NoError(t, unix.Mkfifo(filepath.Join(repo, "sub", ".gitattributes"), 0o600))
	_, err := Apply(t.Context(), ApplyOptions{Dir: repo, Patch: o.Diff.Patch, Objects: o.Objects})
	wantRefusal(t, err, git.CodeBrokenRepository)
}
