// Package sqlstore keeps the ledger in a database behind database/sql.
//
//	New    ─▶ the schema of a new ledger, its epoch ─▶ Store
//	Update ─▶ BEGIN on the only connection that writes, fn, COMMIT ─▶ Changed
//	View   ─▶ a read transaction with its own snapshot
//
// The invariant: an acknowledged Update survives a loss of power, a refused one
// leaves no trace, and watchers are notified of committed changes alone. Updates run one
// at a time, in no order that is promised. That no other process writes meanwhile is the
// business of the package that opens the database.
//
// What one database does in its own way is its [Dialect], in state/sqlite and state/postgres.
package sqlstore

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"holon/state"
	"holon/state/ledger"
)

// Config is an open database.
type Config struct {
	Writer   *sql.DB // with one connection, so that updates run one at a time
	Reader   *sql.DB
	Snapshot *sql.TxOptions // of a transaction of Reader that reads one snapshot
	Patience time.Duration  // how long a transaction may take to begin; 0: as long as the caller likes
	Dialect  Dialect
	Own      map[string]string // statements that replace those of Statements
	Schema   string            // that makes the tables; "" when they are there
	Origin   string            // of the history that the database has; with another one than before begins an epoch
	Release  func() error      // called when both are closed
}

// Store is a ledger.Store in a database.
type Store struct {
	db             Config
	epoch, runtime string
	past           map[string][]pastEpoch // by agent
	statements     map[string]string      // by the names of queries
	texts          sync.Map
	watch          watch

	mu      sync.Mutex
	closed  bool
	running sync.WaitGroup // transactions
	close   sync.Once
	err     error // of Close
}

var _ ledger.Store = (*Store)(nil)

// New returns the ledger in a database, which the Store closes, also when there is an error.
func New(ctx context.Context, c Config) (*Store, error) {
	s := &Store{db: c, statements: Statements()}
	maps.Copy(s.statements, c.Own)
	if err := s.update(ctx, s.load); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// load reads what the ledger says about itself, and makes a new ledger.
func (s *Store) load(t *tx) (err error) {
	if s.db.Schema != "" {
		if _, err := t.exec("", s.db.Schema); err != nil {
			return t.failed("create the ledger", err)
		}
	}
	if s.epoch, err = t.meta("epoch"); err == nil && s.epoch == "" {
		err = t.name()
	}
	if err == nil {
		err = t.follow(s.db.Origin)
	}
	for key, into := range map[string]*string{"epoch": &s.epoch, "runtime": &s.runtime} {
		if err == nil {
			*into, err = t.meta(key)
		}
	}
	if err == nil {
		s.past, err = t.pastEpochs()
	}
	return err
}

// name names a new ledger.
func (t *tx) name() error {
	if err := t.setMeta("epoch", rand.Text()); err != nil {
		return err
	}
	return t.setMeta("runtime", "rt_"+strings.ToLower(rand.Text()))
}

// Epoch implements ledger.Store.
func (s *Store) Epoch() string { return s.epoch }

// RuntimeID implements ledger.Store.
func (s *Store) RuntimeID() string { return s.runtime }

// Changed implements ledger.Store.
func (s *Store) Changed(agentID string) <-chan struct{} { return s.watch.changed(agentID) }

// Announce wakes the watchers of agents that another process has changed, or of all agents when none is named.
func (s *Store) Announce(agents ...string) { s.watch.announce(agents) }

// Update implements ledger.Store.
func (s *Store) Update(ctx context.Context, fn func(ledger.Tx) error) error {
	return s.update(ctx, func(t *tx) error { return fn(ledger.Tx{View: ledger.View{Rows: t}}) })
}

func (s *Store) update(ctx context.Context, fn func(*tx) error) error {
	var changed []string
	err := s.transaction(ctx, s.db.Writer, nil, func(t *tx) error {
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
	if err == nil && len(changed) > 0 {
		s.watch.announce(changed)
	}
	return err
}

// View implements ledger.Store.
func (s *Store) View(ctx context.Context, fn func(ledger.View) error) (err error) {
	return s.transaction(ctx, s.db.Reader, s.db.Snapshot, func(t *tx) error { return fn(ledger.View{Rows: t}) })
}

func (s *Store) transaction(ctx context.Context, db *sql.DB, opts *sql.TxOptions, fn func(*tx) error) error {
	if err := s.begin(); err != nil {
		return err
	}
	defer s.running.Done()
	return within(ctx, db, opts, &tx{dialect: s.db.Dialect, statements: s.statements, texts: &s.texts,
		patience: s.db.Patience}, fn)
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
		// The last connection of SQLite takes the write-ahead log into the file, which one that only reads cannot.
		for _, db := range []*sql.DB{s.db.Reader, s.db.Writer} {
			errs = append(errs, db.Close())
		}
		if err := errors.Join(append(errs, s.db.Release())...); err != nil {
			s.err = fmt.Errorf("close the ledger: %w", err)
		}
	})
	return s.err
}
