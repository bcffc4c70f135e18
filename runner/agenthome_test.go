package runner

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"holon/runner/engine"
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

// A home is given to another user with names in it that are not UTF-8.
func TestGiveNamesThatAreBytes(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root gives files away")
	}
	home := t.TempDir()
	file := filepath.Join(home, "caf\xe9", "f")
	mkdir(t, filepath.Dir(file))
	write(t, file, "x")
	expect.NoError(t, new(Session).giveTree(t.Context(), home, "", engine.User{UID: 1234, GID: 1234}))
	info, err := os.Stat(file)
	expect.NoError(t, err)
	expect.Equal(t, "owner", info.Sys().(*syscall.Stat_t).Uid, uint32(1234))
}

func mkdir(t *testing.T, path string) {
	t.Helper()
	expect.NoError(t, os.MkdirAll(path, 0o700))
}

func write(t *testing.T, path, data string) {
	t.Helper()
	expect.NoError(t, os.WriteFile(path, []byte(data), 0o600))
}
