package worktree

import (
	"os"

	"github.com/go-git/go-billy/v5"
	"github.com/go-git/go-billy/v5/osfs"
	"golang.org/x/sys/unix"

	"holon/internal/folder"
)

// readOnly returns the files of a git directory. Nothing can be written, and a pipe or device in the place of a file is
// an error rather than something to wait for.
func readOnly(dir string) billy.Filesystem { return files{osfs.New(dir, osfs.WithBoundOS())} }

type files struct{ billy.Filesystem }

func (f files) Open(name string) (billy.File, error) { return f.OpenFile(name, os.O_RDONLY, 0) }

func (f files) OpenFile(name string, flag int, _ os.FileMode) (billy.File, error) {
	if flag != os.O_RDONLY {
		return nil, &os.PathError{Op: "open", Path: name, Err: unix.EROFS}
	}
	file, err := f.Filesystem.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Filesystem.Stat(name)
	if err == nil && !info.Mode().IsRegular() {
		err = &os.PathError{Op: "open", Path: name, Err: folder.ErrNotRegular}
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}
