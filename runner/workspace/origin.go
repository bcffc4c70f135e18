package workspace

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// origin identifies the directory that trees are made from and the user they are made for. Trees of different origins
// are never shared, so that nothing gets from one repository or user to another. The container's user is not part of
// it: in an a tree that is acquired for another owner, every file and directory is created again.
type origin struct {
	top           string // of the user's directory
	place         string // its git directory, or top itself where there is none
	device, inode uint64 // of place: another repository may come to the same path
	user, group   int    // of this process
}

func originOf(top, place string) (origin, error) {
	var st unix.Stat_t
	if err := unix.Stat(place, &st); err != nil {
		return origin{}, &os.PathError{Op: "stat", Path: place, Err: err}
	}
	return origin{top: top, place: place, device: uint64(st.Dev), inode: st.Ino, user: os.Geteuid(),
		group: os.Getegid()}, nil
}

const originFormat = "%q %q device %d inode %d user %d:%d\n"

func (o origin) String() string {
	return fmt.Sprintf(originFormat, o.top, o.place, o.device, o.inode, o.user, o.group)
}

// parseOrigin reads what String wrote.
func parseOrigin(text string) (o origin, ok bool) {
	_, err := fmt.Sscanf(text, originFormat, &o.top, &o.place, &o.device, &o.inode, &o.user, &o.group)
	return o, err == nil
}

// gone reports whether the origin's directory was removed or replaced by another.
func (o origin) gone() bool {
	var st unix.Stat_t
	err := unix.Stat(o.place, &st)
	return errors.Is(err, fs.ErrNotExist) || err == nil && (uint64(st.Dev) != o.device || st.Ino != o.inode)
}
