package workspace

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"holon/internal/folder"
	"holon/runner/workspace/git"
)

// Bounds on ignore files of a hostile tree; git reads each of them whole.
const (
	maxIgnoreFile  = 1 << 20
	maxIgnoreBytes = 64 << 20
)

// freshFiles lists the files that are new and not ignored, by the rules of the repository or submodule that has them.
func (t *Tree) freshFiles(ctx context.Context, c *capture, repo git.Repository) (all []found, err error) {
	tops := map[string]bool{}
	for _, f := range c.files {
		tops[c.moduleOf(f.path)] = true
	}
	for _, dir := range c.dirs {
		tops[c.moduleOf(dir)] = true
	}
	for _, top := range slices.Sorted(maps.Keys(tops)) {
		fresh, err := t.freshIn(ctx, c, repo, top)
		if err != nil {
			return nil, err
		}
		all = append(all, fresh...)
	}
	return all, nil
}

// freshIn is freshFiles of the repository, or of the submodule top. If git takes too long for the tree's ignore rules,
// only the user's own rules apply.
func (t *Tree) freshIn(ctx context.Context, c *capture, repo git.Repository, top string) (fresh []found, err error) {
	known := warningList{kept: slices.Clone(c.warnings.kept), count: maps.Clone(c.warnings.count)}
	c.ignoreNothing = false
	fresh, err = t.freshWith(ctx, c, repo, top)
	if !git.IsOverBudget(err) {
		return fresh, err
	}
	c.warnings, c.ignoreNothing = known, true
	c.warn(warnSlowIgnore, folder.Join(top, ".gitignore"),
		"the ignore rules in the tree take git too long and have no effect")
	return t.freshWith(ctx, c, repo, top)
}

func (t *Tree) freshWith(ctx context.Context, c *capture, repo git.Repository, top string) (fresh []found, err error) {
	if err := os.WriteFile(filepath.Join(repo.Dir, "info", "exclude"), []byte(t.excludes(ctx, top)),
		0o600); err != nil {
		return nil, err
	}
	shadow, err := os.MkdirTemp(repo.Dir, "shadow-")
	if err != nil {
		return nil, err
	}
	checker, err := newIgnoreChecker(ctx, repo, shadow, c)
	if err != nil {
		return nil, err
	}
	checker.top = top
	outside := func(path string) bool { return c.moduleOf(path) != top }
	files := slices.DeleteFunc(slices.Clone(c.files), func(f found) bool { return outside(f.path) })
	fresh, err = c.expand(ctx, files, slices.DeleteFunc(slices.Clone(c.dirs), outside), checker.ignored)
	closeErr := checker.close()
	if failed, ok := errors.AsType[*git.ExitError](closeErr); ok && failed.Exit == 1 {
		closeErr = nil // check-ignore found nothing to ignore
	}
	if err != nil || closeErr != nil {
		return nil, errors.Join(closeErr, err)
	}
	return fresh, nil
}

// ignoreChecker asks git which untracked paths are ignored. Git works in a
// shadow: a directory of ours with copies of the tree's ignore files alone.
type ignoreChecker struct {
	process *git.Process
	capture *capture
	shadow  *os.Root
	top     string          // the submodule whose paths are asked about; "" for the repository
	copied  map[string]bool // directories whose ignore file is in the shadow
	bytes   int
}

// newIgnoreChecker starts git in the empty directory shadow; repo's
// info/exclude holds the patterns from outside the tree.
func newIgnoreChecker(ctx context.Context, repo git.Repository, shadow string, c *capture) (*ignoreChecker, error) {
	root, err := os.OpenRoot(shadow)
	if err != nil {
		return nil, err
	}
	g := repo.Git().With("GIT_WORK_TREE=" + shadow).WithCPUTime(git.IgnoreTime)
	g.Dir = shadow
	process, err := g.Start(ctx, "check-ignore", "--no-index", "--stdin", "-z", "--verbose", "--non-matching")
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return &ignoreChecker{process: process, capture: c, shadow: root, copied: map[string]bool{}}, nil
}

func (k *ignoreChecker) close() error {
	return errors.Join(k.process.Close(), k.shadow.Close())
}

// ignored returns the paths that git ignores. The caller asks about parents first: git reads a directory's patterns at
// the first question about a path in it, and by then the ignore file has to be in the shadow.
func (k *ignoreChecker) ignored(files []found, dirs []string) (map[string]bool, error) {
	paths := make([]string, 0, len(files)+len(dirs))
	for _, f := range files {
		paths = append(paths, k.within(f.path))
	}
	for _, dir := range dirs {
		paths = append(paths, k.within(dir))
	}
	for i, path := range paths {
		err := k.shadowParents(path)
		if err == nil && i >= len(files) {
			err = k.shadow.MkdirAll(path, 0o700) // makes it a directory for git
		}
		if err != nil {
			return nil, fmt.Errorf("prepare ignore check: %w", err)
		}
	}
	asked := make(chan error, 1)
	go func() {
		for _, path := range paths {
			// "./" keeps a leading colon from being read as pathspec magic.
			io.WriteString(k.process.In, "./"+path+"\x00") // an error sticks to the writer
		}
		asked <- k.process.In.Flush()
	}()
	skip, err := readAnswers(k.process.Out, paths, k.top)
	if err != nil {
		k.process.Kill() // it may be blocked in writing, and we in asking
	}
	return skip, errors.Join(err, <-asked)
}

// within returns the path as the repository whose rules apply has it.
func (k *ignoreChecker) within(path string) string {
	if k.top == "" {
		return path
	}
	return strings.TrimPrefix(path, k.top+"/")
}

// readAnswers parses "source NUL line NUL pattern NUL path NUL" for each path and returns the ignored ones, below top.
func readAnswers(out *bufio.Reader, paths []string, top string) (map[string]bool, error) {
	skip := make(map[string]bool)
	for _, path := range paths {
		var field [4]string
		for k := range field {
			text, err := out.ReadString(0)
			if err != nil {
				return nil, fmt.Errorf("check ignored paths: %w", err)
			}
			field[k] = strings.TrimSuffix(text, "\x00")
		}
		if field[3] != "./"+path {
			return nil, fmt.Errorf("check ignored paths: asked about %.100q, answered about %.100q", path, field[3])
		}
		if field[2] != "" && !strings.HasPrefix(field[2], "!") {
			skip[folder.Join(top, path)] = true
		}
	}
	return skip, nil
}

// shadowParents copies the ignore files that can apply to path.
func (k *ignoreChecker) shadowParents(path string) error {
	for path != "" {
		path, _ = folder.Split(path)
		if k.copied[path] {
			return nil
		}
		k.copied[path] = true
		if k.capture.ignoreNothing || !k.capture.ignores[strings.TrimSuffix(folder.Join(k.top, path), "/")] {
			continue
		}
		if err := k.copy(path); err != nil {
			return err
		}
	}
	return nil
}

// copy copies one ignore file to the shadow. Like git, it skips a file that is not regular.
func (k *ignoreChecker) copy(dir string) error {
	at := folder.NewCursor(k.capture.root, false)
	defer at.Close()
	name := folder.Join(dir, ".gitignore")
	path := folder.Join(k.top, name)
	file, size, err := k.capture.open(at, found{path: path})
	if err != nil {
		return nil
	}
	defer file.Close()
	if size > maxIgnoreFile || k.bytes+int(size) > maxIgnoreBytes {
		k.capture.warn(warnFileTooLarge, path, "the ignore file is too large and has no effect")
		return nil
	}
	content, err := io.ReadAll(io.LimitReader(file, maxIgnoreFile))
	if err != nil {
		return nil
	}
	k.bytes += len(content)
	if dir != "" {
		if err := k.shadow.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	return k.shadow.WriteFile(name, content, 0o600)
}
