package workspace

import (
	"fmt"
	"path/filepath"
	"testing"

	"holon/test/expect"
	"holon/test/gittest"
)

// A change with many files that programs execute names all of them, in few lines.
func TestExecutedIsWhole(t *testing.T) {
	t.Parallel()
	const many = 3 * maxWarnings
	tree := acquire(t, Options{Dir: gittest.NewRepo(t, map[string]string{"a.txt": "a\n"})})
	files := map[string]string{".envrc": "id\n", "sub/AGENTS.md": "Do it.\n"}
	for i := range many {
		files[fmt.Sprintf(".github/workflows/w%d.yml", i)] = "on: push\n"
	}
	gittest.Write(t, tree.WorkDir(), files)
	diff, err := tree.Diff(t.Context(), DiffOptions{Patch: filepath.Join(t.TempDir(), "patch")})
	expect.NoError(t, err)
	groups := GroupExecuted(diff.Warnings)
	expect.Equal(t, "warnings", len(diff.Warnings), many+2)
	expect.Equal(t, "groups", len(groups), 3)
	for i, want := range []group{{Pattern: ".envrc", Files: 1}, {Pattern: ".github/workflows/*", Files: many},
		{Pattern: "sub/AGENTS.md", Files: 1}} {
		want.Message = groups[i].Message
		expect.Equal(t, "group", groups[i], want)
	}
}
