package sqlite

import (
	"context"
	"fmt"
	"slices"
	"sync"
)

// writer is the only connection that writes. One update holds it at a time, in
// the order of arrival. Updates that wait join the transaction of the one before
// them, and the last in the queue commits for all (group commit).
type writer struct {
	watch *watch

	mu     sync.Mutex
	held   bool
	queue  []*waiter
	closed bool

	// Used by the update that holds the writer.
	conn  *conn
	open  bool      // a transaction is open
	batch []*update // done in it
}

// waiter is an update in the queue; turn is closed when it holds the writer.
type waiter struct{ turn chan struct{} }

// update ran and waits for the commit.
type update struct {
	agents []string // that have new events
	done   chan error
}

// maxBatch bounds how long the first of a batch waits for the last.
const maxBatch = 256

func newWriter(c *conn, w *watch) *writer {
	return &writer{conn: c, watch: w}
}

func (w *writer) update(ctx context.Context, fn func(*tx) error) error {
	if err := w.enter(ctx); err != nil {
		return err
	}
	u, err := w.run(ctx, fn)
	if err != nil {
		return err
	}
	// The commit decides the outcome, even if ctx ends meanwhile. The wait is short:
	// for the rest of the batch and the disk.
	return <-u.done
}

// run runs fn and releases the writer, even if fn panics.
func (w *writer) run(ctx context.Context, fn func(*tx) error) (_ *update, err error) {
	defer w.leave()
	if err := w.begin(); err != nil {
		return nil, failed("begin to write the ledger", err)
	}
	t := newTx(ctx, w)
	kept := false
	defer func() {
		t.conn = nil // fn may have kept the Tx
		if !kept {   // also when fn panicked
			w.undo(t)
		}
	}()
	if err := fn(t); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("update the ledger: %w", err)
	}
	if err := t.keep(); err != nil {
		return nil, err
	}
	kept = true
	u := &update{agents: t.watched, done: make(chan error, 1)}
	w.batch = append(w.batch, u)
	return u, nil
}

func (w *writer) begin() error {
	if w.open {
		return nil
	}
	_, err := w.conn.exec("BEGIN IMMEDIATE")
	w.open = err == nil
	return err
}

// undo takes back what one update wrote. When SQLite has ended the transaction
// by itself, the batch ends with it.
func (w *writer) undo(t *tx) {
	switch {
	case t.broken != nil:
		w.abandon(t.broken)
	case !t.written:
	case !t.nested:
		w.rollback()
	default:
		_, err := w.conn.exec("ROLLBACK TO one")
		if err == nil {
			_, err = w.conn.exec("RELEASE one")
		}
		if err != nil {
			w.abandon(failed("take back an update of the ledger", err))
		}
	}
}

// abandon rolls the transaction back and fails the batch.
func (w *writer) abandon(cause error) {
	w.rollback()
	w.answer(cause)
}

// rollback ends a transaction, which SQLite may have ended by itself.
func (w *writer) rollback() {
	_, _ = w.conn.exec("ROLLBACK")
	w.open = false
}

// enter waits for the writer.
func (w *writer) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("update the ledger: %w", err)
	}
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return ended()
	}
	t := w.join()
	w.mu.Unlock()
	if t == nil {
		return nil
	}
	select {
	case <-t.turn:
		return nil
	case <-ctx.Done():
	}
	if !w.quit(t) {
		w.leave() // it was handed over at the same moment, and the batch waits for it
	}
	return fmt.Errorf("wait for the ledger's writer: %w", ctx.Err())
}

// join takes the writer, or a place in the queue. w.mu is held.
func (w *writer) join() *waiter {
	if !w.held {
		w.held = true
		return nil
	}
	t := &waiter{turn: make(chan struct{})}
	w.queue = append(w.queue, t)
	return t
}

// quit leaves the queue. It reports false when the writer was handed over already.
func (w *writer) quit(t *waiter) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := slices.Index(w.queue, t)
	if i < 0 {
		return false
	}
	w.queue = slices.Delete(w.queue, i, i+1)
	return true
}

// leave hands the writer to the next update, after committing a complete batch.
func (w *writer) leave() {
	if len(w.batch) < maxBatch && w.pass() {
		return
	}
	w.commit()
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.queue) == 0 {
		w.held = false
		return
	}
	w.next()
}

// pass hands the writer to the next in the queue, if any.
func (w *writer) pass() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.queue) == 0 {
		return false
	}
	w.next()
	return true
}

// next hands the writer to the first in the queue. w.mu is held.
func (w *writer) next() {
	t := w.queue[0]
	w.queue = slices.Delete(w.queue, 0, 1)
	close(t.turn)
}

// commit ends the transaction, notifies watchers, and answers the batch.
func (w *writer) commit() {
	if !w.open {
		return
	}
	if len(w.batch) == 0 {
		w.rollback()
		return
	}
	if _, err := w.conn.exec("COMMIT"); err != nil {
		w.abandon(failed("commit to the ledger", err))
		return
	}
	w.open = false
	for _, u := range w.batch {
		w.watch.tell(u.agents)
	}
	w.answer(nil)
}

func (w *writer) answer(err error) {
	for _, u := range w.batch {
		u.done <- err
	}
	clear(w.batch)
	w.batch = w.batch[:0]
}

// finish lets queued updates finish. The connection, which is never handed over again, is the caller's then.
func (w *writer) finish() {
	w.mu.Lock()
	w.closed = true
	t := w.join()
	w.mu.Unlock()
	if t != nil {
		<-t.turn
	}
	w.commit()
}
