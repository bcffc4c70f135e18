// Package memory keeps the files of tests in memory. A test of what a process does when it is killed loses nothing
// there, and does not wait for a disk at every step that it makes durable. What only a disk can show, such as a loss
// of power, it cannot show.
package memory

import (
	"os"

	"golang.org/x/sys/unix"
)

const (
	dir    = "/dev/shm"
	enough = 1 << 30 // bytes
)

// Use makes dir the place of temporary files of this process and those that it starts, where there is enough room.
// A TestMain calls it.
func Use() {
	var st unix.Statfs_t
	if unix.Access(dir, unix.W_OK) != nil || unix.Statfs(dir, &st) != nil || st.Bavail*uint64(st.Bsize) < enough {
		return
	}
	if err := os.Setenv("TMPDIR", dir); err != nil {
		panic(err)
	}
}
