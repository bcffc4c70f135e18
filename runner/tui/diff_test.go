package tui

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holon/state"
	"holon/test/expect"
)

// A daemon elsewhere names no file that is read here; that of this host does.
func TestPatchOfRemote(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "change.patch")
	expect.NoError(t, os.WriteFile(path, []byte("+of this host\n"), 0o600))
	d := state.Diff{Patch: path, Files: []state.FileChange{{Path: "a.go", Status: "modified"}}}
	if c := changeOf(d, true); c.Patch != "" || len(c.Files) != 1 || !strings.Contains(c.Note, "daemon's host") {
		t.Errorf("of another host: %+v", c)
	}
	expect.Equal(t, "of this host", changeOf(d, false).Patch, "+of this host\n")
}

// A session that is there is called by its id from the beginning.
func TestSessionName(t *testing.T) {
	t.Parallel()
	expect.Equal(t, "none", sessionName("", ""), "new session")
	expect.Equal(t, "by its id", sessionName("", "ses_0123456789"), "session 456789")
	expect.Equal(t, "by its name", sessionName("mine", "ses_0123456789"), "mine")
}
