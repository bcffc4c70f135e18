package workspace

import (
	"context"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"holon/runner/workspace/git"
)

// BaseFile returns the content of a file of the base, links within the base followed. One that is absent, or no file,
// is fs.ErrNotExist; one that is larger than most is CodeTooLarge.
func (t *Tree) BaseFile(ctx context.Context, name string, most int64) ([]byte, error) {
	id, size, err := t.baseObject(ctx, name, "blob")
	if err == nil && size > most {
		err = &git.Error{Code: git.CodeTooLarge, Param: name,
			Message: fmt.Sprintf("%.200q has %d bytes, more than %d", name, size, most)}
	}
	if err != nil {
		return nil, git.WithCode("read the base", err)
	}
	data, err := t.base.Git().Run(ctx, nil, "cat-file", "blob", id)
	return data, git.WithCode("read the base", err)
}

// BaseDir returns the names in a directory of the base, sorted, links within the base followed. One that is absent, or
// no directory, is fs.ErrNotExist.
func (t *Tree) BaseDir(ctx context.Context, name string) ([]string, error) {
	id, _, err := t.baseObject(ctx, name, "tree")
	if err != nil {
		return nil, git.WithCode("read the base", err)
	}
	out, err := t.base.Git().Run(ctx, nil, "ls-tree", "--name-only", "-z", id)
	if err != nil || len(out) == 0 {
		return nil, git.WithCode("read the base", err)
	}
	return strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00"), nil
}

// BaseFiles returns the paths of all files of the base.
func (t *Tree) BaseFiles(ctx context.Context) ([]string, error) {
	out, err := t.base.Git().Run(ctx, nil, "ls-tree", "-r", "--name-only", "-z", "--full-tree", t.info.BaseTree)
	if err != nil || len(out) == 0 {
		return nil, git.WithCode("list the base", err)
	}
	return strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00"), nil
}

// baseObject returns the object that name leads to.
func (t *Tree) baseObject(ctx context.Context, name, kind string) (id string, size int64, err error) {
	out, err := t.base.Git().Run(ctx, strings.NewReader(t.info.BaseTree+":"+path.Clean("/" + name)[1:]+"\x00"),
		"cat-file", "--batch-check", "--follow-symlinks", "-z")
	if err != nil {
		return "", 0, err
	}
	line, _, _ := strings.Cut(string(out), "\n") // "id kind size", or why there is none
	if fields := strings.Fields(line); len(fields) == 3 && fields[1] == kind {
		if size, err = strconv.ParseInt(fields[2], 10, 64); err == nil {
			return fields[0], size, nil
		}
	}
	return "", 0, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
}
