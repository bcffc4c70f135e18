package folder

import (
	"context"
	"errors"
	"runtime"
	"sync"
)

// MaxDepth bounds how deep a hostile tree is followed, and with it how many
// directories are open at once.
const MaxDepth = 512

// A visitor gets some of the names in a directory and returns those to descend into. It is called from
// several goroutines, but from one for each directory.
type visitor func(dir Dir, path string, names []string) (descend []string, err error)

// Walk calls visit for every directory from root down, in no order, on as many goroutines as there are processors. A
// directory that can't be opened goes to unreadable, which may return nil to continue.
func Walk(ctx context.Context, root Dir, from string, visit visitor,
	unreadable func(path string, err error) error) error {
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

func (w *treeWalk) walk(dir Dir, path string) {
	if w.ctx.Err() != nil {
		return
	}
	var descend []string
	err := dir.List(func(names []string) error {
		some, err := w.visit(dir, path, names)
		if !w.check(err) || w.ctx.Err() != nil {
			return errStopped
		}
		if descend = append(descend, some...); len(descend) > maxDescend {
			w.enter(dir, path, descend)
			descend = descend[:0]
		}
		return nil
	})
	if err == errStopped {
		return
	}
	if err != nil {
		w.check(w.unreadable(path, err))
	}
	w.enter(dir, path, descend)
}

// maxDescend bounds the directories of one that are remembered while it is listed.
const maxDescend = 4096

var errStopped = errors.New("the walk has ended")

func (w *treeWalk) enter(dir Dir, path string, names []string) {
	for _, name := range names {
		if w.ctx.Err() != nil {
			return
		}
		child := Join(path, name)
		sub, err := dir.Sub(name)
		if err == nil {
			w.descend(sub, child)
		} else {
			w.check(w.unreadable(child, err))
		}
	}
}

// descend walks sub on another goroutine when one is free, else here.
func (w *treeWalk) descend(sub Dir, path string) {
	select {
	case w.free <- struct{}{}:
		w.running.Go(func() {
			w.walk(sub, path)
			sub.Close()
			<-w.free
		})
	default:
		w.walk(sub, path)
		sub.Close()
	}
}

func (w *treeWalk) check(err error) bool {
	if err != nil {
		w.fail(err)
	}
	return err == nil
}
