package workspace

import (
	"context"
	"runtime"
	"sync"
)

// maxDepth bounds how deep a hostile tree is followed, and with it how many
// directories are open at once.
const maxDepth = 512

// A visitor looks at one directory and returns the names in it to descend
// into. It is called from several goroutines, once for each directory.
type visitor func(dir folder, path string, names []string) (descend []string, err error)

// walkTree shows every directory from root down to visit, in no order, on as
// many goroutines as there are processors. A directory that can't be opened
// goes to unreadable, which may swallow the error.
func walkTree(ctx context.Context, root folder, from string, visit visitor, unreadable func(path string, err error) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w := &treeWalk{ctx: ctx, fail: cancel, visit: visit, unreadable: unreadable,
		free: make(chan struct{}, runtime.GOMAXPROCS(0)-1)}
	w.walk(root, from)
	w.running.Wait()
	return context.Cause(ctx)
}

type treeWalk struct {
	ctx        context.Context // of this walk; ends at the first error
	fail       context.CancelCauseFunc
	visit      visitor
	unreadable func(path string, err error) error
	free       chan struct{} // one place for each further goroutine
	running    sync.WaitGroup
}

func (w *treeWalk) walk(dir folder, path string) {
	if w.ctx.Err() != nil {
		return
	}
	names, err := dir.names()
	if err != nil {
		w.check(w.unreadable(path, err))
		return
	}
	descend, err := w.visit(dir, path, names)
	if !w.check(err) {
		return
	}
	for _, name := range descend {
		child := joinPath(path, name)
		sub, err := dir.folder(name)
		if err != nil {
			if !w.check(w.unreadable(child, err)) {
				return
			}
			continue
		}
		w.descend(sub, child)
	}
}

// descend walks sub on another goroutine when one is free, else here.
func (w *treeWalk) descend(sub folder, path string) {
	select {
	case w.free <- struct{}{}:
		w.running.Go(func() {
			w.walk(sub, path)
			sub.close()
			<-w.free
		})
	default:
		w.walk(sub, path)
		sub.close()
	}
}

func (w *treeWalk) check(err error) bool {
	if err != nil {
		w.fail(err)
	}
	return err == nil
}
