package workspace

import (
	"context"
	"errors"
	"io/fs"
	"sync"
	"sync/atomic"

	"holon/internal/folder"
	"holon/runner/workspace/git"

	"golang.org/x/sys/unix"
)

// leastCharge is what a file counts at least, in bytes: it takes an inode and a name, also where it is empty.
const leastCharge = 4 << 10

// Charge returns what a file of so many blocks of 512 bytes counts.
func Charge(blocks int64) int64 { return max(blocks*512, leastCharge) }

// Usage returns how many bytes of the disk the files beneath dir take, which a container may write meanwhile.
// It follows no link, changes nothing, and skips directories that it may not enter. A file with several names
// counts once, and each at least 4 KiB. The usage of an absent directory is 0.
func Usage(ctx context.Context, dir string) (int64, error) {
	root, err := folder.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, git.WithCode("measure "+dir, err)
	}
	defer root.Close()
	var sum atomic.Int64
	var links linkSet
	err = folder.Walk(ctx, root, "", func(dir folder.Dir, _ string, names []string) (descend []string, err error) {
		for _, name := range names {
			st, err := dir.Lstat(name)
			if err != nil {
				continue // it vanished meanwhile
			}
			if st.Mode&unix.S_IFMT != unix.S_IFDIR && st.Nlink > 1 && links.seen(uint64(st.Dev), st.Ino) {
				continue
			}
			sum.Add(Charge(st.Blocks))
			if st.Mode&unix.S_IFMT == unix.S_IFDIR {
				descend = append(descend, name)
			}
		}
		return descend, nil
	}, func(string, error) error { return nil })
	if err != nil {
		return 0, git.WithCode("measure "+dir, err)
	}
	return sum.Load(), nil
}

// linkSet remembers files with several names, up to maxLinks.
type linkSet struct {
	mu    sync.Mutex
	files map[[2]uint64]bool // by device and inode
}

const maxLinks = 100_000

// seen reports whether the file was asked about before, and remembers it.
func (l *linkSet) seen(device, inode uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := [2]uint64{device, inode}
	if l.files[key] {
		return true
	}
	if l.files == nil {
		l.files = map[[2]uint64]bool{}
	}
	if len(l.files) < maxLinks {
		l.files[key] = true
	}
	return false
}
