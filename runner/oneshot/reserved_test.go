package oneshot

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"holon/responses/turns"
	"holon/runner/turnfiles"
	"holon/test/expect"
)

// turnNames are the files of agentd's own.
var turnNames = []string{turns.RecordFile, turns.EventsFile, turns.RuntimeFile, turns.FailureFile}

// A file of any kind that a turn leaves under a name of ours is not in the results.
func TestReservedNames(t *testing.T) {
	for _, name := range append(slices.Concat(reservedNames, turnNames), ".tmp-0123456789abcdef", "worktree-1.patch",
		".checkout-1") {
		for kind, plant := range map[string]func(path string) error{
			"file":      func(path string) error { return os.WriteFile(path, []byte("planted"), 0o600) },
			"directory": func(path string) error { return os.MkdirAll(filepath.Join(path, "planted"), 0o700) },
			"link":      func(path string) error { return os.Symlink("/etc/passwd", path) },
			"pipe":      func(path string) error { return syscall.Mkfifo(path, 0o600) },
		} {
			dir, dst := t.TempDir(), t.TempDir()
			turn := filepath.Join(dir, "output/turns/turn_1")
			mkdir(t, filepath.Join(turn, "sub"))
			expect.NoError(t, plant(filepath.Join(turn, name)))
			write(t, filepath.Join(turn, "sub", name), "harmless")
			warnings, err := turnfiles.Collection{SessionDir: dir, TurnID: "turn_1", To: dst,
				Reserved: reservedNames}.Collect(t.Context())
			expect.NoError(t, err)
			_, err = os.Lstat(filepath.Join(dst, name))
			if slices.Contains(turnNames, name) && kind == "file" { // agentd's own
				if err != nil {
					t.Errorf("%s was not collected: %v", name, err)
				}
			} else if !errors.Is(err, fs.ErrNotExist) || len(warnings) != 1 || !strings.Contains(warnings[0], name) {
				t.Errorf("a %s %s: %v, said %q", kind, name, err, warnings)
			}
			if _, err := os.Lstat(filepath.Join(dst, "sub", name)); err != nil {
				t.Error(err)
			}
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
