// Package memory keeps the files of tests in memory. A test of what a process does when it is killed loses nothing
// there, and does not wait for a disk at every step that it makes durable. What only a disk can show, such as a loss
// of power, it cannot show.
package memory

import (
	"os"

	"golang.org/x/sys/unix"
)

const (
	shared = "/dev/shm"
	enough = 1 << 30 // bytes
	noExec = 8       // ST_NOEXEC, which macOS lacks as it does the directory
)

// Place returns the directory for temporary files in memory, as os.MkdirTemp takes it: "", the usual one, where there
// is too little room or programs cannot run.
func Place() string {
	var st unix.Statfs_t
	if unix.Access(shared, unix.W_OK) != nil || unix.Statfs(shared, &st) != nil ||
		st.Bavail*uint64(st.Bsize) < enough || st.Flags&noExec != 0 {
		return ""
	}
	return shared
}

// Use puts the temporary files of this process and of those that it starts into memory, where Place finds room. A
// TestMain calls it.
func Use() {
	place := Place()
	if place == "" {
		return
	}
	if err := os.Setenv("TMPDIR", place); err != nil {
		panic(err)
	}
}

// Test is what Dir needs of *testing.T, *testing.B or *rapid.T.
type Test interface {
	Helper()
	Cleanup(func())
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// Dir makes a directory that it removes with the test, with a path short enough for sockets. It is in memory where that
// is possible, so that a commit of a store costs no write to a disk: the end of a process, which tests try, loses
// nothing of it. A test of what the end of the machine leaves needs a real disk, which t.TempDir has.
func Dir(t Test) string {
	t.Helper()
	dir, err := os.MkdirTemp(Place(), "holon-test-")
	if err != nil {
		t.Fatalf("make a directory in memory: %v", err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("remove a directory in memory: %v", err)
		}
	})
	return dir
}
