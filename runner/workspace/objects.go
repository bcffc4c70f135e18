package workspace

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"holon/internal/durable"
	"holon/runner/workspace/git"
)

// alternates lists the object directories that our repositories borrow from. What a `git gc` of the user removes stays
// in ObjectsDir.
func (s *Source) alternates() (dirs []string) {
	if s.info.Kind == KindGit {
		if s.options.ObjectsDir != "" {
			dirs = append(dirs, s.options.ObjectsDir)
		}
		if s.user.Objects != "" { // or it is gone
			dirs = append(dirs, s.user.Objects)
		}
	}
	if s.pin != nil && s.pin.objects != "" {
		dirs = append(dirs, s.pin.objects)
	}
	return dirs
}

// shareObjects brings ObjectsDir up to date with the user's repository, what that borrows, the base of the tree, and
// more. Several trees may do so at the same time: each file is complete once it has its name, and a pack comes before
// its index, without which git does not see it. Git may repack the repository meanwhile, which moves objects between
// files, so that the last look must find nothing new.
func (t *Tree) shareObjects(ctx context.Context, more ...string) error {
	dir := t.source.options.ObjectsDir
	if dir == "" || t.info.Kind != KindGit {
		return nil
	}
	for _, name := range []string{"", "info", "pack"} {
		if err := makeReadable(filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("share objects: %w", err)
		}
	}
	l := objectLinks{to: dir, public: t.source.options.Owner != nil}
	for range 10 {
		l.added = 0
		for _, store := range slices.Concat(t.source.user.Stores(), []string{t.base.Objects()}, more) {
			if err := errors.Join(l.link(ctx, store), ctx.Err()); err != nil {
				return fmt.Errorf("share objects: %w", err)
			}
		}
		if l.added == 0 {
			return nil
		}
	}
	return errors.New("share objects: the repository is repacked again and again")
}

// makeReadable creates a directory that every user may list.
func makeReadable(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.Chmod(dir, 0o755) // the umask must have no effect
}

// objectLinks adds the files of object directories to another.
type objectLinks struct {
	to     string
	public bool // for a container of another user
	added  int
}

// link adds what lies in a store: the loose objects first, as git packs an object before it removes the loose one.
func (l *objectLinks) link(ctx context.Context, store string) error {
	entries, err := os.ReadDir(store)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if len(e.Name()) != 2 || strings.Trim(e.Name(), "0123456789abcdef") != "" {
			continue // not a directory of loose objects
		}
		if err := errors.Join(l.linkDir(store, e.Name(), git.IsLooseObject), ctx.Err()); err != nil {
			return err
		}
	}
	for _, suffix := range []string{".pack", ".rev", ".promisor", ".idx"} {
		match := func(name string) bool {
			return strings.HasPrefix(name, "pack-") && strings.HasSuffix(name, suffix)
		}
		if err := l.linkDir(store, "pack", match); err != nil {
			return err
		}
	}
	return nil
}

// linkDir adds the files of one directory that match. One that git removes meanwhile has its objects elsewhere.
func (l *objectLinks) linkDir(store, dir string, match func(name string) bool) error {
	names, err := namesIn(filepath.Join(store, dir))
	if err != nil || len(names) == 0 {
		return err
	}
	there, err := namesIn(filepath.Join(l.to, dir))
	if err != nil {
		return err
	}
	slices.Sort(there)
	for _, name := range names {
		if _, found := slices.BinarySearch(there, name); found || !match(name) {
			continue
		}
		err := l.linkFile(filepath.Join(store, dir, name), filepath.Join(l.to, dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			if err = makeReadable(filepath.Join(l.to, dir)); err == nil {
				err = l.linkFile(filepath.Join(store, dir, name), filepath.Join(l.to, dir, name))
			}
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrExist) {
			return err
		}
		l.added++
	}
	return nil
}

func namesIn(dir string) ([]string, error) {
	file, err := os.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return file.Readdirnames(-1)
}

// linkFile links a file, or copies it: to another file system, or for a user who could not read it.
func (l *objectLinks) linkFile(from, to string) error {
	info, err := os.Lstat(from)
	if err != nil {
		return err
	}
	if !l.public || info.Mode().Perm()&0o004 != 0 {
		if err := os.Link(from, to); err == nil || errors.Is(err, fs.ErrExist) || errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	copied := filepath.Join(l.to, durable.TempPrefix+rand.Text())
	if err = git.CopyFile(from, copied); err == nil {
		err = os.Chmod(copied, 0o444)
	}
	if err == nil {
		err = os.Rename(copied, to)
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(copied))
	}
	return nil
}
