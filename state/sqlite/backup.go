package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"holon/internal/durable"
	"holon/state"
	"holon/state/ledger"
	"holon/state/sqlstore"
)

// Backup writes a consistent copy of the ledger at path to a file that does not exist, while other
// processes may use it: it reads one snapshot and takes no lock. Until it is done,
// the write-ahead log of a ledger in use grows.
func Backup(ctx context.Context, path, to string) error {
	if err := absent(to); err != nil {
		return err
	}
	return copyLedger(ctx, path, to, false, func() error { return absent(to) })
}

// Restore creates a ledger at path from a backup, with a new epoch, because clients
// remember a different history. What is left of another ledger there is in the way, CodeExists, unless it is replaced:
// then it is moved aside, as a ledger that can be opened, and aside is its path. A log of an earlier ledger would be
// taken for one of this, so it is moved with the ledger that it belongs to.
func Restore(ctx context.Context, backup, path string, replace bool) (aside string, err error) {
	path, err = filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("restore the ledger: %w", err)
	}
	lock, err := Lock(path)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if there := parts(path); len(there) > 0 && !replace {
		return "", &state.Error{Code: ledger.CodeExists, Param: "path",
			Message: "there is a ledger already: " + strings.Join(there, ", "),
			Hint:    "add --replace to have it moved aside, all of it together"}
	}
	makeRoom := func() error {
		if len(parts(path)) == 0 {
			return nil
		}
		aside = path + ".replaced-" + time.Now().UTC().Format("20060102T150405.000000Z")
		return moveAside(path, aside)
	}
	err = copyLedger(ctx, backup, path, true, makeRoom)
	return aside, err
}

// suffixes are those of the files of a ledger, in the order in which they are moved: SQLite takes no log for that of a
// ledger which it was not made for, so the ledger is the last.
var suffixes = []string{"-journal", "-shm", "-wal", ""}

// parts lists the files of the ledger that are at path.
func parts(path string) (there []string) {
	for _, suffix := range suffixes {
		if _, err := os.Lstat(path + suffix); err == nil {
			there = append(there, path+suffix)
		}
	}
	return there
}

// moveAside gives a ledger another path, with its log. The caller has its lock.
func moveAside(path, to string) error {
	for _, suffix := range suffixes {
		if err := os.Rename(path+suffix, to+suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("move the ledger aside: %w", err)
		}
	}
	return durable.SyncDir(filepath.Dir(path))
}

// copyLedger copies to a file next to the target, gives the copy another epoch if it is a restoration, and the name at
// the end, when makeRoom has found or made the place free.
func copyLedger(ctx context.Context, from, to string, restoration bool, makeRoom func() error) (err error) {
	from, err = filepath.Abs(from)
	if err == nil {
		to, err = filepath.Abs(to)
	}
	if err != nil {
		return fmt.Errorf("copy the ledger: %w", err)
	}
	if err := readableLedger(ctx, from); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(filepath.Dir(to), durable.TempPrefix) // 0700
	if err != nil {
		return fmt.Errorf("copy the ledger: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	temp := filepath.Join(dir, "ledger")
	if err := create(temp); err != nil {
		return err
	}
	if err := snapshot(ctx, from, temp); err != nil {
		return failed("copy the ledger", err)
	}
	if restoration {
		if err := renew(ctx, temp); err != nil {
			return err
		}
	}
	if err := syncFile(temp); err != nil {
		return fmt.Errorf("copy the ledger: %w", err)
	}
	if err := makeRoom(); err != nil {
		return err
	}
	// A link, because a rename would replace what came there meanwhile.
	if err := os.Link(temp, to); err != nil {
		return fmt.Errorf("copy the ledger: %w", err)
	}
	return durable.SyncDir(filepath.Dir(to))
}

// absent is an error when there is something at path.
func absent(path string) error {
	_, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return &state.Error{Code: ledger.CodeNotFound, Message: "the ledger cannot be copied there: " + err.Error(),
			Param: "path", Hint: "name a file in a directory that exists", Err: err}
	}
	return &state.Error{Code: ledger.CodeExists, Message: path + " exists", Param: "path", Hint: "move it away first"}
}

// readableLedger is an error when there is no ledger at path.
func readableLedger(ctx context.Context, path string) error {
	info, err := os.Stat(path)
	if err == nil && info.Size() == 0 {
		err = errors.New("it is empty")
	}
	if err != nil {
		return &state.Error{Code: ledger.CodeUnreadable, Message: "there is no ledger at " + path, Err: err}
	}
	_, err = identify(ctx, path)
	return err
}

// snapshot writes one snapshot of the ledger to an empty file.
func snapshot(ctx context.Context, from, to string) (err error) {
	db, err := dial(from, url.Values{"mode": {"ro"}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	_, err = db.ExecContext(ctx, "VACUUM INTO ?", to)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// renew gives a copy another epoch.
func renew(ctx context.Context, path string) (err error) {
	db, err := dial(path, url.Values{})
	if err != nil {
		return failed("open the copy", err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return sqlstore.Renew(ctx, db, dialect{})
}

func syncFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
