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
)

// Use puts the temporary files of this process and of those that it starts into memory, where there is enough room and
// programs can run. A TestMain calls it.
func Use() {
	var st unix.Statfs_t
	if unix.Access(shared, unix.W_OK) != nil || unix.Statfs(shared, &st) != nil ||
		st.Bavail*uint64(st.Bsize) < enough || st.Flags&unix.ST_NOEXEC != 0 {
		return
	}
	if err := os.Setenv("TMPDIR", shared); err != nil {
		panic(err)
	}
}
