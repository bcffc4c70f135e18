package sqlite

import (
	"context"
	"database/sql"
	_ "embed" // the schema
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/gofrs/flock"
	_ "modernc.org/sqlite" // the driver

	"holon/internal/durable"
	"holon/state"
	"holon/state/ledger"
)

// dial returns a pool of connections to the file at an absolute path, which opens the first when it is needed. The
// PRAGMAs are run in their order on each connection.
func dial(path string, parameters url.Values, pragmas ...string) (*sql.DB, error) {
	parameters["_pragma"] = append(pragmas, "busy_timeout(5000)", "trusted_schema(0)", "cell_size_check(1)")
	return sql.Open("sqlite", "file:"+(&url.URL{Path: path}).EscapedPath()+"?"+parameters.Encode())
}

// dialWriter returns the pool of the only connection that writes. Incremental vacuum must be chosen while the file is
// empty.
func dialWriter(path string) (*sql.DB, error) {
	db, err := dial(path, url.Values{"_txlock": {"immediate"}}, "auto_vacuum(incremental)", "journal_mode(wal)",
		"synchronous(full)", "foreign_keys(1)", "journal_size_limit(16777216)")
	if err == nil {
		db.SetMaxOpenConns(1)
	}
	return db, err
}

// readers is how many Views run at once.
const readers = 4

func dialReader(path string) (*sql.DB, error) {
	db, err := dial(path, url.Values{"mode": {"ro"}}, "query_only(1)")
	if err == nil {
		db.SetMaxOpenConns(readers)
		db.SetMaxIdleConns(readers)
	}
	return db, err
}

// applicationID marks a file as a ledger, "Holn", and version is that of its schema.
const (
	applicationID = 0x486f6c6e
	version       = 4
)

//go:embed schema.sql
var schema string

// Lock takes the lock file of a ledger for this process, until it ends or closes
// the lock. The ledger itself must not be locked: closing a descriptor of it would
// drop SQLite's own locks.
func Lock(path string) (*flock.Flock, error) {
	lock, err := take(path, (*flock.Flock).TryLock)
	if err != nil {
		return nil, err
	}
	// The number is for people; only the lock counts.
	if err := os.WriteFile(lock.Path(), []byte(strconv.Itoa(os.Getpid())+"\n"), 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("lock the ledger: %w", err), lock.Close())
	}
	return lock, nil
}

// Share keeps others from a ledger that is not to be used, as long as this process, or another one that shares it,
// runs.
func Share(path string) (*flock.Flock, error) { return take(path, (*flock.Flock).TryRLock) }

func take(path string, try func(*flock.Flock) (bool, error)) (*flock.Flock, error) {
	lock := flock.New(path+".lock", flock.SetFlag(os.O_RDWR|os.O_CREATE), flock.SetPermissions(0o600))
	held, err := try(lock)
	if err != nil {
		return nil, fmt.Errorf("lock the ledger: %w", err)
	}
	if !held {
		return nil, &state.Error{
			Code: ledger.CodeLocked, Message: fmt.Sprintf("the ledger %s is in use by %s", path, holder(lock.Path())),
			Hint: "use the holon serve that runs, or stop it: holon daemon stop",
		}
	}
	return lock, nil
}

// holder names the process that wrote its number into a lock.
func holder(lock string) string {
	text, err := os.ReadFile(lock)
	pid, numErr := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || numErr != nil {
		return "another process"
	}
	return fmt.Sprintf("process %d", pid)
}

// create creates the file with mode 0600; SQLite gives its companion files the same
// mode.
func create(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("make the ledger: %w", err)
	}
	return errors.Join(f.Close(), durable.SyncDir(filepath.Dir(path)))
}

// identify returns the version of the ledger at path, 0 when there is none yet. What is not a ledger of this version
// is an error, and is never changed.
func identify(ctx context.Context, path string) (is int, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, fmt.Errorf("open the ledger: %w", err)
	}
	if info.Size() == 0 {
		return 0, nil
	}
	db, err := dial(path, url.Values{}, "query_only(1)")
	if err != nil {
		return 0, failed("open the ledger", err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	var id, tables int
	err = db.QueryRowContext(ctx, "SELECT application_id, user_version, (SELECT count(*) FROM sqlite_schema) "+
		"FROM pragma_application_id, pragma_user_version").Scan(&id, &is, &tables)
	switch {
	case err != nil:
		return 0, failed("read the ledger's header", err)
	case tables == 0: // a process ended before it made any
		return 0, nil
	case id != applicationID:
		return 0, &state.Error{Code: ledger.CodeUnreadable, Message: path + " is a database, but not a ledger of holon",
			Hint: "move it away, or choose another HOLON_HOME"}
	case is != version:
		return 0, &state.Error{Code: ledger.CodeUnreadable,
			Message: fmt.Sprintf("the ledger has version %d, and this holon reads version %d", is, version),
			Hint:    "use the holon that wrote it, or restore a backup made by this one: holon daemon restore --replace FILE"}
	}
	return is, nil
}
