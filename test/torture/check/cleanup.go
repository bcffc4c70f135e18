package check

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"holon/internal/procfs"
)

// NoProcess checks that no process runs which carries mark in its environment
// or works in dir, other than those of allowed. Zombies do not run.
func NoProcess(mark, dir string, allowed ...int) error {
	found := []string{}
	for _, st := range procfs.All() { // without /proc it is empty, and the tests of this package say so
		pid := st.PID
		if slices.Contains(allowed, pid) || pid == os.Getpid() || !st.Running() {
			continue
		}
		env, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid)) // gone, or another's
		cwd, _ := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid))
		marked := mark != "" && slices.ContainsFunc(bytes.Split(env, []byte{0}), func(v []byte) bool {
			return string(v) == mark
		})
		if marked || dir != "" && within(dir, cwd) {
			line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			found = append(found, fmt.Sprintf("%d %.80q", pid, bytes.ReplaceAll(line, []byte{0}, []byte{' '})))
		}
	}
	if len(found) > 0 {
		return fmt.Errorf("processes are left: %s", strings.Join(found, ", "))
	}
	return nil
}

func within(dir, path string) bool { return path == dir || strings.HasPrefix(path, dir+"/") }

// NoTemporary checks that no temporary file is left anywhere under dir.
func NoTemporary(dir string) error {
	return walk(dir, func(path string, d fs.DirEntry) error {
		for _, prefix := range []string{".tmp-", ".new-", ".removed-", ".probe-"} {
			if strings.HasPrefix(d.Name(), prefix) {
				return fmt.Errorf("a temporary file is left: %s", path)
			}
		}
		return nil
	})
}

// NoSocket checks that no socket is left under dir.
func NoSocket(dir string) error {
	return walk(dir, func(path string, d fs.DirEntry) error {
		if d.Type()&fs.ModeSocket != 0 {
			return fmt.Errorf("a socket is left: %s", path)
		}
		return nil
	})
}

// NoMount checks that nothing is mounted at dir or below, other than at the
// points of allowed.
func NoMount(dir string, allowed ...string) error {
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(data)) {
		if f := strings.Fields(line); len(f) > 4 && within(dir, f[4]) && !slices.Contains(allowed, f[4]) {
			return fmt.Errorf("a mount is left: %s", f[4])
		}
	}
	return nil
}

// NoLock checks that no process holds a lock on a file under dir.
func NoLock(dir string) error {
	data, err := os.ReadFile("/proc/locks")
	if err != nil {
		return err
	}
	held := map[string]bool{} // MAJOR:MINOR:INODE, the numbers of the device in hexadecimal
	for line := range strings.Lines(string(data)) {
		if f := strings.Fields(line); len(f) > 5 && f[1] != "->" {
			held[f[5]] = true
		}
	}
	return walk(dir, func(path string, d fs.DirEntry) error {
		info, err := d.Info()
		if err != nil {
			return nil // gone meanwhile
		}
		st, ok := info.Sys().(*syscall.Stat_t)
		if ok && held[fmt.Sprintf("%02x:%02x:%d", unix.Major(uint64(st.Dev)), unix.Minor(uint64(st.Dev)), st.Ino)] {
			return fmt.Errorf("a lock is still held: %s", path)
		}
		return nil
	})
}

func Files(pid int) (int, error) {
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	return len(entries), err
}

// walk visits everything under dir that is still there.
func walk(dir string, f func(path string, d fs.DirEntry) error) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		return f(path, d)
	})
}
