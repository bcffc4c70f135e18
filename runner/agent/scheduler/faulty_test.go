package scheduler_test

import (
	"context"
	"errors"

	"holon/state/ledger"
)

// errCrash is the end of the process in the midst of a step.
var errCrash = errors.New("crash")

// faulty ends the process at a boundary of the n-th Update from now.
type faulty struct {
	ledger.Store
	armed     bool
	after     int
	where     boundary
	committed bool // the update in which it crashed
	survives  bool // the process goes on: only the update failed
	dead      bool
	told      func() // after each commit
}

func (f *faulty) commit(ctx context.Context, fn func(ledger.Tx) error) error {
	err := f.Store.Update(ctx, fn)
	if err == nil {
		f.told()
	}
	return err
}

// View is not answered by a process that has ended.
func (f *faulty) View(ctx context.Context, fn func(ledger.View) error) error {
	if f.dead {
		return errCrash
	}
	return f.Store.View(ctx, fn)
}

type boundary int

const (
	beforeStep  boundary = iota // nothing was done
	beforeWrite                 // the rows were written and not committed
	afterCommit                 // the rows were committed and the caller was not told
)

func (f *faulty) Update(ctx context.Context, fn func(ledger.Tx) error) error {
	switch {
	case !f.armed:
		return f.commit(ctx, fn)
	case f.after > 0:
		f.after--
		return f.commit(ctx, fn)
	}
	f.armed = false
	err := f.crashAt(ctx, fn)
	f.dead = errors.Is(err, errCrash) && !f.survives
	return err
}

// crashAt makes an update as far as the boundary. One that is refused has none.
func (f *faulty) crashAt(ctx context.Context, fn func(ledger.Tx) error) error {
	switch f.where {
	case beforeWrite:
		return f.Store.Update(ctx, func(tx ledger.Tx) error {
			if err := fn(tx); err != nil {
				return err
			}
			return errCrash
		})
	case afterCommit:
		if err := f.commit(ctx, fn); err != nil {
			return err
		}
		f.committed = true
	}
	return errCrash
}
