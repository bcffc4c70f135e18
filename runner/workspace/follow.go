package workspace

import (
	"errors"
	"io/fs"
	"os"

	"holon/internal/folder"
	"holon/runner/workspace/git"

	"golang.org/x/sys/unix"
)

// followBase moves HEAD of the agent's repository, and its index, to the base, when it is at the commit of the base
// before, so that git in the tree shows the agent's changes alone. An agent that made commits merges or rebases them
// itself: what the base was made of is among its objects. The repository is the agent's, so that a fault there is not
// one of the tree.
func (t *Tree) followBase(root folder.Dir, before string) {
	if before == "" || t.info.BaseCommit == "" || t.source.options.ObjectsDir == "" {
		return
	}
	dir, err := root.Sub(".git")
	if err != nil {
		return
	}
	defer dir.Close()
	switch tip, err := git.AgentHead(dir); {
	case err == nil && tip == t.info.BaseCommit: // repeated
	case err != nil || tip != before:
		return
	default:
		target, err := git.AgentBranch(dir)
		if err == nil {
			err = t.replaceIn(dir, target, []byte(t.info.BaseCommit+"\n"))
		}
		if err != nil {
			return
		}
	}
	_ = t.replaceIn(dir, "index", t.index)
}

// replaceIn replaces a file of the agent's repository, through no link.
func (t *Tree) replaceIn(dir folder.Dir, path string, content []byte) error {
	at := folder.NewCreatingCursor(dir, t.source.options.Owner)
	defer at.Close()
	in, name, err := at.Parent(path)
	if err != nil {
		return err
	}
	const fresh = "holon.lock"
	if err := unix.Unlinkat(in.FD, fresh, 0); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	fd, err := unix.Openat(in.FD, fresh, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return err
	}
	file := os.NewFile(uintptr(fd), fresh)
	_, err = file.Write(content)
	if err = errors.Join(err, file.Chmod(0o644), file.Close(), folder.Chown(in, fresh, t.source.options.Owner)); err != nil {
		return errors.Join(err, unix.Unlinkat(in.FD, fresh, 0))
	}
	return unix.Renameat(in.FD, fresh, in.FD, name)
}
