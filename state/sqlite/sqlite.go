// Package sqlite keeps the ledger in one SQLite file.
//
//	Open ─▶ lock, identify, migrate ─▶ Store
//	Update ─▶ BEGIN, fn, then the next update, or COMMIT and answer all ─▶ Changed
//	View   ─▶ a read transaction with its own snapshot
//
// The invariant: an acknowledged Update survives a loss of power, a refused one
// leaves no trace, and watchers hear only of committed changes. The process that
// holds the lock file is the only writer.
//
// Updates run one at a time, in the order of arrival. They may return in another
// order.
package sqlite

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"

	"github.com/gofrs/flock"

	"holon/state/ledger"
)

// Options of a Store.
type Options struct {
	Path string       // of the file; its directory exists. The lock is <Path>.lock
	Log  *slog.Logger // nil: nothing is logged
}

// Store is a ledger.Store in a file.
type Store struct {
	path           string
	epoch, runtime string
	past           map[string][]pastEpoch // by agent
	log            *slog.Logger
	lock           *flock.Flock

	writer  *writer
	watch   watch
	readers chan *conn // nil: not opened yet
	pruned  cursors    // used within updates

	ended chan struct{} // closed by Close
	close sync.Once
	err   error // of Close
}

var _ ledger.Store = (*Store)(nil)

// readers is how many Views run at once.
const readers = 4

// Open opens the ledger, and creates it if there is no file. Errors have
// CodeLocked when another process has it open, and CodeUnreadable when the file
// is not a ledger, has a damaged header, or was written by a newer version. The
// cost does not depend on the size of the file.
func Open(ctx context.Context, opts Options) (_ *Store, err error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("open the ledger: %w", err)
	}
	path, err := filepath.Abs(opts.Path)
	if err != nil {
		return nil, fmt.Errorf("open the ledger: %w", err)
	}
	log := opts.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	lock, err := takeLock(path)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, lock.Close())
		}
	}()
	if err := create(path); err != nil {
		return nil, err
	}
	if err := identify(path); err != nil {
		return nil, err
	}
	c, err := dial(path, false, writerPragmas...)
	if err != nil {
		return nil, failed("open the ledger", err)
	}
	epoch, runtime, err := prepareFile(ctx, c, log)
	if err != nil {
		return nil, errors.Join(err, c.close())
	}
	past, err := readPast(c)
	if err != nil {
		return nil, errors.Join(err, c.close())
	}
	s := &Store{
		path:    path,
		epoch:   epoch,
		past:    past,
		runtime: runtime,
		log:     log,
		lock:    lock,
		readers: make(chan *conn, readers),
		pruned:  cursors{},
		ended:   make(chan struct{}),
	}
	s.writer = newWriter(c, &s.watch)
	for range readers {
		s.readers <- nil
	}
	return s, nil
}

// Epoch implements ledger.Store.
func (s *Store) Epoch() string { return s.epoch }

// RuntimeID implements ledger.Store.
func (s *Store) RuntimeID() string { return s.runtime }

// Changed implements ledger.Store.
func (s *Store) Changed(agentID string) <-chan struct{} { return s.watch.changed(agentID) }

// Update implements ledger.Store.
func (s *Store) Update(ctx context.Context, fn func(ledger.Tx) error) error {
	return s.writer.update(ctx, func(t *tx) error { return fn(t) })
}

// View implements ledger.Store.
func (s *Store) View(ctx context.Context, fn func(ledger.View) error) (err error) {
	c, err := s.reader(ctx)
	if err != nil {
		return err
	}
	v := &view{ctx: ctx, conn: c}
	defer func() {
		v.conn = nil // fn may have kept the View
		_, endErr := c.exec("ROLLBACK")
		s.readers <- c
		if err == nil {
			err = failed("end the reading of the ledger", endErr)
		}
	}()
	if _, err := c.exec("BEGIN"); err != nil {
		return failed("begin to read the ledger", err)
	}
	return fn(v)
}

// reader takes a connection for reading; the caller returns it to s.readers.
func (s *Store) reader(ctx context.Context) (*conn, error) {
	var c *conn
	select {
	case <-s.ended:
		return nil, ended()
	default:
	}
	select {
	case <-s.ended:
		return nil, ended()
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for a reader of the ledger: %w", ctx.Err())
	case c = <-s.readers:
	}
	if c != nil {
		return c, nil
	}
	c, err := dial(s.path, true, readerPragmas...)
	if err != nil {
		s.readers <- nil
		return nil, failed("open a reader of the ledger", err)
	}
	return c, nil
}

// Close implements ledger.Store.
func (s *Store) Close() error {
	s.close.Do(func() {
		close(s.ended)
		s.writer.finish()
		var errs []error
		for range readers {
			errs = append(errs, (<-s.readers).close())
		}
		// The last connection takes the write-ahead log into the file, which one that only reads can't.
		errs = append(errs, s.writer.conn.close(), s.lock.Close())
		if err := errors.Join(errs...); err != nil {
			s.err = fmt.Errorf("close the ledger: %w", err)
		}
	})
	return s.err
}
