package workspace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"holon/internal/folder"
	"holon/internal/gitname"
	"holon/internal/pattern"
	"holon/internal/visible"
	"holon/runner/workspace/git"
	"holon/state"

	"golang.org/x/sys/unix"
)

// Bounds of ignored files: of those that are counted, listed and copied.
const (
	maxCountedIgnored = 20_000
	maxListedIgnored  = 100
	maxTakenIgnored   = 200_000
	maxIgnoredTime    = 2 * time.Minute
)

// paramIgnored is the option of a person that sets Options.Ignored.
const paramIgnored = "--include-ignored"

// chooseIgnored decides which of the ignored paths the trees get, and counts what is left out.
func (s *Source) chooseIgnored(paths []string) error {
	if len(paths) == 0 && len(s.options.Ignored) == 0 {
		return nil
	}
	found := &state.Ignored{LeftOut: []string{}, Taken: []string{}}
	for _, p := range s.options.Ignored {
		before := len(found.Taken)
		re, err := pattern.Glob(strings.TrimSuffix(p, "/"))
		if err != nil {
			return git.InvalidOption(paramIgnored, "%v", err)
		}
		for _, path := range append(s.beneathIgnored(p, paths), paths...) {
			if re.MatchString(strings.TrimSuffix(path, "/")) && (!IsSecret(path) || names(p, path)) {
				found.Taken = append(found.Taken, path)
			}
		}
		if s.options.IgnoredNamed && len(found.Taken) == before {
			s.info.Warnings = append(s.info.Warnings, Warning{Code: warnNoIgnored, Path: p,
				Message: "no file that git ignores " +
					"fits " + paramIgnored + " " + visible.Quoted(p) + ", or it has the name of a secret; git status --ignored " +
					"lists them"})
		}
	}
	if len(paths) == 0 {
		return nil
	}
	slices.Sort(found.Taken)
	found.Taken = slices.Compact(found.Taken)
	if len(found.Taken) > maxCountedIgnored {
		return s.tooManyIgnored(fmt.Sprintf("more than %d paths", maxCountedIgnored))
	}
	files := make(map[string]int)
	for _, path := range paths {
		if _, taken := slices.BinarySearch(found.Taken, path); !taken {
			found.LeftOut = append(found.LeftOut, path)
			files[path] = countFiles(filepath.Join(s.info.Path, path), maxCountedIgnored-found.Files)
			found.Files += files[path]
		}
	}
	found.More = found.Files >= maxCountedIgnored
	slices.SortStableFunc(found.LeftOut, func(a, b string) int { return cmp.Compare(files[b], files[a]) })
	found.LeftOut = slices.Clip(found.LeftOut[:min(len(found.LeftOut), maxListedIgnored)])
	s.info.Ignored = found
	return nil
}

// IsSecret reports whether an ignored file has a name that files with keys have: it is copied only if a pattern is its
// name.
func IsSecret(path string) bool { return strings.HasPrefix(filepath.Base(path), ".env") }

// names reports whether a pattern is the name or the path of a file, rather than one that happens to fit it.
func names(pattern, file string) bool {
	pattern, file = strings.Trim(pattern, "/"), strings.TrimSuffix(file, "/")
	return pattern == file || pattern == path.Base(file)
}

// beneathIgnored is the file or directory that a pattern without wildcards names within an ignored directory.
func (s *Source) beneathIgnored(pattern string, ignored []string) []string {
	name := path.Clean(strings.Trim(pattern, "/"))
	within := func(dir string) bool { return strings.HasSuffix(dir, "/") && strings.HasPrefix(name, dir) }
	if strings.ContainsAny(name, "*?{}") || !filepath.IsLocal(name) || !slices.ContainsFunc(ignored, within) {
		return nil
	}
	switch info, err := os.Lstat(filepath.Join(s.info.Path, name)); {
	case err != nil:
		return nil
	case info.IsDir():
		name += "/"
	}
	return []string{name}
}

// countFiles counts the files at a path, most at most.
func countFiles(path string, most int) (n int) {
	_ = filepath.WalkDir(path, func(_ string, d fs.DirEntry, err error) error { // what cannot be read is not counted
		if err == nil && !d.IsDir() {
			n++
		}
		if n >= most {
			return fs.SkipAll
		}
		return nil
	})
	return min(n, most)
}

func (s *Source) tooManyIgnored(what string) error {
	return &git.Error{Code: git.CodeTooLarge, Param: paramIgnored,
		Message: "the ignored files of " + s.info.Path + " that are to be copied are " + what,
		Hint:    "name fewer of them with " + paramIgnored}
}

// taken are the ignored files that the tree has, which are not part of a diff.
func (t *Tree) taken() []string {
	if t.info.Ignored == nil {
		return nil
	}
	return t.info.Ignored.Taken
}

// takeIgnored copies the ignored files that were chosen into the tree, sharing their content where the file system can.
// Links stay links; special files, repositories and what has the name of a secret are left out of directories.
func (t *Tree) takeIgnored(ctx context.Context) error {
	paths := t.taken()
	if len(paths) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, maxIgnoredTime,
		t.source.tooManyIgnored(fmt.Sprintf("more than can be copied in %s", maxIgnoredTime)))
	defer cancel()
	from, err := folder.Open(t.info.Path)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := folder.OpenOwned(t.Dir())
	if err != nil {
		return err
	}
	defer to.Close()
	c := &ignoredCopy{tree: t, from: from, to: to}
	for _, path := range paths {
		if err := c.take(ctx, strings.TrimSuffix(path, "/")); err != nil {
			return fmt.Errorf("copy the ignored %q: %w", path, err)
		}
	}
	chosen := *t.info.Ignored
	chosen.Bytes = c.bytes.Load()
	t.info.Ignored = &chosen
	t.info.Warnings = append(t.info.Warnings, c.unread.warnings.list()...)
	return nil
}

// ignoredCopy copies from a user's tree, whose files may change meanwhile, to one of ours.
type ignoredCopy struct {
	tree         *Tree
	from, to     folder.Dir
	files, bytes atomic.Int64
	noClones     atomic.Bool // the file system cannot share content

	unread capture // only its warnings
}

// take copies one file or directory.
func (c *ignoredCopy) take(ctx context.Context, path string) error {
	at := folder.NewCursor(c.from, false)
	defer at.Close()
	dir, name, err := at.Parent(path)
	if err != nil {
		return err
	}
	descend, err := c.copyInto(dir, path, []string{name})
	if err != nil || len(descend) == 0 {
		return err
	}
	top, err := dir.Sub(name)
	if err != nil {
		return c.unreadable(path, err)
	}
	defer top.Close()
	return folder.Walk(ctx, top, path, func(dir folder.Dir, path string, names []string) ([]string, error) {
		names = slices.DeleteFunc(names, func(name string) bool { return IsSecret(name) || gitname.IsDotGit(name) })
		return c.copyInto(dir, path+"/", names)
	}, c.unreadable)
}

// copyInto copies the files of dir with the names, and makes the directories among them, which it returns. The path is
// that of dir with a / at its end, or that of the only name.
func (c *ignoredCopy) copyInto(dir folder.Dir, path string, names []string) (descend []string, err error) {
	at := folder.NewCreatingCursor(c.to, c.tree.source.options.Owner)
	defer at.Close()
	for _, name := range names {
		child := path
		if strings.HasSuffix(path, "/") {
			child = path + name
		}
		into, _, err := at.Parent(child)
		if err != nil {
			return nil, err
		}
		st, err := dir.Lstat(name)
		if err != nil {
			_ = c.unreadable(child, err)
			continue
		}
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFDIR:
			if err := unix.Mkdirat(into.FD, name, 0o755); err != nil && err != unix.EEXIST {
				return nil, &os.PathError{Op: "mkdir", Path: child, Err: err}
			}
			err, descend = at.Own(into, name), append(descend, name)
		case unix.S_IFLNK:
			err = c.link(dir, into, name)
		case unix.S_IFREG:
			err = c.file(dir, into, name, child)
		}
		if err != nil {
			return nil, err
		}
	}
	return descend, c.check()
}

// check refuses what is more than the bounds.
func (c *ignoredCopy) check() error {
	most := c.tree.source.options.Limits.IgnoredBytes
	switch {
	case c.files.Load() > maxTakenIgnored:
		return c.tree.source.tooManyIgnored(fmt.Sprintf("more than %d", maxTakenIgnored))
	case c.bytes.Load() > most:
		return c.tree.source.tooManyIgnored(fmt.Sprintf("larger than %d bytes", most))
	}
	return nil
}

func (c *ignoredCopy) unreadable(path string, err error) error {
	if git.IsCancelled(err) {
		return err
	}
	c.unread.warn(warnUnreadable, path, err.Error())
	return nil
}

func (c *ignoredCopy) link(dir, into folder.Dir, name string) error {
	target, err := dir.Readlink(name)
	if err == nil {
		c.files.Add(1)
		if err = unix.Symlinkat(target, into.FD, name); err != nil {
			err = &os.PathError{Op: "symlink", Path: name, Err: err}
		}
	}
	return errors.Join(err, folder.Chown(into, name, c.tree.source.options.Owner))
}

// file copies a regular file, with its time and whether it can be executed.
func (c *ignoredCopy) file(dir, into folder.Dir, name, path string) error {
	from, st, err := dir.OpenFile(name)
	if err != nil {
		return c.unreadable(path, err)
	}
	defer from.Close()
	c.files.Add(1)
	c.bytes.Add(st.Size)
	if err := c.check(); err != nil {
		return err
	}
	fd, err := unix.Openat(into.FD, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return &os.PathError{Op: "create", Path: path, Err: err}
	}
	to := os.NewFile(uintptr(fd), name)
	defer to.Close()
	if c.noClones.Load() || folder.Clone(to, from) != nil {
		c.noClones.Store(true)
		if _, err := io.Copy(to, io.LimitReader(from, st.Size)); err != nil { // it may grow meanwhile
			return fmt.Errorf("copy %q: %w", path, err)
		}
	}
	mode := fs.FileMode(0o644)
	if st.Mode&0o100 != 0 {
		mode = 0o755
	}
	return errors.Join(to.Chmod(mode), folder.Chown(into, name, c.tree.source.options.Owner), to.Close(),
		unix.UtimesNanoAt(into.FD, name, []unix.Timespec{st.Mtim, st.Mtim}, unix.AT_SYMLINK_NOFOLLOW))
}
