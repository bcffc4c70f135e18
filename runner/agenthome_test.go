package runner

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"holon/test/expect"
)

// closeAll takes every permission away from dir and all beneath.
func closeAll(t *testing.T, dir string) {
	t.Helper()
	var paths []string
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		paths = append(paths, path)
		return err
	})
	for _, path := range slices.Backward(paths) {
		err = errors.Join(err, os.Chmod(path, 0))
	}
	expect.NoError(t, err)
}

// A session starts again in directories that the agent closed, its home too.
func TestUserClosedSession(t *testing.T) {
	s := &Session{cfg: Config{Dir: t.TempDir(), Files: Files{AgentHome: filepath.Join(t.TempDir(), "home")}}}
	mkdir(t, s.cfg.AgentHome)
	for range 2 {
		expect.NoError(t, errors.Join(s.makeDirs(), s.openAgentHome()))
		for _, name := range []string{filepath.Join(s.cfg.Dir, "state"), filepath.Join(s.cfg.Dir, "output"),
			s.cfg.AgentHome} {
			mkdir(t, filepath.Join(name, "sub"))
			write(t, filepath.Join(name, "sub/f"), "x")
		}
		for _, sub := range []string{"state", "output"} {
			closeAll(t, filepath.Join(s.cfg.Dir, sub))
		}
		expect.NoError(t, os.Chmod(s.cfg.AgentHome, 0))
	}
	expect.NoError(t, errors.Join(s.makeDirs(), s.openAgentHome()))
	for _, name := range []string{"state/sub/f", "output/sub/f"} {
		if _, err := os.ReadFile(filepath.Join(s.cfg.Dir, name)); err != nil {
			t.Error(err)
		}
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
