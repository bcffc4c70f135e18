package workspace

import (
	"errors"
	"path/filepath"
	"testing"

	"holon/runner/workspace/git"
	"holon/test/expect"
	"holon/test/gittest"

	"golang.org/x/sys/unix"
)

// A pipe that git would open is refused, and not waited for.
func TestPipesInTheUsersTree(t *testing.T) {
	t.Parallel()
	for _, name := range []string{".gitignore", ".gitattributes", "sub/.gitignore", "sub/deep/.gitattributes"} {
		repo := gittest.NewRepo(t, map[string]string{"a": "a\n", "sub/deep/a": "a\n"})
		gittest.Write(t, repo, map[string]string{"sub/new": "a\n"})
		path := filepath.Join(repo, name)
		expect.NoError(t, unix.Mkfifo(path, 0o600))
		_, err := Open(t.Context(), Options{Dir: repo, IncludeDirty: true, CacheDir: t.TempDir()})
		e, _ := errors.AsType[*git.Error](err)
		if e == nil || e.Code != git.CodeBrokenRepository || e.Param != path {
			t.Errorf("%s: %v, want %s", name, err, git.CodeBrokenRepository)
		}
	}
}
