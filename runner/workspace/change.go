package workspace

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"holon/internal/folder"
	"holon/runner/workspace/git"

	"golang.org/x/sys/unix"
)

// change is one of the files of a tree, made by the host. All new content is staged next to the tree before the change
// is recorded, and the change is recorded before the first file moves: what was cut off before is as if it had never
// begun, and what was cut off after is finished by the next use of the tree, whose steps may be repeated. A path is raw
// bytes.
type change struct {
	Gone    [][]byte  `json:"gone,omitempty"`
	Written []newFile `json:"written,omitempty"`
}

type newFile struct {
	Path []byte `json:"path"`
	Mode uint32 `json:"mode"`
	ID   string `json:"id"`
}

// planning finds out whether files of a tree can be changed.
type planning struct {
	tree    *Tree
	root    folder.Dir
	capture *capture // as of just now
	change  change
	gone    map[string]bool
	blocked []string // paths where something is that the diff leaves out, such as an ignored file
}

// plan returns the change from one git tree to another, of which the files have the first.
func (t *Tree) plan(ctx context.Context, root folder.Dir, c *capture, files []FileChange, ids []objectIDs) (*planning,
	error) {
	p := &planning{tree: t, root: root, capture: c, gone: map[string]bool{}}
	for i := range files {
		if f := &files[i]; f.Mode == "" {
			p.gone[f.Path] = true
			p.change.Gone = append(p.change.Gone, []byte(f.Path))
		}
	}
	for i := range files {
		f := &files[i]
		blocked := anyAbove(c.omitted, f.Path)
		if f.OldMode == "" && !blocked {
			var err error
			if blocked, err = p.occupied(ctx, f.Path); err != nil {
				return nil, err
			}
		}
		if blocked {
			p.blocked = append(p.blocked, f.Path)
		}
		if f.Mode != "" {
			p.change.Written = append(p.change.Written, newFile{Path: []byte(f.Path), Mode: modeNumber(f.Mode),
				ID: ids[i].after})
		}
	}
	return p, nil
}

// occupied reports whether something at a path that is new in the git tree would be lost.
func (p *planning) occupied(ctx context.Context, path string) (bool, error) {
	at := folder.NewCursor(p.root, false)
	defer at.Close()
	dir, name, err := at.Parent(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		return !anyAbove(p.gone, path), nil
	}
	if err != nil {
		return false, err
	}
	st, err := dir.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return true, err
	}
	sub, err := dir.Sub(name)
	if err != nil {
		return true, nil
	}
	defer sub.Close()
	return p.remains(ctx, sub, path)
}

var errRemains = errors.New("something remains")

// remains reports whether anything but directories is beneath a directory once the files that go are gone.
func (p *planning) remains(ctx context.Context, dir folder.Dir, path string) (bool, error) {
	err := folder.Walk(ctx, dir, path, func(dir folder.Dir, path string, names []string) (descend []string, err error) {
		for _, name := range names {
			st, err := dir.Lstat(name)
			isDir := st.Mode&unix.S_IFMT == unix.S_IFDIR
			if err != nil || !isDir && !p.gone[folder.Join(path, name)] {
				return nil, errRemains
			}
			if isDir {
				descend = append(descend, name)
			}
		}
		return descend, nil
	}, func(_ string, err error) error { return err })
	if err != nil && ctx.Err() != nil {
		return false, err
	}
	return err != nil, nil
}

// stage writes the new content next to the tree.
func (t *Tree) stage(ctx context.Context, repo git.Repository, c *change) error {
	if err := t.discard(ctx, t.slot.staged()); err != nil {
		return err
	}
	if len(c.Written) == 0 {
		return nil
	}
	if err := os.Mkdir(t.slot.staged(), 0o700); err != nil {
		return fmt.Errorf("stage files: %w", err)
	}
	root, err := folder.OpenOwned(t.slot.staged())
	if err != nil {
		return fmt.Errorf("stage files: %w", err)
	}
	defer root.Close()
	var entries []*git.Entry
	for _, f := range c.Written {
		if f.Mode == git.ModeSubmodule {
			continue
		}
		id, err := hex.DecodeString(f.ID)
		if err == nil {
			err = git.CheckPath(string(f.Path))
		}
		if err != nil {
			return fmt.Errorf("stage files: %w", err)
		}
		entries = append(entries, &git.Entry{Path: string(f.Path), Mode: f.Mode, Oid: string(id)})
	}
	err = repo.Git().WriteFiles(ctx, root, t.source.options.Owner, time.Now().UnixNano(), entries)
	if err != nil {
		return errors.Join(fmt.Errorf("stage files: %w", err), t.discard(ctx, t.slot.staged()))
	}
	return nil
}

// finish makes the change that was recorded, if there is one. It may be repeated at any point.
func (t *Tree) finish(ctx context.Context, root folder.Dir) error {
	if t.change == nil {
		return nil
	}
	if err := t.moveFiles(root); err != nil {
		return fmt.Errorf("change the files of the tree: %w", err)
	}
	if err := t.reached("moved"); err != nil {
		return err
	}
	if err := t.loadEntries(ctx, t.info.BaseTree); err != nil {
		return err
	}
	written := map[string]newFile{}
	for _, f := range t.change.Written {
		written[string(f.Path)] = f
	}
	err := t.recordFiles(root, time.Now().UnixNano(), func(e *git.Entry) bool {
		f, ok := written[e.Path]
		return ok && f.Mode == e.Mode && f.ID == hex.EncodeToString([]byte(e.Oid))
	})
	if err != nil {
		return err
	}
	if err := t.reached("recorded"); err != nil {
		return err
	}
	done := t.change
	t.change = nil
	if err := t.saveMoved(); err != nil {
		t.change = done
		return err
	}
	return t.discard(ctx, t.slot.staged())
}

// reached lets a test end the process, as it were, at a step.
func (t *Tree) reached(step string) error {
	if t.interrupt == nil {
		return nil
	}
	return t.interrupt(step)
}

// moveFiles removes what goes and moves the staged files into the tree.
func (t *Tree) moveFiles(root folder.Dir) error {
	bin, err := folder.OpenTrash(t.slot.trash())
	if err != nil {
		return err
	}
	defer bin.Close()
	if err := removeFiles(root, bin, t.change.Gone); err != nil {
		return err
	}
	if err := t.reached("removed"); err != nil {
		return err
	}
	into := folder.NewCreatingCursor(root, t.source.options.Owner)
	defer into.Close()
	staged, err := folder.OpenOwned(t.slot.staged())
	if errors.Is(err, fs.ErrNotExist) {
		return nil // all that was staged has moved, or nothing was
	}
	if err != nil {
		return err
	}
	defer staged.Close()
	from := folder.NewCursor(staged, false)
	defer from.Close()
	for _, f := range t.change.Written {
		if err := moveFile(bin, from, into, string(f.Path), f.Mode); err != nil {
			return fmt.Errorf("%q: %w", f.Path, err)
		}
		if err := t.reached("file"); err != nil {
			return err
		}
	}
	return nil
}

// moveFile moves one staged file over what has its place. One that is not staged any more is there.
func moveFile(bin *folder.Trash, from, into *folder.Cursor, path string, mode uint32) error {
	to, name, err := into.Parent(path)
	if err != nil {
		return err
	}
	if mode == git.ModeSubmodule {
		if err := unix.Mkdirat(to.FD, name, 0o755); err != nil && err != unix.EEXIST {
			return &os.PathError{Op: "mkdir", Path: path, Err: err}
		}
		return nil
	}
	dir, _, err := from.Parent(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	err = unix.Renameat(dir.FD, name, to.FD, name)
	if err == unix.EISDIR || err == unix.EPERM { // a directory without files, or a file that can't be changed
		if err := bin.Take(to, name); err != nil {
			return err
		}
		err = unix.Renameat(dir.FD, name, to.FD, name)
	}
	if err != nil && err != unix.ENOENT {
		return &os.LinkError{Op: "rename", Old: path, New: path, Err: err}
	}
	return nil
}

// removeFiles removes files and the directories that are empty then. What is a directory by now is a repeated step's.
func removeFiles(root folder.Dir, bin *folder.Trash, paths [][]byte) error {
	at := folder.NewCursor(root, false)
	defer at.Close()
	parents := map[string]bool{}
	for _, path := range paths {
		dir, name, err := at.Parent(string(path))
		if isAbsent(err) {
			continue
		}
		if err != nil {
			return err
		}
		st, err := dir.Lstat(name)
		if isAbsent(err) {
			continue
		}
		if err != nil {
			return err
		}
		if st.Mode&unix.S_IFMT != unix.S_IFDIR {
			if err := bin.Take(dir, name); err != nil {
				return err
			}
		}
		for top, _ := folder.Split(string(path)); top != ""; top, _ = folder.Split(top) {
			parents[top] = true
		}
	}
	return removeEmpty(root, parents)
}

func isAbsent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP)
}

// removeEmpty removes those of the directories that are empty, the deepest first.
func removeEmpty(root folder.Dir, dirs map[string]bool) error {
	list := make([]string, 0, len(dirs))
	for dir := range dirs {
		list = append(list, dir)
	}
	slices.SortFunc(list, func(a, b string) int { return strings.Compare(b, a) })
	at := folder.NewCursor(root, false)
	defer at.Close()
	for _, path := range list {
		dir, name, err := at.Parent(path)
		if err == nil {
			err = dir.Rmdir(name)
		}
		if err != nil && !isAbsent(err) && !errors.Is(err, unix.ENOTEMPTY) {
			return err
		}
	}
	return nil
}
