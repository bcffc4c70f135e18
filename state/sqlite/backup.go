package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"

	"modernc.org/sqlite"

	"holon/internal/durable"
	"holon/state"
	"holon/state/ledger"
)

// backupPages is how much is copied between two looks at the context.
const backupPages = 1024

// Backup implements ledger.Store. The file must not exist.
func (s *Store) Backup(ctx context.Context, to string) error { return Backup(ctx, s.path, to) }

// Backup writes a consistent copy of the ledger at path to a new file, while other
// processes may use it: it reads one snapshot and takes no lock. Until it is done,
// the write-ahead log of a ledger in use grows.
func Backup(ctx context.Context, path, to string) error {
	return copyLedger(ctx, path, to, func(*conn) error { return nil })
}

// Restore creates a ledger at path from a backup, with a new epoch, because clients
// remember a different history. An existing ledger is not replaced: CodeExists.
func Restore(ctx context.Context, backup, path string) (err error) {
	path, err = filepath.Abs(path)
	if err != nil {
		return fmt.Errorf("restore the ledger: %w", err)
	}
	lock, err := takeLock(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	// A log of an earlier ledger would be taken for one of this.
	if err := absent(path + "-wal"); err != nil {
		return err
	}
	return copyLedger(ctx, backup, path, beginEpoch)
}

// copyLedger copies to a file next to the target, changes it there, and gives it
// the name at the end.
func copyLedger(ctx context.Context, from, to string, change func(*conn) error) (err error) {
	from, err = filepath.Abs(from)
	if err == nil {
		to, err = filepath.Abs(to)
	}
	if err != nil {
		return fmt.Errorf("copy the ledger: %w", err)
	}
	if err := errors.Join(absent(to), readableLedger(from)); err != nil {
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
	if err := copyPages(ctx, from, temp); err != nil {
		return failed("copy the ledger", err)
	}
	if err := finish(temp, change); err != nil {
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
func readableLedger(path string) error {
	info, err := os.Stat(path)
	if err == nil && info.Size() == 0 {
		err = errors.New("it is empty")
	}
	if err != nil {
		return &state.Error{Code: ledger.CodeUnreadable, Message: "there is no ledger at " + path, Err: err}
	}
	return identify(path)
}

// backuper is the driver's online copying.
type backuper interface {
	NewBackup(to string) (*sqlite.Backup, error)
}

// copyPages copies one snapshot.
func copyPages(ctx context.Context, from, to string) (err error) {
	c, err := dial(from, true, readerPragmas...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	// A transaction that has read holds its snapshot; without it every commit of
	// another connection would make the copy start again.
	if _, err := c.exec("BEGIN"); err != nil {
		return err
	}
	if _, err := version(c); err != nil {
		return err
	}
	source, ok := c.raw.(backuper)
	if !ok {
		return fmt.Errorf("the driver's connection is a %T", c.raw)
	}
	copying, err := source.NewBackup("file:" + (&url.URL{Path: to}).EscapedPath())
	if err != nil {
		return err
	}
	for more := true; more && err == nil; {
		if err = ctx.Err(); err == nil {
			more, err = copying.Step(backupPages)
		}
	}
	return errors.Join(err, copying.Finish())
}

// finish makes a copy a single durable file.
func finish(path string, change func(*conn) error) error {
	c, err := dial(path, false, "synchronous(full)")
	if err != nil {
		return failed("open the copy", err)
	}
	err = change(c)
	if err == nil {
		err = failed("empty the log of the copy", c.script("PRAGMA wal_checkpoint(TRUNCATE)"))
	}
	if err := errors.Join(err, c.close()); err != nil { // the last one to close removes the log
		return err
	}
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("copy the ledger: %w", err)
	}
	return errors.Join(f.Sync(), f.Close())
}
