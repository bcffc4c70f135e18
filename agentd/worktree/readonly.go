package worktree

import (
	"os"

	"github.com/go-git/go-billy/v5"
	"github.com/go-git/go-billy/v5/osfs"
	"golang.org/x/sys/unix"

	"holon/internal/folder"
)

// readOnly returns the files of a git directory. None can be opened for writing, and a pipe or device in the place of
// one is an error rather than something to wait for.
func readOnly(dir string) billy.Filesystem { return files{osfs.New(dir, osfs.WithBoundOS())} }

type files struct{ billy.Filesystem }

func (f files) Open(name string) (billy.File, error) { return f.OpenFile(name, os.O_RDONLY, 0) }

func (f files) OpenFile(name string, flag int, _ os.FileMode) (billy.File, error) {
	if flag != os.O_RDONLY {
		return nil, &os.PathError{Op: "open", Path: name, Err: unix.EROFS}
	}
	if info, err := f.Stat(name); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() {
		return nil, &os.PathError{Op: "open", Path: name, Err: folder.ErrNotRegular}
	}
	return f.Filesystem.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
}
