// Package sqlite keeps the ledger in one SQLite file.
//
//	Open ─▶ lock, identify ─▶ sqlstore.Store
//
// The process that holds the lock file is the only writer. Backup copies a ledger that is in use, and Restore makes
// one of the copy. What is not SQLite's own is in package sqlstore.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"

	"github.com/gofrs/flock"

	"holon/state/sqlstore"
)

// Options of a ledger.
type Options struct {
	Path string       // of the file; its directory exists. The lock is <Path>.lock
	Log  *slog.Logger // nil: nothing is logged
}

// Open opens the ledger, and creates it if there is no file. Errors have
// CodeLocked when another process has it open, and CodeUnreadable when the file
// is not a ledger, has a damaged header, or is of another version.
func Open(ctx context.Context, opts Options) (*sqlstore.Store, error) {
	s, _, err := open(ctx, opts)
	return s, err
}

func open(ctx context.Context, opts Options) (s *sqlstore.Store, writer *sql.DB, err error) {
	path, err := filepath.Abs(opts.Path)
	if err != nil {
		return nil, nil, fmt.Errorf("open the ledger: %w", err)
	}
	lock, err := Lock(path)
	if err != nil {
		return nil, nil, err
	}
	db, isNew, err := connect(ctx, path, lock)
	if err != nil {
		return nil, nil, errors.Join(err, lock.Close())
	}
	s, err = sqlstore.New(ctx, db)
	if err == nil && isNew && opts.Log != nil {
		opts.Log.Info("the ledger was created", "version", version)
	}
	return s, db.Writer, err
}

// connect returns the pools of the file, which connect when they are used.
func connect(ctx context.Context, path string, lock *flock.Flock) (c sqlstore.Config, isNew bool, err error) {
	if err := create(path); err != nil {
		return c, false, err
	}
	is, err := identify(ctx, path)
	if err != nil {
		return c, false, err
	}
	c = sqlstore.Config{Dialect: dialect{}, Release: lock.Close}
	if is == 0 {
		c.Schema = schema + fmt.Sprintf("PRAGMA application_id = %d; PRAGMA user_version = %d", applicationID, version)
	}
	if c.Writer, err = dialWriter(path); err != nil {
		return c, false, failed("open the ledger", err)
	}
	if c.Reader, err = dialReader(path); err != nil {
		return c, false, failed("open the ledger", errors.Join(err, c.Writer.Close()))
	}
	return c, is == 0, nil
}
