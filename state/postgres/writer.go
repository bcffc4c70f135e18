package postgres

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"holon/state"
	"holon/state/ledger"
)

// writer is the one session that may change the ledger, on one connection after another.
type writer struct {
	name string // its application_name

	mu    sync.Mutex
	token string // by which the ledger names its last holder; "" until it is claimed
}

// The key of the advisory lock, "Holn".
const lockClass, lockObject = 0x486f6c6e, 1

// seize makes a new connection that of the writer: it waits a moment for the lock, and fails when another daemon has
// it, or has had it since this one claimed the ledger.
func (w *writer) seize(ctx context.Context, conn *pgx.Conn) error {
	w.mu.Lock()
	token := w.token
	w.mu.Unlock()
	// The server may not know yet that the connection before this one is gone.
	if token != "" {
		if _, err := conn.Exec(ctx, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "+
			"WHERE application_name = $1 AND pid IN (SELECT pid FROM pg_locks WHERE locktype = 'advisory' "+
			"AND classid = $2 AND objid = $3)", w.name, lockClass, lockObject); err != nil {
			return err
		}
	}
	if _, err := conn.Exec(ctx, "SELECT pg_advisory_lock($1, $2)", lockClass, lockObject); err != nil {
		if e, ok := errors.AsType[*pgconn.PgError](err); ok && e.Code == lockNotAvailable {
			return locked("another process has the ledger in this database open")
		}
		return err
	}
	// The promise of an Update does not depend on what the server has as its default.
	if _, err := conn.Exec(ctx, "SELECT set_config('synchronous_commit', 'on', false) "+
		"WHERE current_setting('synchronous_commit') = 'off'"); err != nil || token == "" {
		return err
	}
	var same bool
	err := conn.QueryRow(ctx, "SELECT value = $1 || ' ' || "+origin+" FROM meta WHERE key = 'holder'", token).Scan(&same)
	if err == nil && !same {
		err = locked("another process had the ledger open meanwhile, or the database was restored")
	}
	return err
}

func locked(why string) error {
	return &state.Error{Code: ledger.CodeLocked, Message: why,
		Hint: "one holon serve uses a database: stop the other one, then start this one again"}
}

// claim writes that the ledger is this process's.
func (w *writer) claim(ctx context.Context, db *sql.DB) error {
	token := rand.Text()
	_, err := db.ExecContext(ctx, "INSERT INTO meta (key, value) VALUES ('holder', $1 || ' ' || "+origin+
		") ON CONFLICT (key) DO UPDATE SET value = excluded.value", token)
	if err == nil {
		w.mu.Lock()
		w.token = token
		w.mu.Unlock()
	}
	return err
}
