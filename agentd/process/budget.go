package process

import "sync/atomic"

// Budget is a number of bytes of log files that many commands share: those of a
// turn, or those of everything under one directory. It is safe for concurrent
// use. When it is used up, logging stops and counting goes on.
type Budget struct {
	left   atomic.Int64 // below zero when Recount finds more than there may be
	parent *Budget
}

// NewBudget returns a budget of the given bytes. Bytes taken from it are taken from parent too, unless that is nil.
func NewBudget(bytes int64, parent *Budget) *Budget {
	b := &Budget{parent: parent}
	b.left.Store(max(bytes, 0))
	return b
}

// Left is how many bytes can still be taken.
func (b *Budget) Left() int64 {
	left := max(b.left.Load(), 0)
	if b.parent != nil {
		left = min(left, b.parent.Left())
	}
	return left
}

// Take takes up to n bytes and returns how many it got.
func (b *Budget) Take(n int64) int64 {
	got := b.takeOwn(max(n, 0))
	if b.parent == nil || got == 0 {
		return got
	}
	granted := b.parent.Take(got)
	b.left.Add(got - granted)
	return granted
}

func (b *Budget) takeOwn(n int64) int64 {
	for {
		left := b.left.Load()
		got := min(n, left)
		if got <= 0 || b.left.CompareAndSwap(left, left-got) {
			return max(got, 0)
		}
	}
}

// Recount sets the budget to bytes less the result of used, which may take long. Bytes taken meanwhile stay taken, so
// for a while too little may be left, but never too much. If used fails, nothing changes.
func (b *Budget) Recount(bytes int64, used func() (int64, error)) error {
	before := b.left.Load()
	n, err := used()
	if err != nil {
		return err
	}
	b.left.Add(bytes - n - before)
	return nil
}

// Give puts n bytes back that were taken: a file was not written, or removed.
func (b *Budget) Give(n int64) {
	for ; b != nil; b = b.parent {
		b.left.Add(max(n, 0))
	}
}
