package runner

import (
	"os"
	"path/filepath"
	"testing"

	"holon/test/expect"
)

// A session starts again in a home that the agent closed.
func TestUserClosedHome(t *testing.T) {
	home := filepath.Join(t.TempDir(), "home")
	s := &Session{cfg: Config{Files: Files{AgentHome: home}}}
	mkdir(t, home)
	write(t, filepath.Join(home, "f"), "x")
	expect.NoError(t, os.Chmod(home, 0))
	expect.NoError(t, s.openAgentHome())
	if _, err := os.ReadFile(filepath.Join(home, "f")); err != nil {
		t.Error(err)
	}
}

func mkdir(t *testing.T, path string) {
	t.Helper()
	expect.NoError(t, os.MkdirAll(path, 0o700))
}

func write(t *testing.T, path, data string) {
	t.Helper()
	expect.NoError(t, os.WriteFile(path, []byte(data), 0o600))
}
