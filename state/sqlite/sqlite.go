// Package sqlite keeps the ledger in one SQLite file.
//
//	Open ─▶ lock, identify, create the schema ─▶ Store
//	Update ─▶ BEGIN IMMEDIATE on the only writer, fn, COMMIT ─▶ Changed
//	View   ─▶ a read transaction with its own snapshot
//
// The invariant: an acknowledged Update survives a loss of power, a refused one
// leaves no trace, and watchers are notified of committed changes alone. The process that
// holds the lock file is the only writer. Updates run one at a time, in no order
// that is promised.
//
// What is SQLite's own is in schema.sql, statements.go, open.go, errors.go and
// backup.go, and the retention; the rest is for any database behind database/sql.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"

	"github.com/gofrs/flock"

	"holon/state"
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
	lock           *flock.Flock
	statements     map[string]string // by the names of queries

	writer, reader *sql.DB
	watch          watch

	mu      sync.Mutex
	closed  bool
	running sync.WaitGroup // transactions
	close   sync.Once
	err     error // of Close
}

var _ ledger.Store = (*Store)(nil)

// Open opens the ledger, and creates it if there is no file. Errors have
// CodeLocked when another process has it open, and CodeUnreadable when the file
// is not a ledger, has a damaged header, or is of another version.
func Open(ctx context.Context, opts Options) (_ *Store, err error) {
	path, err := filepath.Abs(opts.Path)
	if err != nil {
		return nil, fmt.Errorf("open the ledger: %w", err)
	}
	lock, err := takeLock(path)
	if err != nil {
		return nil, err
	}
	s := &Store{path: path, lock: lock, statements: statements()}
	if err := s.open(ctx, opts.Log); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Store) open(ctx context.Context, log *slog.Logger) error {
	if err := create(s.path); err != nil {
		return err
	}
	is, err := identify(ctx, s.path)
	if err != nil {
		return err
	}
	if s.writer, err = dialWriter(s.path); err != nil {
		return failed("open the ledger", err)
	}
	if s.reader, err = dialReader(s.path); err != nil {
		return failed("open the ledger", err)
	}
	return s.update(ctx, func(t *tx) error {
		if is == 0 {
			if err := t.create(); err != nil {
				return err
			}
			if log != nil {
				log.Info("the ledger was created", "version", version)
			}
		}
		if s.epoch, err = t.meta("epoch"); err != nil {
			return err
		}
		if s.runtime, err = t.meta("runtime"); err != nil {
			return err
		}
		s.past, err = t.pastEpochs()
		return err
	})
}

// Epoch implements ledger.Store.
func (s *Store) Epoch() string { return s.epoch }

// RuntimeID implements ledger.Store.
func (s *Store) RuntimeID() string { return s.runtime }

// Changed implements ledger.Store.
func (s *Store) Changed(agentID string) <-chan struct{} { return s.watch.changed(agentID) }

// Update implements ledger.Store.
func (s *Store) Update(ctx context.Context, fn func(ledger.Tx) error) error {
	return s.update(ctx, func(t *tx) error { return fn(ledger.Tx{View: ledger.View{Rows: t}}) })
}

func (s *Store) update(ctx context.Context, fn func(*tx) error) error {
	var changed []string
	err := s.transaction(ctx, s.writer, func(t *tx) error {
		err := fn(t)
		if err == nil {
			err = ctx.Err()
		}
		if err == nil {
			err = t.commit()
		}
		changed = t.changed
		return err
	})
	if err == nil {
		s.watch.announce(changed)
	}
	return err
}

// View implements ledger.Store.
func (s *Store) View(ctx context.Context, fn func(ledger.View) error) (err error) {
	return s.transaction(ctx, s.reader, func(t *tx) error { return fn(ledger.View{Rows: t}) })
}

func (s *Store) transaction(ctx context.Context, db *sql.DB, fn func(*tx) error) error {
	if err := s.begin(); err != nil {
		return err
	}
	defer s.running.Done()
	return within(ctx, db, &tx{statements: s.statements}, fn)
}

// begin lets Close wait for a transaction.
func (s *Store) begin() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return &state.Error{Code: ledger.CodeLedgerEnded, Message: "the ledger was closed"}
	}
	s.running.Add(1)
	return nil
}

// Close implements ledger.Store.
func (s *Store) Close() error {
	s.close.Do(func() {
		s.mu.Lock()
		s.closed = true
		s.mu.Unlock()
		s.running.Wait()
		var errs []error
		// The last connection takes the write-ahead log into the file, which one that only reads cannot.
		for _, db := range []*sql.DB{s.reader, s.writer} {
			if db != nil { // nil: opening failed before
				errs = append(errs, db.Close())
			}
		}
		if err := errors.Join(append(errs, s.lock.Close())...); err != nil {
			s.err = fmt.Errorf("close the ledger: %w", err)
		}
	})
	return s.err
}
