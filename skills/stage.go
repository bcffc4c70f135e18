package skills

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"holon/internal/roots"
)

const (
	maxFiles = 4096      // of one skill, folders included
	maxBytes = 128 << 20 // of one skill
	maxDepth = 32

	newPrefix = ".new-"
)

// Stage copies the skills that sources name (folders, or the SKILL.md in one)
// into the folder dst, which is made if need be, and returns them as Discover
// would find them there, in the order of the sources. Links are kept if they
// stay within the skill; folders called .git are left out. A skill that can't
// be used, or an installed one that is not as its pin says, is an *InvalidSkill. On error dst is as it was.
func Stage(ctx context.Context, sources []string, dst string) (staged []Skill, err error) {
	madeDst := false
	if err := os.Mkdir(dst, 0o755); err == nil {
		madeDst = true
		if err := os.Chmod(dst, 0o755); err != nil {
			return nil, fmt.Errorf("make the folder for skills: %w", errors.Join(err, os.Remove(dst)))
		}
	} else if !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("make the folder for skills: %w", err)
	}
	to, err := os.OpenRoot(dst)
	if err != nil {
		return nil, fmt.Errorf("open the folder for skills: %w", err)
	}
	defer to.Close()
	defer func() {
		if err == nil {
			return
		}
		for _, skill := range staged {
			err = errors.Join(err, to.RemoveAll(skill.Name))
		}
		if staged = nil; madeDst {
			err = errors.Join(err, os.Remove(dst))
		}
	}()
	for _, source := range sources {
		name, err := stageOne(ctx, source, to)
		if err != nil {
			return staged, err
		}
		skill, problem := read(to, dst, name)
		staged = append(staged, Skill{Name: name})
		if problem != nil {
			return staged, problem
		}
		staged[len(staged)-1] = skill
	}
	return staged, nil
}

// stageOne copies one skill under a temporary name and renames it, so that it is
// complete or absent.
func stageOne(ctx context.Context, source string, to *os.Root) (name string, err error) {
	folder, err := filepath.Abs(source)
	if err != nil {
		return "", fmt.Errorf("find skill %q: %w", source, err)
	}
	if filepath.Base(folder) == File {
		folder = filepath.Dir(folder)
	}
	name = filepath.Base(folder)
	from, err := roots.Open(folder)
	if err != nil {
		return "", noFolder(source, err)
	}
	defer from.Close()
	front, problem := readFront(from, File, filepath.Join(folder, File)) // before anything is copied
	if problem == nil {
		problem = front.check(name, filepath.Join(folder, File))
	}
	if problem != nil {
		return "", problem
	}
	if _, err := to.Lstat(name); err == nil {
		return "", &InvalidSkill{Code: codeDuplicate, Path: source, Field: "name",
			Message: fmt.Sprintf("there is a skill %q already", name), Hint: "name each skill once"}
	}
	temp := newPrefix + name
	if err := to.RemoveAll(temp); err != nil { // of a crash
		return "", fmt.Errorf("stage skill %q: %w", source, err)
	}
	c := &copying{from: from, to: to, source: folder}
	err = c.all(ctx, temp)
	if err == nil {
		err = checkPin(to, temp, folder)
	}
	if err == nil {
		err = to.Rename(temp, name)
	}
	if err != nil {
		return "", errors.Join(err, to.RemoveAll(temp))
	}
	return name, nil
}

// copying is the copy of one skill.
type copying struct {
	from, to *os.Root
	source   string // for problems
	files    int    // the folder itself included
	bytes    int64
}

// all copies the skill to the folder dst.
func (c *copying) all(ctx context.Context, dst string) error {
	return fs.WalkDir(c.from.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		src, to := filepath.FromSlash(name), filepath.Join(dst, filepath.FromSlash(name))
		switch {
		case ctx.Err() != nil:
			return fmt.Errorf("copy skill: %w", ctx.Err())
		case err != nil:
			return c.problem(codeUnreadable, src, "the folder can't be read", err)
		case entry.Name() == ".git" && entry.IsDir(): // history and configuration are no part of a skill
			return fs.SkipDir
		case entry.Name() == ".git":
			return nil
		}
		if c.files++; c.files > maxFiles+1 || strings.Count(name, "/") > maxDepth {
			return c.problem(codeTooLarge, src,
				fmt.Sprintf("it has more than %d files, or folders deeper than %d", maxFiles, maxDepth), nil)
		}
		switch entry.Type() {
		case fs.ModeDir:
			// The container's user may be another than ours, so the umask must not count.
			if err := errors.Join(c.to.Mkdir(to, 0o755), c.to.Chmod(to, 0o755)); err != nil {
				return fmt.Errorf("copy skill: %w", err)
			}
			return nil
		case fs.ModeSymlink:
			return c.link(src, to)
		case 0:
			return c.file(src, to)
		}
		return c.problem(codeUnsafe, src, "it is a special file", nil)
	})
}

// link copies a link that stays within the skill; os.Root follows no other.
func (c *copying) link(src, dst string) error {
	target, err := c.from.Readlink(src)
	if err == nil {
		_, err = c.from.Stat(src)
	}
	if err != nil {
		return c.problem(codeUnsafe, src, "a link leads out of the skill, or nowhere", err)
	}
	// A link that passes through ".git" or outside and back would not lead to
	// the same place in the copy.
	if !filepath.IsLocal(filepath.Join(filepath.Dir(src), target)) || strings.Contains("/"+target+"/", "/.git/") {
		return c.problem(codeUnsafe, src, "a link leads out of the skill", nil)
	}
	if err := c.to.Symlink(target, dst); err != nil {
		return fmt.Errorf("copy skill: %w", err)
	}
	return nil
}

func (c *copying) file(src, dst string) error {
	from, info, err := roots.OpenFile(c.from, src)
	if errors.Is(err, roots.ErrNotRegular) { // it was one when the folder was read
		return c.problem(codeUnsafe, src, err.Error(), nil)
	}
	if err != nil {
		return c.problem(codeUnreadable, src, "the file can't be read", err)
	}
	defer from.Close()
	if info.Size() > maxBytes-c.bytes {
		return c.problem(codeTooLarge, src, fmt.Sprintf("the skill has more than %d bytes", maxBytes), nil)
	}
	perm := fs.FileMode(0o644)
	if info.Mode()&0o111 != 0 {
		perm = 0o755
	}
	to, err := c.to.OpenFile(dst, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return fmt.Errorf("copy skill: %w", err)
	}
	n, err := io.Copy(to, io.LimitReader(from, info.Size())) // it may grow meanwhile
	c.bytes += n
	if err = errors.Join(err, to.Chmod(perm), to.Close()); err != nil {
		return fmt.Errorf("copy skill: %w", err)
	}
	return nil
}

func (c *copying) problem(code problemCode, src, message string, err error) error {
	hint := "copy what is needed into the skill and remove the rest"
	if code == codeUnreadable {
		hint = "look at its permissions"
	}
	return &InvalidSkill{Code: code, Path: filepath.Join(c.source, src), Message: message, Hint: hint, Err: err}
}
