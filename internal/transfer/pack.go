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
	"slices"
	"strings"
	"time"

	"holon/internal/roots"
)

// maxPath bounds the paths that are moved, in bytes: engines unpack tars by whole paths, which the kernel takes up to
// 4,095 bytes of.
const maxPath = 4000

// Pack writes the directory dir of the host to a tar, under the absolute path target of the container, but for the
// paths except. Sockets, pipes and devices are left out, what is gone meanwhile, and what has too long a path. Owners
// are those of the host, unless users, those of the program, are given: in a directory of one of them, what belongs to
// none of them becomes that one's, as when it comes later. Root could not enter the directory to change it. late leaves
// out files with holes, which an engine would fill with zeros: a Client gives them as they are.
func Pack(ctx context.Context, out *tar.Writer, dir, target string, except []string, late bool, users ...int) error {
	var top owner
	err := pack(ctx, out, dir, target, except, func(_ *os.Root, name string, info fs.FileInfo) {
		if name == "." {
			top = ownerOf(info)
		}
	}, func(e *entry) (taken bool) {
		if h := e.header; slices.Contains(users, top.uid) && !slices.Contains(users, h.Uid) {
			h.Uid, h.Gid = top.uid, top.gid
		}
		return !late || e.extents() == nil
	})
	if err != nil {
		return fmt.Errorf("send %s to the container: %w", dir, err)
	}
	return nil
}

// ownTarget is the directory of tars that this package reads.
const ownTarget = "files"

// PackOwn writes a directory as a tar whose names begin with one directory, as Unpack takes it. A program of the same
// user may have closed files of it, which get back the permissions that they are read with.
func PackOwn(ctx context.Context, out *tar.Writer, dir string) error {
	if err := pack(ctx, out, dir, ownTarget, nil, permit, func(*entry) bool { return true }); err != nil {
		return fmt.Errorf("read %s: %w", dir, err)
	}
	return nil
}

func pack(ctx context.Context, out *tar.Writer, dir, target string, except []string,
	before func(*os.Root, string, fs.FileInfo), amend func(*entry) (taken bool)) error {
	root, err := roots.Open(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	return roots.Walk(root, func(name string, d fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, fs.ErrNotExist) && name != ".":
			return nil
		case err != nil:
			return err
		case (slices.Contains(except, name) || len(target)+len(name) > maxPath) && d.IsDir():
			return fs.SkipDir
		case slices.Contains(except, name) || len(target)+len(name) > maxPath:
			return nil
		}
		if info, err := root.Lstat(name); err == nil {
			before(root, name, info)
		}
		e, err := openEntry(root, name)
		if errors.Is(err, fs.ErrNotExist) && name != "." {
			return nil
		}
		if err != nil || e == nil {
			return err
		}
		if !amend(e) {
			return e.content.Close()
		}
		if whole, err := e.write(out, path.Join(target, name), target == ownTarget); err != nil || whole {
			return err
		}
		return fmt.Errorf("%s became shorter while it was read", name)
	})
}

// permit lets this process read what a program of the same user has closed. Root needs no such permission.
func permit(root *os.Root, name string, info fs.FileInfo) {
	need := fs.FileMode(0o400)
	if info.IsDir() {
		need = 0o700
	}
	if mode := info.Mode(); os.Geteuid() != 0 && mode.Type()&^fs.ModeDir == 0 && mode.Perm()&need != need {
		_ = root.Chmod(name, mode.Perm()|need) // that it cannot be read shows when it is
	}
}

// entry is a file as it is now, as a tar has it.
type entry struct {
	header  *tar.Header
	content *os.File // of a regular file
}

// openEntry opens a file, which no link leads to. nil: it is of a kind that a tar is not to have.
func openEntry(root *os.Root, name string) (*entry, error) {
	info, err := root.Lstat(name)
	if err != nil {
		return nil, err
	}
	var e entry
	link := ""
	switch info.Mode().Type() {
	case 0:
		e.content, info, err = roots.OpenFile(root, name)
	case fs.ModeSymlink:
		link, err = root.Readlink(name)
	case fs.ModeDir:
	default:
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if e.header, err = tar.FileInfoHeader(info, link); err != nil {
		return nil, err
	}
	e.header.Uname, e.header.Gname, e.header.Format = "", "", tar.FormatPAX
	e.header.AccessTime, e.header.ChangeTime = time.Time{}, time.Time{} // which are not taken
	return &e, nil
}

// write writes the entry under a name, and closes it. It may be written meanwhile: what it has less than at first is
// filled with zeros, and whole is false. Where this package reads the tar, holes are left out of it.
func (e *entry) write(out *tar.Writer, as string, holes bool) (whole bool, err error) {
	if e.content != nil {
		defer e.content.Close()
	}
	data := extents{{0, e.header.Size}}
	if holes {
		data = e.leaveOutHoles()
	}
	e.header.Name = strings.TrimPrefix(as, "/")
	if e.header.Typeflag == tar.TypeDir {
		e.header.Name += "/"
	}
	if err := out.WriteHeader(e.header); err != nil || e.content == nil {
		return true, err
	}
	whole = true
	for _, d := range data {
		n, err := io.Copy(out, io.NewSectionReader(e.content, d.at, d.size))
		if err == nil && n < d.size {
			whole = false
			_, err = io.CopyN(out, zeros{}, d.size-n)
		}
		if err != nil {
			return false, err
		}
	}
	return whole, nil
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
