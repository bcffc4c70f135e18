package scheduler_test

import (
	"cmp"
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
	calls     int  // of rows that succeed before one fails within a step
	committed bool // the update in which it crashed
	survives  bool // the process goes on: only the update failed
	dead      bool
	onCommit  func() // after each commit
}

func (f *faulty) commit(ctx context.Context, fn func(ledger.Tx) error) error {
	err := f.Store.Update(ctx, fn)
	if err == nil {
		f.onCommit()
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
	afterCommit                 // the rows were committed and the caller got no answer
	withinStep                  // a read or write failed, whatever the step made of it
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
	case withinStep:
		rows := &failingRows{left: f.calls}
		err := f.commit(ctx, func(tx ledger.Tx) error {
			rows.Rows, tx.Rows = tx.Rows, rows
			return fn(tx)
		})
		if rows.left < 0 && !errors.Is(err, errCrash) {
			panic("a step does not return that the store failed")
		}
		return err
	}
	return errCrash
}

// failingRows fail once some calls have succeeded.
type failingRows struct {
	ledger.Rows
	left int
}

func (f *failingRows) fails() error {
	if f.left--; f.left < 0 {
		f.left = -1
		return errCrash
	}
	return nil
}

func (f *failingRows) Get(r ledger.Record, key ...any) error {
	return cmp.Or(f.fails(), f.Rows.Get(r, key...))
}

func (f *failingRows) List(r ledger.Record, each func(), salvage bool, query string, args ...any) error {
	if err := f.fails(); err != nil {
		return err
	}
	return f.Rows.List(r, each, salvage, query, args...)
}

func (f *failingRows) Insert(r ledger.Record) error { return cmp.Or(f.fails(), f.Rows.Insert(r)) }

func (f *failingRows) Update(r ledger.Record) error { return cmp.Or(f.fails(), f.Rows.Update(r)) }
