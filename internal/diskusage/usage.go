// Package diskusage measures what files take of the disk while a hostile program may write them. It follows no link and
// changes nothing.
package diskusage

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"holon/internal/folder"
)

// leastCharge is what a file counts at least, in bytes: it takes an inode and a name, also where it is empty.
const leastCharge = 4 << 10

// charge returns what a file of so many blocks of 512 bytes counts.
func charge(blocks int64) int64 { return max(blocks*512, leastCharge) }

// Dir returns how many bytes of the disk the files beneath dir take. It skips directories that it may not enter, and
// says that there are such. A file with several names counts once, and each at least 4 KiB. The usage of an absent
// directory is 0.
func Dir(ctx context.Context, dir string) (bytes int64, skipped bool, err error) {
	root, err := folder.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	defer root.Close()
	var sum atomic.Int64
	var closed atomic.Bool
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
			sum.Add(charge(st.Blocks))
			if st.Mode&unix.S_IFMT == unix.S_IFDIR {
				descend = append(descend, name)
			}
		}
		return descend, nil
	}, func(_ string, err error) error {
		if errors.Is(err, fs.ErrPermission) {
			closed.Store(true)
		}
		return nil
	})
	if err != nil {
		return 0, false, err
	}
	return sum.Load(), closed.Load(), nil
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

// Unlinked returns how many bytes of the disks of dirs the files take that processes hold open, or mapped, and that
// have no name any more: Dir does not find them. Processes are directories of /proc; one that this process may not look
// into counts nothing.
func Unlinked(processes, dirs []string) (sum int64) {
	disks := make(map[uint64]bool)
	for _, dir := range dirs {
		var st unix.Stat_t
		if unix.Stat(dir, &st) == nil {
			disks[uint64(st.Dev)] = true
		}
	}
	charged := make(map[[2]uint64]bool)
	for _, process := range processes {
		for _, kind := range []string{"fd", "map_files"} {
			open, err := os.ReadDir(filepath.Join(process, kind))
			if err != nil {
				continue // it ended, or is another user's
			}
			for _, file := range open {
				var st unix.Stat_t
				err := unix.Stat(filepath.Join(process, kind, file.Name()), &st)
				unnamed := err == nil && st.Mode&unix.S_IFMT == unix.S_IFREG && st.Nlink == 0
				if key := [2]uint64{uint64(st.Dev), st.Ino}; unnamed && disks[uint64(st.Dev)] && !charged[key] {
					charged[key] = true
					sum += charge(st.Blocks)
				}
			}
		}
	}
	return sum
}
