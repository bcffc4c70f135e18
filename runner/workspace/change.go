package workspace

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
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
	Gone    [][]byte  `json:"gone,omitempty"`  // files, and what was a submodule
	Empty   [][]byte  `json:"empty,omitempty"` // directories where a file comes
	Written []newFile `json:"written,omitempty"`
	Head    string    `json:"head,omitempty"` // commit of the base before it moved; "" when it does not move
}

type newFile struct {
	Path []byte `json:"path"`
	Mode string `json:"mode"` // octal
	ID   string `json:"id"`
}

const modeModule = "160000" // of a submodule, which is a directory

// planning finds out whether files of a tree can be changed.
type planning struct {
	root    folder.Dir
	change  change
	blocked []string // paths where something is that the diff leaves out, such as an ignored file

	gone map[string]bool
	mu   sync.Mutex
}

// plan finds the change from one git tree, which the files have, to another, and that of the files in submodules.
func (p *planning) plan(ctx context.Context, c *capture, files []FileChange, ids []objectIDs) error {
	isFile := func(mode string) bool { return mode != "" && mode != modeModule }
	for _, f := range files {
		if f.OldMode != "" && !isFile(f.Mode) {
			p.gone[f.Path] = true
		}
	}
	for i, f := range files {
		blocked := anyAbove(c.omitted, f.Path)
		if !isFile(f.OldMode) && f.Mode != "" && f.Mode != f.OldMode && !blocked {
			var err error
			if blocked, err = p.occupied(ctx, f.Path); err != nil {
				return err
			}
		}
		if blocked {
			p.blocked = append(p.blocked, f.Path)
		}
		if f.Mode != "" {
			p.change.Written = append(p.change.Written, newFile{[]byte(f.Path), f.Mode, ids[i].after})
		}
		if isFile(f.Mode) {
			delete(p.gone, f.Path) // it becomes a submodule's, or ceases to be
		}
	}
	for path := range p.gone {
		p.change.Gone = append(p.change.Gone, []byte(path))
	}
	return nil
}

// moduleChanges lists how the files within submodules differ from those of the next base, but for those that the agent
// changed: the diff warns of them.
func moduleChanges(c *capture, next []git.Entry) (files []FileChange, ids []objectIDs) {
	before := map[string]int{}
	for i, e := range c.record.entries {
		if e.Module {
			before[e.Path] = i
		}
	}
	_, modules := splitModules(next)
	for _, e := range modules {
		file := FileChange{Path: e.Path, Mode: strconv.FormatUint(uint64(e.Mode), 8)}
		if i, there := before[e.Path]; there {
			old := &c.record.entries[i]
			delete(before, e.Path)
			if !c.have[i] || old.Oid == e.Oid && old.Mode == e.Mode {
				continue
			}
			file.OldMode = strconv.FormatUint(uint64(old.Mode), 8)
		}
		files, ids = append(files, file), append(ids, objectIDs{after: hex.EncodeToString([]byte(e.Oid))})
	}
	for path, i := range before {
		if c.have[i] {
			files, ids = append(files, FileChange{Path: path, OldMode: "0"}), append(ids, objectIDs{})
		}
	}
	return files, ids
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

// remains reports whether anything but directories is beneath a directory once the files that go are gone. The
// directories go too.
func (p *planning) remains(ctx context.Context, dir folder.Dir, path string) (bool, error) {
	p.change.Empty = append(p.change.Empty, []byte(path))
	err := folder.Walk(ctx, dir, path, func(dir folder.Dir, path string, names []string) (descend []string, err error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, name := range names {
			child := folder.Join(path, name)
			st, err := dir.Lstat(name)
			switch {
			case err == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR:
				descend = append(descend, name)
				p.change.Empty = append(p.change.Empty, []byte(child))
			case err != nil || !p.gone[child]:
				return nil, errRemains
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
		if f.Mode == modeModule {
			continue
		}
		id, idErr := hex.DecodeString(f.ID)
		mode, modeErr := strconv.ParseUint(f.Mode, 8, 32)
		if err := errors.Join(idErr, modeErr, git.CheckPath(string(f.Path))); err != nil {
			return fmt.Errorf("stage files: %w", err)
		}
		entries = append(entries, &git.Entry{Path: string(f.Path), Mode: uint32(mode), Oid: string(id)})
	}
	err = repo.Git().WriteFiles(ctx, root, t.source.options.Owner, time.Now().UnixNano(), entries)
	if err != nil {
		return errors.Join(fmt.Errorf("stage files: %w", err), t.discard(ctx, t.slot.staged()))
	}
	return nil
}

// finish makes the change that was recorded, if there is one. It may be repeated at any point. compared says that the
// tree was compared with its record by this process: only then is it recorded anew.
func (t *Tree) finish(ctx context.Context, root folder.Dir, compared bool) error {
	if t.change == nil {
		return nil
	}
	if err := t.moveFiles(root); err != nil {
		return fmt.Errorf("change the files of the tree: %w", err)
	}
	if err := t.reached("moved"); err != nil {
		return err
	}
	if compared {
		written := make(map[string]string, len(t.change.Written))
		for _, f := range t.change.Written {
			written[string(f.Path)] = f.Mode + f.ID
		}
		err := t.recordFiles(root, time.Now().UnixNano(), func(e *git.Entry) bool {
			return written[e.Path] == fmt.Sprintf("%o%x", e.Mode, e.Oid)
		})
		if err != nil {
			return err
		}
	}
	if err := t.followBase(root); err != nil {
		return fmt.Errorf("bring the agent's HEAD along: %w", err)
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
	if err := removeFiles(root, bin, t.change); err != nil {
		return err
	}
	if err := t.reached("removed"); err != nil {
		return err
	}
	return t.moveStaged(root, t.change.Written...)
}

func (t *Tree) moveStaged(root folder.Dir, files ...newFile) error {
	staged, err := folder.OpenOwned(t.slot.staged())
	if err != nil {
		return err
	}
	defer staged.Close()
	from, into := folder.NewCursor(staged, false), folder.NewCreatingCursor(root, t.source.options.Owner)
	defer from.Close()
	defer into.Close()
	for _, f := range files {
		if err := moveFile(from, into, string(f.Path), f.Mode == modeModule); err != nil {
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
func moveFile(from, into *folder.Cursor, path string, module bool) error {
	to, name, err := into.Parent(path)
	if isAbsent(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if module {
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
	err = unix.Renameat(dir.FD, name, to.FD, name)
	if err == unix.EPERM { // a file that must not be changed
		if err = to.Unfreeze(name); err == nil {
			err = unix.Renameat(dir.FD, name, to.FD, name)
		}
	}
	if err != nil && err != unix.ENOENT && err != unix.EISDIR {
		return &os.LinkError{Op: "rename", Old: path, New: path, Err: err}
	}
	return nil
}

// removeFiles removes files, and directories that are empty then.
func removeFiles(root folder.Dir, bin *folder.Trash, c *change) error {
	at := folder.NewCursor(root, false)
	defer at.Close()
	parents := map[string]bool{}
	for _, path := range c.Empty {
		parents[string(path)] = true
	}
	for _, path := range c.Gone {
		var st unix.Stat_t
		dir, name, err := at.Parent(string(path))
		if err == nil {
			st, err = dir.Lstat(name)
		}
		switch isDir := st.Mode&unix.S_IFMT == unix.S_IFDIR; {
		case isAbsent(err):
			continue
		case err == nil && isDir:
			parents[string(path)] = true
		case err == nil:
			err = bin.Take(dir, name)
		}
		if err != nil {
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
