package transfer

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"syscall"
)

// rights give root, which has no other capabilities than to become another user, the rights of the owner of each
// directory that it reads or writes. Root is still its real user, so that no process of that owner can signal or trace
// it. nil is another user, who has its own.
type rights struct {
	owners map[string]owner // of directories, and of other files that have not the owner of theirs
	now    owner
}

type owner struct{ uid, gid int }

func newRights(top fs.FileInfo) (*rights, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	r := &rights{owners: map[string]owner{".": ownerOf(top)}}
	return r, r.take(".")
}

func ownerOf(info fs.FileInfo) owner {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return owner{int(st.Uid), int(st.Gid)}
	}
	return owner{}
}

// note remembers the owner of a file.
func (r *rights) note(name string, isDir bool, o owner) {
	if r != nil && (isDir || o != r.now) {
		r.owners[name] = o
	}
}

// take takes the rights of the owner of a file, or of its directory, as far as they are known.
func (r *rights) take(name string) error {
	if r == nil {
		return nil
	}
	o, known := r.owners[name]
	for ; !known; o, known = r.owners[name] {
		name = path.Dir(name)
	}
	return r.become(o)
}

func (r *rights) become(o owner) error {
	if r == nil || r.now == o {
		return nil
	}
	err := errors.Join(syscall.Seteuid(0), syscall.Setegid(o.gid), syscall.Seteuid(o.uid))
	if err != nil {
		return fmt.Errorf("take the rights of user %d:%d: %w", o.uid, o.gid, err)
	}
	r.now = o
	return nil
}

// close gives the rights up.
func (r *rights) close() error { return r.become(owner{}) }
