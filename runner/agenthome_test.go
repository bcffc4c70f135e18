package runner

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
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
	if err != nil {
		t.Fatal(err)
	}
}

// A session starts again in directories that the agent closed, its home too.
func TestUserClosedSession(t *testing.T) {
	s := &Session{cfg: Config{Dir: t.TempDir(), Files: Files{AgentHome: filepath.Join(t.TempDir(), "home")}}}
	mkdir(t, s.cfg.AgentHome)
	for range 2 {
		if err := errors.Join(s.makeDirs(), s.openAgentHome()); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{filepath.Join(s.cfg.Dir, "state"), filepath.Join(s.cfg.Dir, "output"),
			s.cfg.AgentHome} {
			mkdir(t, filepath.Join(name, "sub"))
			write(t, filepath.Join(name, "sub/f"), "x")
		}
		for _, sub := range []string{"state", "output"} {
			closeAll(t, filepath.Join(s.cfg.Dir, sub))
		}
		if err := os.Chmod(s.cfg.AgentHome, 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(s.makeDirs(), s.openAgentHome()); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"state/sub/f", "output/sub/f"} {
		if _, err := os.ReadFile(filepath.Join(s.cfg.Dir, name)); err != nil {
			t.Error(err)
		}
	}
}

func mkdir(t *testing.T, path string) {
	t.Helper()
	if err := os.MkdirAll(path, 0o700); err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, path, data string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
		t.Fatal(err)
	}
}
