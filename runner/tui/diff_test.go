package tui

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"holon/runner/agent/view"
	"holon/runner/control/client"
	"holon/runner/control/wire"
	"holon/state"
	"holon/test/expect"
)

// A session that is there is called by its id from the beginning.
func TestSessionName(t *testing.T) {
	t.Parallel()
	expect.Equal(t, "none", sessionName("", ""), "new session")
	expect.Equal(t, "by its id", sessionName("", "ses_0123456789"), "session 456789")
	expect.Equal(t, "by its name", sessionName("mine", "ses_0123456789"), "mine")
}

// A patch comes from the daemon, wherever that is: no file that it names is read.
func TestPatchOfDaemon(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "change.patch")
	expect.NoError(t, os.WriteFile(path, []byte("+of this host\n"), 0o600))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		changes := state.Diff{Patch: path, PatchBytes: 1 << 30, Files: []state.FileChange{{Path: "a.go", Status: "modified"}}}
		var answer any = []view.TreeDiff{{Changes: changes, PatchText: "+of the daemon\n"}}
		if r.Method == http.MethodGet {
			answer = wire.SessionDiff{SessionID: "ses_1", Changes: changes, PatchText: "+of the daemon\n"}
		}
		_ = json.NewEncoder(w).Encode(answer)
	}))
	t.Cleanup(server.Close)
	c, err := client.New(server.URL, "token")
	expect.NoError(t, err)
	t.Cleanup(c.Close)
	for name, of := range map[string]backend{"session": newSession(c, Target{Session: "ses_1"}),
		"agent": &agent{client: c, id: "main"}} {
		got, err := of.diff(t.Context())
		expect.NoError(t, err)
		expect.Equal(t, name, got[0].Patch, "+of the daemon\n")
		expect.Contains(t, name+", which is cut", got[0].Note, "the patch goes on in "+path)
	}
}
