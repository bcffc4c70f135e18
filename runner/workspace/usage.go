package workspace

import (
	"context"
	"errors"
	"io/fs"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// Usage returns how many bytes of the disk the files beneath dir take, which a
// container may write meanwhile. It follows no link, changes nothing, and passes
// over what it may not enter. A file with several names counts once for each.
// No such directory takes nothing.
func Usage(ctx context.Context, dir string) (int64, error) {
	root, err := openFolder(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, typed("measure "+dir, err)
	}
	defer root.close()
	var sum atomic.Int64
	err = walkTree(ctx, root, "", func(dir folder, _ string, names []string) (descend []string, err error) {
		for _, name := range names {
			st, err := dir.lstat(name)
			if err != nil {
				continue // it vanished meanwhile
			}
			sum.Add(st.Blocks * 512)
			if st.Mode&unix.S_IFMT == unix.S_IFDIR {
				descend = append(descend, name)
			}
		}
		return descend, nil
	}, func(string, error) error { return nil })
	if err != nil {
		return 0, typed("measure "+dir, err)
	}
	return sum.Load(), nil
}
