package sqlite

import (
	"context"
	"crypto/rand"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/gofrs/flock"

	"holon/internal/durable"
	"holon/state"
	"holon/state/ledger"
)

// Pragmas of a new connection. Incremental vacuum must be chosen while the file is
// empty.
var (
	writerPragmas = []string{
		"auto_vacuum(incremental)", "journal_mode(wal)", "synchronous(full)", "foreign_keys(1)",
		"busy_timeout(5000)", "journal_size_limit(16777216)", "trusted_schema(0)", "cell_size_check(1)",
	}
	readerPragmas = []string{"query_only(1)", "busy_timeout(5000)", "trusted_schema(0)", "cell_size_check(1)"}
)

// applicationID marks a file as a ledger: "Holn".
const applicationID = 0x486f6c6e

//go:embed migrations/*.sql
var migrations embed.FS

// takeLock takes the lock file of a ledger for this process, until it ends or closes
// the lock. The ledger itself must not be locked: closing a descriptor of it would
// drop SQLite's own locks.
func takeLock(path string) (*flock.Flock, error) {
	lock := flock.New(path+".lock", flock.SetFlag(os.O_RDWR|os.O_CREATE), flock.SetPermissions(0o600))
	held, err := lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("lock the ledger: %w", err)
	}
	if !held {
		return nil, &state.Error{
			Code: ledger.CodeLocked, Message: fmt.Sprintf("the ledger %s is in use by %s", path, holder(lock.Path())),
			Hint: "use the holon serve that runs, or stop it: holon daemon stop",
		}
	}
	// The number is for people; only the lock counts.
	if err := os.WriteFile(lock.Path(), []byte(strconv.Itoa(os.Getpid())+"\n"), 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("lock the ledger: %w", err), lock.Close())
	}
	return lock, nil
}

// holder says who wrote its number into a lock.
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

// identify reports an error unless the file is empty or a ledger that this version
// can read. It never changes a foreign file.
func identify(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("open the ledger: %w", err)
	}
	if info.Size() == 0 {
		return nil
	}
	c, err := dial(path, false, "query_only(1)", "busy_timeout(5000)")
	if err != nil {
		return failed("open the ledger", err)
	}
	var id, version, tables int64
	err = c.query(func(r *row) error { id, version, tables = r.integer(), r.integer(), r.integer(); return nil },
		"SELECT application_id, user_version, (SELECT count(*) FROM sqlite_schema) FROM pragma_application_id, "+
			"pragma_user_version")
	known, globErr := scripts()
	if err := errors.Join(err, globErr, c.close()); err != nil {
		return failed("read the ledger's header", err)
	}
	if id != applicationID && tables > 0 {
		return &state.Error{Code: ledger.CodeUnreadable, Message: path + " is a database, but not a ledger of holon",
			Hint: "move it away, or choose another HOLON_HOME"}
	}
	if version > int64(len(known)) {
		return &state.Error{
			Code: ledger.CodeUnreadable, Message: fmt.Sprintf("the ledger has version %d and this holon knows %d",
				version, len(known)),
			Hint: "use the newer holon that wrote it, or restore a backup made before",
		}
	}
	return nil
}

// scripts are the names of the migrations, numbered from 1 on.
func scripts() ([]string, error) { return fs.Glob(migrations, "migrations/*.sql") }

// prepareFile brings the tables up to date and returns the epoch and the id of the runtime.
func prepareFile(ctx context.Context, c *conn, log *slog.Logger) (epoch, runtime string, err error) {
	if err := migrate(ctx, c, log); err != nil {
		return "", "", err
	}
	for name, id := range map[string]string{"epoch": rand.Text(), "runtime": "rt_" + strings.ToLower(rand.Text())} {
		if _, err := c.exec("INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT DO NOTHING", name, id); err != nil {
			return "", "", failed("name the ledger", err)
		}
	}
	err = c.query(func(r *row) error { epoch, runtime = r.text(), r.text(); return nil },
		"SELECT (SELECT value FROM meta WHERE key = 'epoch'), (SELECT value FROM meta WHERE key = 'runtime')")
	return epoch, runtime, failed("read the ledger's names", err)
}

// migrate runs the scripts that the file has not seen, each in a transaction of
// its own together with its number.
func migrate(ctx context.Context, c *conn, log *slog.Logger) error {
	names, err := scripts()
	if err != nil {
		return fmt.Errorf("list the migrations: %w", err)
	}
	have, err := version(c)
	if err != nil {
		return failed("read the ledger's version", err)
	}
	for n := have; n < len(names); n++ {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("migrate the ledger: %w", err)
		}
		script, err := migrations.ReadFile(names[n])
		if err != nil {
			return fmt.Errorf("read a migration: %w", err)
		}
		if err := step(c, string(script), n+1); err != nil {
			return failed(fmt.Sprintf("migrate the ledger to version %d", n+1), err)
		}
		log.Info("the ledger was migrated", "version", n+1)
	}
	return nil
}

func version(c *conn) (n int, err error) {
	err = c.query(func(r *row) error {
		n = int(r.integer())
		return nil
	}, "SELECT user_version FROM pragma_user_version")
	return n, err
}

// step runs one migration.
func step(c *conn, script string, version int) error {
	if err := c.script("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	err := c.script(script)
	if err == nil {
		err = c.script(fmt.Sprintf("PRAGMA application_id = %d; PRAGMA user_version = %d", applicationID, version))
	}
	if err == nil {
		err = c.script("COMMIT")
	}
	if err != nil {
		_ = c.script("ROLLBACK") // SQLite may have done it
	}
	return err
}
