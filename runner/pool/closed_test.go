package pool

import (
	"os"
	"path/filepath"
	"testing"

	"holon/internal/roots"
	"holon/runner/sessions"
	"holon/state"
	"holon/test/expect"
)

// An agent that runs as this process's user can't close its home to the host,
// which keeps its own files there, nor keep what is old from being removed.
func TestClosedHome(t *testing.T) {
	t.Parallel()
	home, err := state.MakeHome(filepath.Join(t.TempDir(), "home"), "")
	expect.NoError(t, err)
	k, a := New(Options{Home: home, KeepTurns: 1}), &agent{id: "a", key: sessions.OfAgent("a"), dirty: true}
	turns := filepath.Join(k.private(a, sessionDir), "output", "turns")
	for _, id := range []string{"turn_1", "turn_2", "turn_3", "turn_4"} {
		expect.NoError(t, os.MkdirAll(filepath.Join(turns, id, "sub"), 0o700))
		expect.NoError(t, os.WriteFile(filepath.Join(turns, id, "sub", "f"), nil, 0o600))
		expect.NoError(t, os.Chmod(filepath.Join(turns, id, "sub"), 0))
		expect.NoError(t, os.Chmod(filepath.Join(turns, id), 0o100))
	}
	t.Cleanup(func() { // for the test's directory to be removed
		root, err := os.OpenRoot(turns)
		expect.NoError(t, err)
		defer root.Close()
		roots.ReopenAll(root, ".")
	})
	expect.NoError(t, os.Chmod(turns, 0))
	expect.NoError(t, os.Chmod(filepath.Dir(turns), 0))
	expect.NoError(t, os.Chmod(home.AgentDir(a.id), 0))
	expect.NoError(t, k.prune(t.Context(), a))
	left, err := os.ReadDir(turns)
	if err != nil || len(left) != keepNewest {
		t.Errorf("%d turns are left, %v", len(left), err)
	}
	expect.NoError(t, os.Chmod(home.AgentDir(a.id), 0))
	expect.NoError(t, k.sessions.RemoveRecord(a.key))
}
