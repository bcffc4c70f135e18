package sqlite

import (
	"context"
	"fmt"
	"slices"
	"sync"
)

// writer is the only connection that writes. Updates pass it on as a baton: who
// holds it runs its function and gives it to the next in line, all within one
// transaction; the last in line commits for all of them. Without company that is
// one transaction for one update; in a crowd they share the wait for the disk.
type writer struct {
	watch *watch

	mu     sync.Mutex
	held   bool
	line   []*ticket
	closed bool

	// What follows belongs to the holder of the baton.
	conn  *conn
	open  bool      // a transaction is
	batch []*update // in it
}

// ticket is a place in the line.
type ticket struct{ turn chan struct{} }

// update is one that ran and waits for the commit.
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
	// The wait is for the disk and the others of the batch, and short. The outcome
	// is that of the commit, whatever ctx says by then.
	return <-u.done
}

// run runs fn and passes the baton on, whatever fn does.
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

// abandon ends the transaction with nothing kept and tells the batch.
func (w *writer) abandon(cause error) {
	w.rollback()
	w.answer(cause)
}

// rollback ends a transaction that SQLite may have ended by itself.
func (w *writer) rollback() {
	_, _ = w.conn.exec("ROLLBACK")
	w.open = false
}

// enter waits for the baton.
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
		w.leave() // it came in the same moment, and the batch waits for it
	}
	return fmt.Errorf("wait for the ledger's writer: %w", ctx.Err())
}

// join takes the baton, or a place in the line. w.mu is held.
func (w *writer) join() *ticket {
	if !w.held {
		w.held = true
		return nil
	}
	t := &ticket{turn: make(chan struct{})}
	w.line = append(w.line, t)
	return t
}

// quit leaves the line. It reports false when the baton was given already.
func (w *writer) quit(t *ticket) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := slices.Index(w.line, t)
	if i < 0 {
		return false
	}
	w.line = slices.Delete(w.line, i, i+1)
	return true
}

// leave passes the baton on; a batch that is complete is committed before.
func (w *writer) leave() {
	if len(w.batch) < maxBatch && w.pass() {
		return
	}
	w.commit()
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.line) == 0 {
		w.held = false
		return
	}
	w.next()
}

// pass gives the baton to the next in line, if there is one.
func (w *writer) pass() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.line) == 0 {
		return false
	}
	w.next()
	return true
}

// next gives the baton to the first in line. w.mu is held.
func (w *writer) next() {
	t := w.line[0]
	w.line = slices.Delete(w.line, 0, 1)
	close(t.turn)
}

// commit ends the transaction, tells whoever watches, and answers the batch.
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

// close lets those in line finish and closes the connection.
func (w *writer) close() error {
	w.mu.Lock()
	w.closed = true
	t := w.join()
	w.mu.Unlock()
	if t != nil {
		<-t.turn
	}
	w.commit()
	return w.conn.close() // the baton is kept for ever
}
