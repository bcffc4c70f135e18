package workspace

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// repositoryStatus is how a user's files differ from HEAD.
type repositoryStatus struct {
	dirty            bool
	untracked        []string // files
	nested           []string // untracked directories that are repositories
	gitlinks         []string // submodules, initialised or not
	moved            []string // lines for update-index: submodules at another commit
	submodules       []string // with changes inside
	withoutUntracked bool     // ignore rules took too long: untracked files were not looked for
}

// loadStatus asks git about the files, and about those of submodules in views
// of their own: git would obey their configuration.
func (u *userRepository) loadStatus(ctx context.Context, v view, depth int) error {
	arguments := []string{"status", "--porcelain=v2", "-z", "--no-renames", "--ignore-submodules=all"}
	if index, err := openIn(u.gitDir, filepath.Base(u.index())); err == nil {
		index.Close()
	} else if !errors.Is(err, os.ErrNotExist) { // git would wait for a pipe
		return &Error{Code: CodeBrokenRepository, Param: u.index(), Message: "the index can't be read",
			Hint: "remove " + u.index() + " and run git reset", Err: err}
	}
	g := v.inTree(u.index())
	ignoring := g.within(ignoreTime)
	ignoring.clock = maxIgnoreTime
	out, err := ignoring.run(ctx, nil, append(arguments, "--untracked-files=all")...)
	slow := isOverBudget(err)
	if slow {
		out, err = g.run(ctx, nil, append(arguments, "--untracked-files=no")...)
	}
	if err != nil {
		return fmt.Errorf("read status: %w", err)
	}
	u.status = parseStatus(out)
	u.status.withoutUntracked = slow
	if may, err := u.mayHaveSubmodules(); !may || err != nil {
		return err
	}
	return u.loadSubmoduleStatus(ctx, v, depth)
}

// parseStatus reads `git status --porcelain=v2 -z`.
func parseStatus(out []byte) repositoryStatus {
	var s repositoryStatus
	for line := range bytes.SplitSeq(out, []byte{0}) {
		text := string(line)
		if text == "" || text[0] == '#' {
			continue
		}
		s.dirty = true
		if path, untracked := strings.CutPrefix(text, "? "); untracked {
			if nested, ok := strings.CutSuffix(path, "/"); ok {
				s.nested = append(s.nested, nested)
			} else {
				s.untracked = append(s.untracked, path)
			}
		}
	}
	return s
}

// mayHaveSubmodules looks for the mode of a submodule in the bytes of the
// index, which is quicker than a process and never misses one.
func (u *userRepository) mayHaveSubmodules() (bool, error) {
	names, err := filepath.Glob(escapeWildcards(u.gitDir) + "/sharedindex.*")
	for _, name := range append(names, u.index()) {
		file, openErr := openIn(u.gitDir, filepath.Base(name))
		if errors.Is(openErr, os.ErrNotExist) {
			continue
		}
		if openErr != nil {
			return false, errors.Join(err, openErr)
		}
		found := contains(file, []byte{0, 0, modeSubmodule >> 8, 0})
		file.Close()
		if found {
			return true, nil
		}
	}
	return false, err
}

// contains reports whether what is read holds the bytes; true when in doubt.
func contains(from io.Reader, bytesOf []byte) bool {
	buffered := bufio.NewReaderSize(from, 256<<10)
	for {
		part, err := buffered.Peek(256 << 10)
		if bytes.Contains(part, bytesOf) {
			return true
		}
		if err != nil {
			return err != io.EOF
		}
		_, _ = buffered.Discard(len(part) - len(bytesOf) + 1)
	}
}

// loadSubmoduleStatus looks at every submodule that is checked out.
func (u *userRepository) loadSubmoduleStatus(ctx context.Context, v view, depth int) error {
	out, err := v.inTree(u.index()).run(ctx, nil, "ls-files", "--stage", "-z")
	if err != nil {
		return fmt.Errorf("list submodules: %w", err)
	}
	for line := range bytes.SplitSeq(out, []byte{0}) {
		about, path, _ := strings.Cut(string(line), "\t") // "mode id stage"
		fields := strings.Fields(about)
		if len(fields) != 3 || fields[0] != strconv.FormatInt(modeSubmodule, 8) ||
			slices.Contains(u.status.gitlinks, path) {
			continue
		}
		u.status.gitlinks = append(u.status.gitlinks, path)
		if len(u.status.gitlinks) > maxSubmodules {
			return &Error{Code: CodeTooLarge, Message: fmt.Sprintf("the repository has more than %d submodules",
				maxSubmodules)}
		}
		if err := u.lookInto(ctx, v, path, fields[1], depth); err != nil {
			return err
		}
	}
	if len(u.status.gitlinks) == 0 || u.status.dirty {
		return nil
	}
	head := orText(u.headCommit, u.format.emptyTree())
	_, err = v.inTree(u.index()).run(ctx, nil, "diff-index", "--cached", "--quiet", "--ignore-submodules=none", head)
	if failed, ok := asGitError(err); ok && failed.exit == 1 {
		u.status.dirty, err = true, nil
	}
	return err
}

// lookInto compares one submodule with the commit that the index has.
func (u *userRepository) lookInto(ctx context.Context, v view, path, commit string, depth int) error {
	layout := u.submodule(path)
	if layout == nil || depth == maxSubmoduleDepth {
		return nil
	}
	sub, err := openUser(ctx, layout, u.borrowing)
	if err != nil {
		return fmt.Errorf("submodule %q: %w", path, err)
	}
	inner, err := sub.view(filepath.Join(v.dir, "sub-"+strconv.Itoa(depth)))
	if err == nil {
		err = sub.loadStatus(ctx, inner, depth+1)
	}
	if err = errors.Join(err, os.RemoveAll(inner.dir)); err != nil {
		return fmt.Errorf("submodule %q: %w", path, err)
	}
	if sub.headCommit != "" && sub.headCommit != commit {
		u.status.moved = append(u.status.moved, fmt.Sprintf("%o %s 0\t%s\x00", modeSubmodule, sub.headCommit, path))
	}
	if sub.status.dirty {
		u.status.submodules = append(u.status.submodules, path)
	}
	u.status.dirty = u.status.dirty || sub.status.dirty || len(u.status.moved) > 0
	return nil
}

// submodule finds the repository of a submodule of the user's; nil when it is
// not initialised, or when what is there is not this repository's.
func (u *userRepository) submodule(path string) *repositoryLayout {
	top := filepath.Join(u.top, path)
	layout, err := discover(top, u.borrowing)
	if err != nil || layout == nil || layout.top != top {
		return nil
	}
	return layout
}

func (s repositoryStatus) checkSubmodules() error {
	if len(s.submodules) == 0 {
		return nil
	}
	return &Error{Code: CodeDirtySubmodule, Param: s.submodules[0], Paths: s.submodules,
		Message: fmt.Sprintf("the submodule %q has uncommitted changes, which the workspace can't include",
			s.submodules[0]),
		Hint: "commit or stash them there, or run without uncommitted changes (--include-dirty=false)"}
}
