package git

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"holon/internal/folder"

	"golang.org/x/sync/errgroup"
)

// Bounds on submodules, and on how deep they nest.
const (
	MaxSubmodules     = 2000
	MaxSubmoduleDepth = 8
)

// status is how a user's files differ from HEAD.
type status struct {
	Dirty            bool
	Untracked        []string // files
	Ignored          []string // files, and directories with a / at their end; see UserRepository.SeeIgnored
	Nested           []string // untracked directories that are repositories
	changed          []changed
	pointers         []string // of them, files of Git LFS that are what their pointers say
	Gitlinks         []string // submodules, initialised or not
	Modified         []Module // submodules with uncommitted changes, those within others too
	moved            []string // lines for update-index: submodules at another commit
	WithoutUntracked bool     // ignore rules took too long: untracked files were not looked for
}

// Module is a submodule and its repository.
type Module struct {
	Path string // from the top of the repository that has the status
	User *UserRepository
}

// LoadStatus asks git about the files. It asks about submodules through views of their own, because git would
// load their configuration. A file that git would wait for is refused.
func (u *UserRepository) LoadStatus(ctx context.Context, v View) error {
	group, ctx := errgroup.WithContext(ctx) // which ends git when a pipe is found
	looking, done := context.WithCancel(ctx)
	group.Go(func() error { return findPipe(looking, u.Top) })
	group.Go(func() error {
		defer done()
		return u.loadStatus(ctx, v, 0)
	})
	return group.Wait()
}

func (u *UserRepository) loadStatus(ctx context.Context, v View, depth int) error {
	arguments := []string{"status", "--porcelain=v2", "-z", "--no-renames", "--ignore-submodules=all"}
	if err := u.checkIndex(); err != nil {
		return err
	}
	g := v.InTree(u.Index())
	if u.SeeIgnored {
		arguments = append(arguments, "--ignored=matching") // which looks into no directory that is ignored
	}
	ignoring := g.WithCPUTime(IgnoreTime)
	ignoring.clock = maxIgnoreTime
	out, err := ignoring.Run(ctx, nil, append(arguments, "--untracked-files=all")...)
	slow := IsOverBudget(err)
	if slow {
		out, err = g.Run(ctx, nil, append(arguments, "--ignored=no", "--untracked-files=no")...)
	}
	if err != nil {
		return fmt.Errorf("read status: %w", err)
	}
	u.Status = parseStatus(out)
	u.Status.WithoutUntracked = slow
	if err := u.loadPointers(ctx, g); err != nil {
		return err
	}
	return u.loadSubmoduleStatus(ctx, v, depth)
}

// parseStatus reads `git status --porcelain=v2 -z`. Whether changed files make the tree dirty is not decided there.
func parseStatus(out []byte) status {
	var s status
	for line := range bytes.SplitSeq(out, []byte{0}) {
		text := string(line)
		if text == "" || text[0] == '#' {
			continue
		}
		if c, ok := parseChanged(text); ok {
			s.changed = append(s.changed, c)
			continue
		}
		if path, ignored := strings.CutPrefix(text, "! "); ignored {
			s.Ignored = append(s.Ignored, path)
			continue
		}
		s.Dirty = true
		if path, untracked := strings.CutPrefix(text, "? "); untracked {
			if nested, ok := strings.CutSuffix(path, "/"); ok {
				s.Nested = append(s.Nested, nested)
			} else {
				s.Untracked = append(s.Untracked, path)
			}
		}
	}
	return s
}

// checkIndex refuses an index that is not a regular file: git would wait for a pipe.
func (u *UserRepository) checkIndex() error {
	file, err := openIn(u.GitDir, "index")
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = file.Close()
	}
	if err != nil {
		return &Error{Code: CodeBrokenRepository, Param: u.Index(), Message: "the index can't be read",
			Hint: "remove " + u.Index() + " and run git reset", Err: err}
	}
	return nil
}

// loadSubmoduleStatus looks at every submodule that is checked out.
func (u *UserRepository) loadSubmoduleStatus(ctx context.Context, v View, depth int) error {
	lines, err := ReadIndex(ctx, v.InTree(u.Index()))
	if err != nil {
		return fmt.Errorf("list submodules: %w", err)
	}
	for _, e := range lines {
		if e.Mode != strconv.FormatInt(ModeSubmodule, 8) || slices.Contains(u.Status.Gitlinks, e.Path) {
			continue
		}
		u.Status.Gitlinks = append(u.Status.Gitlinks, e.Path)
		if len(u.Status.Gitlinks) > MaxSubmodules {
			return &Error{Code: CodeTooLarge, Message: fmt.Sprintf("the repository has more than %d submodules",
				MaxSubmodules)}
		}
		if err := u.lookInto(ctx, v, e.Path, e.Oid, depth); err != nil {
			return err
		}
	}
	if len(u.Status.Gitlinks) == 0 || u.Status.Dirty {
		return nil
	}
	head := cmp.Or(u.HeadCommit, u.Format.EmptyTree())
	_, err = v.InTree(u.Index()).Run(ctx, nil, "diff-index", "--cached", "--quiet", "--ignore-submodules=none", head)
	if failed, ok := AsExitError(err); ok && failed.Exit == 1 {
		u.Status.Dirty, err = true, nil
	}
	return err
}

// lookInto compares one submodule with the commit that the index has.
func (u *UserRepository) lookInto(ctx context.Context, v View, path, commit string, depth int) error {
	sub, err := u.OpenSubmodule(ctx, path)
	if err != nil || sub == nil || depth == MaxSubmoduleDepth {
		return err
	}
	inner, err := sub.View(filepath.Join(v.Dir, "sub-"+strconv.Itoa(depth)))
	if err == nil {
		err = sub.loadStatus(ctx, inner, depth+1)
	}
	if err = errors.Join(err, os.RemoveAll(inner.Dir)); err != nil {
		return fmt.Errorf("submodule %q: %w", path, err)
	}
	if sub.HeadCommit != "" && sub.HeadCommit != commit {
		u.Status.moved = append(u.Status.moved, fmt.Sprintf("%o %s 0\t%s\x00", ModeSubmodule, sub.HeadCommit, path))
	}
	if sub.Status.Dirty {
		u.Status.Modified = append(u.Status.Modified, Module{path, sub})
		for _, inner := range sub.Status.Modified {
			u.Status.Modified = append(u.Status.Modified, Module{folder.Join(path, inner.Path), inner.User})
		}
	}
	u.Status.Dirty = u.Status.Dirty || sub.Status.Dirty || len(u.Status.moved) > 0
	return nil
}

// Submodule finds the repository of a submodule; nil if it is not initialised, or if the directory there belongs to
// another repository.
func (u *UserRepository) Submodule(path string) *Layout {
	top := filepath.Join(u.Top, path)
	layout, err := discover(top, u.borrowing)
	if err != nil || layout == nil || layout.Top != top {
		return nil
	}
	return layout
}

// OpenSubmodule opens the repository of a submodule; nil as of Submodule.
func (u *UserRepository) OpenSubmodule(ctx context.Context, path string) (*UserRepository, error) {
	layout := u.Submodule(path)
	if layout == nil {
		return nil, nil
	}
	sub, err := OpenUser(ctx, layout, u.borrowing)
	if err != nil {
		return nil, fmt.Errorf("submodule %q: %w", path, err)
	}
	return sub, nil
}
