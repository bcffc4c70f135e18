package landing

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"holon/runner/workspace"
	"holon/runner/workspace/git"
	"holon/test/gittest"
)

// agree is a person who read the files that programs execute.
func agree([]workspace.Warning) error { return nil }

// Apply and Checkout write nothing of a change with files that programs execute
// unless they are told to.
func TestExecutedNeedsConfirmation(t *testing.T) {
	t.Parallel()
	repo := gittest.NewRepo(t, map[string]string{"a.txt": "a\n", "x/refs/.keep": "", "x/objects/.keep": ""})
	tree := acquire(t, workspace.Options{Dir: repo})
	o := finished(t, repo, tree, func(dir string) {
		gittest.Write(t, dir, map[string]string{"a.txt": "b\n", ".envrc": "id\n", "x/config": "[core]\n"})
	})
	gittest.Write(t, repo, map[string]string{"x/HEAD": "ref: refs/heads/main\n"}) // the person's own, later
	before := userFiles(t, repo)
	options := ApplyOptions{Dir: repo, Patch: o.Diff.Patch, Objects: o.Objects, Warnings: o.Diff.Warnings}
	_, err := Apply(t.Context(), options)
	wantRefusal(t, err, CodeExecutedFiles)
	switch e, ok := errors.AsType[*git.Error](err); {
	case !ok:
		t.Errorf("%v, %q", err, e.Paths)
	case !slices.Equal(e.Paths, []string{".envrc", "x/config"}):
		t.Errorf("e.Paths = %q, want %q", e.Paths, []string{".envrc", "x/config"})
	case !strings.Contains(e.Error(), ".envrc"):
		t.Errorf(`e.Error() = %q, want it to contain ".envrc"`, e.Error())
	case !strings.Contains(e.Error(), "--allow-executed"):
		t.Errorf(`e.Error() = %q, want it to contain "--allow-executed"`, e.Error())
	}
	_, err = Checkout(t.Context(), o)
	wantRefusal(t, err, CodeExecutedFiles)
	no := errors.New("no")
	options.Confirm = func([]workspace.Warning) error { return no }
	if _, err := Apply(t.Context(), options); !errors.Is(err, no) {
		t.Errorf("%v", err)
	}
	if after := userFiles(t, repo); after != before || gittest.Run(t, repo,
		"git", "branch", "--list", "holon/*") != "" {
		t.Errorf("something was written:\n%s\n%s", before, after)
	}
	options.Confirm, o.Confirm = agree, agree
	if result := checkedOut(t, o); !git.Exists(filepath.Join(result.Path, ".envrc")) {
		t.Error("the file is not checked out")
	}
	o.Confirm = nil // it is there: nothing is written
	if !checkedOut(t, o).Existing {
		t.Error("the existing working tree is made again")
	}
	if result, err := Apply(t.Context(), options); err != nil || len(result.Written) != 3 {
		t.Errorf("%+v, %v", result, err)
	}
}
