package workspace

import (
	"context"
	"encoding/hex"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"holon/internal/folder"
	"holon/runner/workspace/git"
)

// BaseFile returns the content of a file of the base, links within the tree followed. One that is absent, or no file,
// is fs.ErrNotExist; one that is larger than most is CodeTooLarge.
func (t *Tree) BaseFile(ctx context.Context, name string, most int64) ([]byte, error) {
	entries, real, err := t.baseEntries(ctx, name)
	if err != nil {
		return nil, git.WithCode("read the base", err)
	}
	i, found := findEntry(entries, real)
	if !found || entries[i].Mode == git.ModeSubmodule {
		return nil, git.WithCode("read the base", &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist})
	}
	data, err := t.base.Git().ReadBlob(ctx, hex.EncodeToString([]byte(entries[i].Oid)), most)
	if err == nil && data == nil {
		err = &git.Error{Code: git.CodeTooLarge, Param: name,
			Message: fmt.Sprintf("%.200q is larger than %d bytes", name, most)}
	}
	return data, git.WithCode("read the base", err)
}

// BaseDir returns the names in a directory of the base, sorted, links within the tree followed. One that is absent, or
// no directory, is fs.ErrNotExist.
func (t *Tree) BaseDir(ctx context.Context, name string) (names []string, err error) {
	entries, real, err := t.baseEntries(ctx, name)
	if err != nil {
		return nil, git.WithCode("read the base", err)
	}
	prefix := real + "/"
	if real == "" {
		prefix = ""
	}
	for i := range entries {
		if below, ok := strings.CutPrefix(entries[i].Path, prefix); ok {
			first, _, _ := strings.Cut(below, "/")
			names = append(names, first)
		}
	}
	if len(names) == 0 && real != "" {
		return nil, git.WithCode("read the base", &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist})
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// baseEntries returns the entries of the base and the path that name leads to, "" for the top.
func (t *Tree) baseEntries(ctx context.Context, name string) (entries []git.Entry, real string, err error) {
	entries = t.record.entries
	if t.record.header.Tree != t.info.BaseTree { // the tree began with the change of another run
		if entries, err = t.listTree(ctx, t.info.BaseTree, ""); err != nil {
			return nil, "", err
		}
	}
	real, err = t.resolve(ctx, entries, path.Clean("/" + name)[1:])
	return entries, real, err
}

const maxLinkHops = 10

// resolve follows the links that a path of the base leads through.
func (t *Tree) resolve(ctx context.Context, entries []git.Entry, name string) (string, error) {
	absent := &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	for range maxLinkHops {
		at, rest := firstLink(entries, name)
		if at < 0 {
			return name, nil
		}
		target, err := t.base.Git().ReadBlob(ctx, hex.EncodeToString([]byte(entries[at].Oid)), 4<<10)
		if err != nil {
			return "", err
		}
		dir, _ := folder.Split(entries[at].Path)
		name = path.Join(dir, string(target), rest)
		if path.IsAbs(string(target)) || name == ".." || strings.HasPrefix(name, "../") || len(target) == 0 {
			return "", absent
		}
		if name == "." {
			name = ""
		}
	}
	return "", absent
}

// firstLink returns the first link on a path, and what follows it; -1 for none.
func firstLink(entries []git.Entry, name string) (at int, rest string) {
	for end := 1; end <= len(name); end++ {
		if end < len(name) && name[end] != '/' {
			continue
		}
		if i, found := findEntry(entries, name[:end]); found && entries[i].Mode == git.ModeSymlink {
			return i, name[end:]
		}
	}
	return -1, ""
}

func findEntry(entries []git.Entry, name string) (int, bool) {
	return slices.BinarySearchFunc(entries, name, func(e git.Entry, name string) int {
		return strings.Compare(e.Path, name)
	})
}
