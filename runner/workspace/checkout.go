package workspace

import (
	"context"
	"errors"
	"os"
	"runtime"

	"holon/internal/folder"
	"holon/runner/workspace/git"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

// checkout writes entries of the record and fills in their stat data. Their paths must not exist. The content
// is that of the objects, byte for byte.
func (t *Tree) checkout(ctx context.Context, root folder.Dir, missing []int32) error {
	var files []*git.Entry
	dirs := folder.NewCreatingCursor(root, t.source.options.Owner)
	defer dirs.Close()
	for _, i := range missing {
		e := &t.record.entries[i]
		if e.Mode != git.ModeSubmodule {
			files = append(files, e)
			continue
		}
		// A submodule's directory exists even if its objects are missing.
		dir, name, err := dirs.Parent(e.Path)
		if err != nil {
			return err
		}
		if err := unix.Mkdirat(dir.FD, name, 0o755); err != nil && err != unix.EEXIST {
			return &os.PathError{Op: "mkdir", Path: e.Path, Err: err}
		}
		if err := errors.Join(dir.Chmod(name, 0o755), folder.Chown(dir, name, t.source.options.Owner)); err != nil {
			return err
		}
	}
	const perWorker = 300 // with fewer files a second process costs more time than it saves
	workers := min(runtime.GOMAXPROCS(0), len(files)/perWorker+1)
	group, ctx := errgroup.WithContext(ctx)
	for w := range workers {
		part := files[w*len(files)/workers : (w+1)*len(files)/workers]
		if len(part) > 0 {
			group.Go(func() error {
				return t.base.Git().WriteFiles(ctx, root, t.source.options.Owner, t.record.header.Since, part)
			})
		}
	}
	return group.Wait()
}
