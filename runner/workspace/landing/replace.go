package landing

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"holon/internal/folder"
	"holon/internal/visible"
	"holon/runner/workspace/git"

	"golang.org/x/sys/unix"
)

// replace carries out a merge: it writes the new contents to a directory in the tree, moves the files to be
// replaced aside, and only then moves the new ones into place. Any error before the end moves everything back.
func (m *merge) replace(ctx context.Context, root folder.Dir, result *ApplyResult) error {
	if len(result.Written)+len(result.Deleted) == 0 {
		return nil
	}
	j, r, err := m.stage(ctx, root, result)
	if err != nil {
		return err
	}
	defer r.close()
	for _, step := range r.steps(m, result) {
		if err := step(); err != nil {
			if undoErr := j.undo(); undoErr != nil {
				return fmt.Errorf("%w; not everything could be moved back, the former files are in %s: %w", err, j.stage(),
					undoErr)
			}
			return errors.Join(err, j.end())
		}
	}
	if m.hold {
		return nil
	}
	j.Landed = true
	return j.end()
}

// stage writes the new contents, and the plan of what is moved.
func (m *merge) stage(ctx context.Context, root folder.Dir, result *ApplyResult) (*journal, *replacement, error) {
	j, stage, err := beginJournal(m.runDir, m.top)
	if err != nil {
		return nil, nil, err
	}
	if err := m.stageFiles(ctx, filepath.Join(stage, "new"), result.Written); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("write new contents: %w", err), j.end())
	}
	r, err := newReplacement(root, stage)
	if err != nil {
		return nil, nil, errors.Join(err, j.end())
	}
	if err = r.keepModes(m, result); err == nil {
		err = j.plan(m, r, result)
	}
	if err != nil {
		r.close()
		return nil, nil, errors.Join(err, j.end())
	}
	return j, r, nil
}

// stageFiles writes files of the index beneath dir, with the line endings of
// the user's repository but without running any filter program.
func (m *merge) stageFiles(ctx context.Context, dir string, names []string) error {
	if err := os.Mkdir(dir, 0o700); err != nil || len(names) == 0 {
		return err
	}
	g := m.tree.EndingWithParent() // what it writes after that would not be removed
	_, err := g.Run(ctx, strings.NewReader(strings.Join(names, "\x00")+"\x00"), "checkout-index", "-z",
		"--stdin", "--force", "--prefix="+dir+"/")
	return err
}

// keepModes gives the new content of a file the permissions that the user gave it, but for the executable bits that the
// change sets or takes.
func (r *replacement) keepModes(m *merge, result *ApplyResult) error {
	for _, name := range result.Written {
		if m.existing[name].kind != file {
			continue
		}
		former, err := regularMode(r.tree, name)
		if err != nil || former == 0 {
			continue // a link, or gone: moving it says so
		}
		now, err := regularMode(r.staged, name)
		if err != nil {
			return err
		}
		if now == 0 {
			continue
		}
		if mode := former & 0o777; now&0o100 == mode&0o100 {
			now = mode
		} else {
			now = mode&^0o111 | now&0o100/0o100*(mode&0o444>>2)
		}
		dir, base, err := r.staged.Parent(name)
		if err == nil {
			err = dir.Chmod(base, now)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// regularMode is the mode of a regular file, 0 of anything else.
func regularMode(at *folder.Cursor, name string) (uint32, error) {
	dir, base, err := at.Parent(name)
	if err != nil {
		return 0, err
	}
	st, err := dir.Lstat(base)
	if err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return 0, err
	}
	return uint32(st.Mode), nil
}

// replacement moves files. The journal says how they are moved back.
type replacement struct {
	root, fresh, old folder.Dir
	tree, staged     *folder.Cursor
	moved            int
}

func newReplacement(root folder.Dir, stage string) (*replacement, error) {
	if err := os.Mkdir(filepath.Join(stage, "old"), 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, err
	}
	old, err := folder.Open(filepath.Join(stage, "old"))
	if err != nil {
		return nil, err
	}
	fresh, err := folder.Open(filepath.Join(stage, "new"))
	if err != nil {
		old.Close()
		return nil, err
	}
	return &replacement{root: root, fresh: fresh, old: old, tree: folder.NewCursor(root, false),
		staged: folder.NewCursor(fresh, false)}, nil
}

func (r *replacement) close() {
	r.tree.Close()
	r.staged.Close()
	r.fresh.Close()
	r.old.Close()
}

// steps are what carries out the merge.
func (r *replacement) steps(m *merge, result *ApplyResult) (steps []func() error) {
	for _, name := range m.replaced(result) {
		steps = append(steps, func() error {
			return about("move %q aside: %w", name, r.moveAside(name, m.existing[name].stat))
		})
	}
	for _, name := range slices.Backward(result.Deleted) {
		steps = append(steps, func() error {
			return about("remove empty directories of %q: %w", name, r.removeEmptyParents(name))
		})
	}
	for _, name := range result.Written {
		steps = append(steps, func() error {
			if m.existing[name].kind == occupied && r.stillThere(name) { // a directory with files the patch doesn't know
				return m.conflict([]string{name}, nil)
			}
			return about("put %q in place: %w", name, r.moveIn(name))
		})
	}
	return steps
}

// about names the file of an error.
func about(format, name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf(format, name, err)
}

// replaced lists the files that are moved aside, in the order in which they are numbered.
func (m *merge) replaced(result *ApplyResult) []string {
	return slices.DeleteFunc(slices.Concat(result.Deleted, result.Written),
		func(name string) bool { return m.existing[name].kind != file })
}

// moveAside moves a file out of the tree if it is unchanged since look.
func (r *replacement) moveAside(name string, expected folder.Stat) error {
	dir, base, err := r.tree.Parent(name)
	if err != nil {
		return unwritable(name, err)
	}
	to := strconv.Itoa(r.moved)
	r.moved++
	if err := unix.Renameat(dir.FD, base, r.old.FD, to); err != nil {
		return unwritable(name, err)
	}
	st, err := r.old.Lstat(to)
	if err != nil {
		return err
	}
	found := folder.StatOf(&st)
	found.CtimeSec, found.CtimeNsec = expected.CtimeSec, expected.CtimeNsec // the move itself is a change
	if found != expected {
		return meanwhile(name, nil)
	}
	return nil
}

func meanwhile(name string, cause error) error {
	return &git.Error{Code: codeChangedMeanwhile, Param: name, Err: cause,
		Message: visible.Quoted(name) + " changed while the patch was being applied",
		Hint:    "nothing was changed; try again"}
}

// unwritable is the error of a file that cannot be moved: it is not where it was, or the file system refuses.
func unwritable(name string, cause error) error {
	for _, moved := range []error{unix.ENOENT, unix.ENOTDIR, unix.ELOOP, unix.EEXIST} {
		if errors.Is(cause, moved) {
			return meanwhile(name, cause)
		}
	}
	return git.WithCode(visible.Quoted(name)+" cannot be written", cause)
}

// removeEmptyParents removes the directories that the patch left empty, as git does.
func (r *replacement) removeEmptyParents(name string) error {
	r.tree.Close()
	for dir, _ := folder.Split(name); dir != ""; dir, _ = folder.Split(dir) {
		parent, base, err := r.tree.Parent(dir)
		if errors.Is(err, unix.ENOENT) {
			continue
		}
		if err != nil {
			return err
		}
		switch err := unix.Unlinkat(parent.FD, base, unix.AT_REMOVEDIR); err {
		case nil, unix.ENOENT:
		case unix.ENOTEMPTY, unix.EEXIST, unix.ENOTDIR:
			return nil
		default:
			return os.NewSyscallError("rmdir", err)
		}
		r.tree.Close()
	}
	return nil
}

func (r *replacement) stillThere(name string) bool {
	dir, base, err := r.tree.Parent(name)
	if err == nil {
		_, err = dir.Lstat(base)
	}
	return err == nil
}

// moveIn moves a staged file to its path, which must not exist.
func (r *replacement) moveIn(name string) error {
	if err := r.makeParents(name); err != nil {
		return err
	}
	from, base, err := r.staged.Parent(name)
	if err != nil {
		return err
	}
	to, _, err := r.tree.Parent(name)
	if err == nil {
		err = folder.RenameNew(from.FD, base, to.FD, base)
	}
	if err != nil {
		return unwritable(name, err)
	}
	return nil
}

func (r *replacement) makeParents(name string) error {
	dir, _ := folder.Split(name)
	at := ""
	for part := range strings.SplitSeq(dir, "/") {
		if part == "" {
			return nil
		}
		at = folder.Join(at, part)
		parent, base, err := r.tree.Parent(at)
		if err != nil {
			return unwritable(name, err)
		}
		if err := unix.Mkdirat(parent.FD, base, 0o777); err != nil && err != unix.EEXIST {
			return unwritable(name, err)
		}
	}
	return nil
}

func (r *replacement) moveBack(base, name string) error {
	to, target, err := r.tree.Parent(name)
	if err != nil {
		return err
	}
	return os.NewSyscallError("rename", folder.RenameNew(r.old.FD, base, to.FD, target))
}

func (r *replacement) makeAgain(dir string, mode uint32) error {
	parent, base, err := r.tree.Parent(dir)
	if err != nil {
		return err
	}
	if err := unix.Mkdirat(parent.FD, base, 0o700); err != nil {
		return os.NewSyscallError("mkdir", err)
	}
	return parent.Chmod(base, mode)
}

func (r *replacement) takeOut(name string) error {
	dir, base, err := r.tree.Parent(name)
	if err != nil {
		return err
	}
	return os.NewSyscallError("unlink", unix.Unlinkat(dir.FD, base, 0))
}

func (r *replacement) removeMade(dir string) error {
	parent, base, err := r.tree.Parent(dir)
	if err != nil {
		return err
	}
	return os.NewSyscallError("rmdir", unix.Unlinkat(parent.FD, base, unix.AT_REMOVEDIR))
}
