package link

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"holon/internal/transfer"
	"holon/runner/engine"
)

// Usage returns how many bytes of the disk what a running program wrote to its mounts takes, but for those that hold
// sockets, in a time. Commands of the program can neither stop nor deceive it where there is a Server. A mount that the
// helper in the program cannot measure is read whole. It waits while files are made the same, and needs no process that
// is not there already.
func (f *Files) Usage(ctx context.Context, spec engine.Spec, most time.Duration) (bytes int64, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	err = f.again(ctx, func() error {
		bytes, err = f.usage(ctx, spec)
		return err
	})
	switch {
	case err == nil:
		return bytes, nil
	case ctx.Err() != nil:
		err = fmt.Errorf("measure container %s: %w", f.handle.Name, context.Cause(ctx))
	case f.link.Broken():
		err = cut(err, "a measurement", f.handle)
	default:
		err = &engine.Error{Code: engine.CodeFailed, Message: "cannot measure container " + f.handle.Name, Err: err}
	}
	return 0, err
}

func (f *Files) usage(ctx context.Context, spec engine.Spec) (int64, error) {
	if err := f.connect(ctx); err != nil {
		return 0, err
	}
	var dirs []string
	list := written(spec)
	for _, m := range list {
		if !slices.ContainsFunc(list, func(outer engine.Mount) bool { // which is measured with what is in it
			return strings.HasPrefix(m.Target, outer.Target+"/")
		}) {
			dirs = append(dirs, m.Target)
		}
	}
	bytes, closed, err := f.client.Usage(ctx, dirs)
	for _, dir := range closed {
		if err == nil && slices.Contains(dirs, dir) {
			err = f.addWhole(ctx, dir, &bytes)
		}
	}
	return bytes, err
}

func (f *Files) addWhole(ctx context.Context, dir string, bytes *int64) error {
	content, err := f.eng.Read(ctx, f.handle, dir)
	if err != nil {
		return err
	}
	n, err := transfer.Measure(content)
	*bytes += n
	return errors.Join(err, content.Close())
}
