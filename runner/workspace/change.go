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
	"sync"
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
	Head    string    `json:"head,omitempty"` // commit of the base before it moved; "" when it does not move
}

type newFile struct {
	Path []byte `json:"path"`
	Mode uint32 `json:"mode"`
	ID   string `json:"id"`
}

// planning finds out whether files of a tree can be changed.
type planning struct {
	root    folder.Dir
	base    []git.Entry // of the tree afterwards
	change  change
	gone    map[string]bool
	blocked []string // paths where something is that the diff leaves out, such as an ignored file
}

// plan finds the change from one git tree, which the files have, to another.
func (p *planning) plan(ctx context.Context, c *capture, files []FileChange, ids []objectIDs) error {
	for i := range files {
		if f := &files[i]; f.Mode == "" {
			p.remove(f.Path)
		}
	}
	if err := p.planModules(ctx, c); err != nil {
		return err
	}
	for i := range files {
		f := &files[i]
		blocked := anyAbove(c.omitted, f.Path)
		if f.OldMode == "" && !blocked {
			var err error
			if blocked, err = p.occupied(ctx, f.Path); err != nil {
				return err
			}
		}
		if blocked {
			p.blocked = append(p.blocked, f.Path)
		}
		if f.Mode != "" {
			p.change.Written = append(p.change.Written, newFile{[]byte(f.Path), modeNumber(f.Mode), ids[i].after})
		}
	}
	for _, f := range p.change.Written {
		delete(p.gone, string(f.Path)) // replaced instead
	}
	p.change.Gone = slices.DeleteFunc(p.change.Gone, func(path []byte) bool { return !p.gone[string(path)] })
	return nil
}

func (p *planning) remove(path string) {
	p.gone[path] = true
	p.change.Gone = append(p.change.Gone, []byte(path))
}

// planModules brings the files within submodules up to date that the agent did not touch.
func (p *planning) planModules(ctx context.Context, c *capture) error {
	_, modules := splitModules(p.base)
	wanted := make(map[string]*git.Entry, len(modules))
	for i := range modules {
		wanted[modules[i].Path] = &modules[i]
	}
	for i := range c.record.entries {
		e := &c.record.entries[i]
		if !e.Module {
			continue
		}
		now := wanted[e.Path]
		if now != nil && (now.Oid == e.Oid && now.Mode == e.Mode || !c.have[i]) {
			delete(wanted, e.Path) // it is there, or the diff warns of it
		}
		if c.have[i] && now == nil {
			p.remove(e.Path)
		}
	}
	for i := range modules {
		e := &modules[i]
		if wanted[e.Path] == nil {
			continue
		}
		occupied, err := p.occupied(ctx, e.Path)
		if err != nil {
			return err
		}
		if _, known := c.layout.files[e.Path]; known || !occupied {
			p.change.Written = append(p.change.Written, newFile{[]byte(e.Path), e.Mode, hex.EncodeToString([]byte(e.Oid))})
		}
	}
	return nil
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
		return !p.gone[path], err
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
	t.followBase(root, t.change.Head)
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

// moveFile moves one staged file over what has its place. One that is not staged any more is there already. Where
// something came in the way since the change was planned, that stays, and the diff shows it.
func moveFile(bin *folder.Trash, from, into *folder.Cursor, path string, mode uint32) error {
	to, name, err := into.Parent(path)
	if isAbsent(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if mode == git.ModeSubmodule {
		if err := unix.Mkdirat(to.FD, name, 0o755); err != nil && err != unix.EEXIST {
			return &os.PathError{Op: "mkdir", Path: path, Err: err}
		}
		return into.Own(to, name)
	}
	dir, _, err := from.Parent(path)
	if isAbsent(err) {
		return nil
	}
	if err != nil {
		return err
	}
	switch err = unix.Renameat(dir.FD, name, to.FD, name); err {
	case unix.EISDIR:
		if err = removeEmptyBelow(to, name); err == nil {
			err = unix.Renameat(dir.FD, name, to.FD, name)
		}
	case unix.EPERM: // a file that must not be changed
		if err = bin.Take(to, name); err == nil {
			err = unix.Renameat(dir.FD, name, to.FD, name)
		}
	}
	if err != nil && err != unix.ENOENT && err != unix.EISDIR {
		return &os.LinkError{Op: "rename", Old: path, New: path, Err: err}
	}
	return nil
}

// removeEmptyBelow removes a directory that holds only directories, or as much of it.
func removeEmptyBelow(parent folder.Dir, name string) error {
	dir, err := parent.Sub(name)
	if err != nil {
		return err
	}
	defer dir.Close()
	var mu sync.Mutex
	dirs := map[string]bool{}
	err = folder.Walk(context.Background(), dir, "", func(dir folder.Dir, path string, names []string) ([]string, error) {
		var descend []string
		for _, name := range names {
			if st, err := dir.Lstat(name); err == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR {
				descend = append(descend, name)
				mu.Lock()
				dirs[folder.Join(path, name)] = true
				mu.Unlock()
			}
		}
		return descend, nil
	}, func(_ string, err error) error { return err })
	if err == nil {
		err = removeEmpty(dir, dirs)
	}
	if err != nil {
		return err
	}
	if err := parent.Rmdir(name); err != nil && !errors.Is(err, unix.ENOTEMPTY) {
		return err
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
		if st.Mode&unix.S_IFMT == unix.S_IFDIR {
			parents[string(path)] = true // a submodule's, or else it is not empty
		} else if err := bin.Take(dir, name); err != nil {
			return err
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
