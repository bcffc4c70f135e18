package workspace

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"holon/internal/durable"
	"holon/internal/folder"
	"holon/runner/workspace/git"

	"golang.org/x/sys/unix"
)

// CodeTreeGone is the code of a placed tree that something moved, removed or replaced by a file or link.
const CodeTreeGone = "tree_gone"

// placement says where the tree of a slot was put, and which directory that was: by the time it is taken back, another
// tree may have the path.
type placement struct {
	Dir    string `json:"dir"`
	Device uint64 `json:"device"`
	Inode  uint64 `json:"inode"`
}

// openTree opens the tree. A container may write the directory that a placed tree stands in.
func (s *slot) openTree() (folder.Dir, error) {
	root, err := folder.OpenOwned(s.tree())
	if err != nil && s.placed != "" && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) ||
		errors.Is(err, unix.ELOOP)) {
		return root, &git.Error{Code: CodeTreeGone, Param: s.placed, Err: err,
			Message: "the working tree is not at " + s.placed + " any more",
			Hint:    "put it back, or release the tree"}
	}
	return root, err
}

// place moves the tree out of the slot. The place is recorded first, so that a tree whose holder was killed is found.
func (s *slot) place(dir string) error {
	if dir == "" {
		return nil
	}
	var st unix.Stat_t
	if err := unix.Lstat(s.tree(), &st); err != nil {
		return fmt.Errorf("place the tree: %w", err)
	}
	data, err := json.Marshal(placement{Dir: dir, Device: uint64(st.Dev), Inode: st.Ino})
	if err == nil {
		err = durable.WriteFile(s.placement(), data, 0o600)
	}
	if err != nil {
		return fmt.Errorf("place the tree: %w", err)
	}
	switch err := folder.RenameNew(unix.AT_FDCWD, s.tree(), unix.AT_FDCWD, dir); err {
	case nil:
		s.placed = dir
		return nil
	case unix.EEXIST:
		return git.InvalidOption("TreeDir", "there is something at %.200q already", dir)
	case unix.EXDEV:
		return git.InvalidOption("TreeDir", "%.200q is on another file system than the cache", dir)
	default:
		return &os.LinkError{Op: "rename", Old: s.tree(), New: dir, Err: err}
	}
}

// takeBack moves a placed tree into the slot again. The holder of the tree takes whatever has its place, others only
// the directory that was put there.
func (s *slot) takeBack(holder bool) error {
	data, err := os.ReadFile(s.placement())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var p placement
	if err == nil {
		err = json.Unmarshal(data, &p)
	}
	if err == nil {
		err = s.takeFrom(p, holder)
	}
	if err == nil {
		err = os.Remove(s.placement())
	}
	if err != nil {
		return fmt.Errorf("take the tree back: %w", err)
	}
	s.placed = ""
	return nil
}

func (s *slot) takeFrom(p placement, holder bool) error {
	parent, err := folder.Open(filepath.Dir(p.Dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer parent.Close()
	name := filepath.Base(p.Dir)
	st, err := parent.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if uint64(st.Dev) == p.Device && st.Ino == p.Inode {
		if err := parent.Unfreeze(name); err != nil {
			return err
		}
		err := folder.RenameNew(parent.FD, name, unix.AT_FDCWD, filepath.Join(s.dir, treeName))
		if err != unix.EACCES && err != unix.EEXIST {
			return err
		}
	} else if !holder {
		return nil
	}
	bin, err := folder.OpenTrash(s.trash())
	if err != nil {
		return err
	}
	defer bin.Close()
	return bin.Take(parent, name)
}
