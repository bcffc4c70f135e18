// Package transfer moves directories between the host and a container that shares none with it, as tar streams.
//
//	directory ─▶ Pack ─▶ tar ─▶ container … container ─▶ tar ─▶ Unpack ─▶ the same directory, brought up to date
//
// Or only files of them, while the container runs:
//
//	host: Client ═ streams of a command in the container ═ Serve
//	        List ──────────▶ names, sizes and times
//	        Get, Put ◀─────▶ tar with the files that are asked for
//
// What comes out of a container is hostile: Unpack writes beneath its directory alone, makes regular files, directories
// and symbolic links, and keeps Limits. What the directory has and the tar has not is removed, what is the same stays
// untouched, so that git need not read it again.
package transfer

import (
	"archive/tar"
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

	"holon/internal/roots"
)

// Limits bound what Unpack takes; 0 means none. Of a hole in a file, which a tar has as zeros, a small part counts.
type Limits struct {
	Bytes, Files int64
}

// TooMuchError says that a container left more than Limits allow.
type TooMuchError struct{ Limits Limits }

func (e *TooMuchError) Error() string {
	return fmt.Sprintf("the container left more than %d bytes or %d files", e.Limits.Bytes, e.Limits.Files)
}

// Unpack brings the directory dir of the host up to date with a tar whose names begin with one directory of any name.
// As root it gives files to the owners that the tar names. Where keep, which may be nil, reports true, the file of dir
// stays as it is: h is what the tar has under that name, nil for nothing.
func Unpack(ctx context.Context, in io.Reader, dir string, limits Limits, keep func(name string, h *tar.Header) bool,
) error {
	u, err := open(dir, limits)
	if err != nil {
		return err
	}
	defer u.root.Close()
	if keep != nil {
		u.keep = keep
	}
	if err = u.takeAll(ctx, in); err == nil {
		err = readEnd(in) // which may say that there was more
	}
	if err == nil {
		err = u.prune()
	}
	if err != nil {
		return fmt.Errorf("take what the container left in %s: %w", dir, err)
	}
	return nil
}

// maxPadding bounds what follows the end of a tar.
const maxPadding = 1 << 20

func readEnd(in io.Reader) error {
	switch _, err := io.CopyN(io.Discard, in, maxPadding); {
	case errors.Is(err, io.EOF):
		return nil
	case err == nil:
		return &BrokenError{errors.New("the tar goes on after its end")}
	default:
		return err
	}
}

// Measure returns how many bytes of a disk the files of a tar would take, each at least 4 KiB.
func Measure(in io.Reader) (bytes int64, err error) {
	for tr := tar.NewReader(in); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return bytes, nil
		}
		if err != nil {
			return 0, err
		}
		bytes += max(h.Size, 4<<10)
	}
}

// Place makes the files of a tar whose names begin with one directory in dir, of which other containers may have
// mounted files already: these are written in place. A hard link of the tar is a copy of the file linked of dir.
// Nothing is removed, and all is as the tar says, but that only root gives files away.
func Place(ctx context.Context, in io.Reader, dir, linked string) error {
	u, err := open(dir, Limits{})
	if err != nil {
		return err
	}
	defer u.root.Close()
	u.linked = linked
	err = u.takeAll(ctx, in)
	for _, h := range slices.Backward(u.dirs) { // which had to be written to
		err = errors.Join(err, u.root.Chmod(within(h.Name), h.FileInfo().Mode().Perm()))
	}
	if err != nil {
		return fmt.Errorf("write what the host sends: %w", err)
	}
	return nil
}

func open(dir string, limits Limits) (*unpacking, error) {
	root, err := roots.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("take what the container left: %w", err)
	}
	return &unpacking{root: root, limits: limits, seen: map[string]bool{".": true}, chown: os.Geteuid() == 0,
		keep: func(string, *tar.Header) bool { return false }}, nil
}

// takeAll makes the entries of a tar.
func (u *unpacking) takeAll(ctx context.Context, in io.Reader) error {
	tr := tar.NewReader(in)
	for {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = errors.Join(ctx.Err(), u.take(h, tr))
		}
		if err != nil {
			return err
		}
	}
}

type unpacking struct {
	root   *os.Root
	limits Limits
	bytes  int64
	seen   map[string]bool // by path within root
	chown  bool
	rights *rights
	keep   func(name string, h *tar.Header) bool

	linked string        // see Place; "": files are replaced, and hard links are made
	dirs   []*tar.Header // with linked: those of the tar
}

// errOutside is of a name that does not lie beneath the directory.
var errOutside = errors.New("a name leads out of it")

// within is the path of a name of a tar in the directory that all of them begin with, whose name Podman leaves empty.
func within(name string) string {
	_, rest, _ := strings.Cut(strings.TrimPrefix(name, "./"), "/")
	return path.Clean("./" + rest)
}

// take makes one entry.
func (u *unpacking) take(h *tar.Header, content io.Reader) error {
	name := within(h.Name)
	if !filepath.IsLocal(name) {
		return fmt.Errorf("%w: %.200q", errOutside, h.Name)
	}
	if u.limits.Files > 0 && int64(len(u.seen)) >= u.limits.Files {
		return &TooMuchError{u.limits}
	}
	if u.keep(name, h) {
		u.seen[name] = true
		return nil
	}
	err := u.rights.take(path.Dir(name))
	if err == nil {
		err = u.make(name, h, metered{content, u})
	}
	if err != nil {
		return fmt.Errorf("%.200q: %w", name, err)
	}
	return nil
}

func (u *unpacking) make(name string, h *tar.Header, content io.Reader) error {
	mode := h.FileInfo().Mode().Perm()
	there, err := u.root.Lstat(name)
	switch h.Typeflag {
	case tar.TypeDir:
		if err != nil || !there.IsDir() {
			err = errors.Join(u.root.RemoveAll(name), u.root.Mkdir(name, 0o700))
		}
		mode |= 0o700 // for this process
		if u.linked != "" {
			u.dirs = append(u.dirs, h)
		}
	case tar.TypeReg:
		err = u.file(name, there, h, content)
	case tar.TypeLink:
		err = u.link(name, within(h.Linkname))
	case tar.TypeSymlink:
		err = u.symlink(name, there, h.Linkname)
	default:
		return nil
	}
	if err != nil {
		return err
	}
	u.seen[name] = true
	if u.chown {
		err = u.give(name, owner{h.Uid, h.Gid})
	}
	if err == nil && h.Typeflag != tar.TypeSymlink {
		err = u.root.Chmod(name, mode)
	}
	return err
}

// give gives a file to its owner. With rights, one in a directory that root cannot enter stays with that directory's.
func (u *unpacking) give(name string, to owner) error {
	if u.rights == nil {
		return u.root.Lchown(name, to.uid, to.gid)
	}
	info, err := u.root.Lstat(name)
	if err == nil && ownerOf(info) != to {
		if err = u.rights.close(); err == nil { // as itself, root may give files away
			err = u.root.Lchown(name, to.uid, to.gid)
		}
		if errors.Is(err, fs.ErrPermission) {
			return u.rights.take(path.Dir(name))
		}
	}
	u.rights.owners[name] = to
	return errors.Join(err, u.rights.become(to))
}

// symlink makes a link, unless there is the same.
func (u *unpacking) symlink(name string, there fs.FileInfo, target string) error {
	if there != nil && there.Mode()&fs.ModeSymlink != 0 {
		if now, err := u.root.Readlink(name); err == nil && now == target {
			return nil
		}
	}
	return errors.Join(u.root.RemoveAll(name), u.root.Symlink(target, name))
}

// link makes a second name of a file of the same tar.
func (u *unpacking) link(name, target string) error {
	if u.linked != "" {
		content, err := u.root.Open(u.linked)
		if err != nil {
			return err
		}
		defer content.Close()
		return u.overwrite(name, content)
	}
	info, err := u.root.Lstat(target)
	if err != nil || !u.seen[target] || !info.Mode().IsRegular() {
		return fmt.Errorf("%w: it is a link to %.200q, which came before it as no file", errOutside, target)
	}
	if there, err := u.root.Lstat(name); err == nil && os.SameFile(there, info) {
		return nil
	}
	return errors.Join(u.root.RemoveAll(name), u.root.Link(target, name))
}

// prune removes what the tar does not have.
func (u *unpacking) prune() error {
	return roots.Walk(u.root, func(name string, d fs.DirEntry, err error) error {
		if err != nil || u.seen[name] {
			return err
		}
		if u.keep(name, nil) || len(name) > maxPath {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if err := u.root.RemoveAll(name); err != nil {
			return err
		}
		if d.IsDir() {
			return fs.SkipDir
		}
		return nil
	})
}
