package tui

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holon/runner/control/client"
	"holon/runner/control/wire"
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

// The patch of a session comes from the daemon, wherever that is.
func TestPatchOfRemoteSession(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "change.patch")
	expect.NoError(t, os.WriteFile(path, []byte("+of this host\n"), 0o600))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Accept") == "text/x-diff" {
			_, _ = w.Write([]byte("+of the daemon\n"))
			return
		}
		_ = json.NewEncoder(w).Encode(wire.SessionDiff{SessionID: "ses_1",
			Changes: state.Diff{Patch: path, PatchBytes: 15, Files: []state.FileChange{{Path: "a.go", Status: "modified"}}}})
	}))
	t.Cleanup(server.Close)
	c, err := client.New(server.URL, "token")
	expect.NoError(t, err)
	t.Cleanup(c.Close)
	s := newSession(c, Target{Session: "ses_1"})
	s.remote = true
	got, err := s.diff(t.Context())
	expect.NoError(t, err)
	expect.Equal(t, "patch", got[0].Patch, "+of the daemon\n")
	expect.Equal(t, "note", got[0].Note, "")
}
