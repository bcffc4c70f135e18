package postgres

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"holon/internal/procfs"
	"holon/state"
	"holon/state/ledger"
)

// How long a process may be silent before others take its agents, and how often it is not.
const (
	leaseTime  = 15 * time.Second
	renewEvery = leaseTime / 3
)

// The key of the advisory lock of what writes, "Holn". Earlier versions hold it all the time.
const lockClass, lockObject = 0x486f6c6e, 1

// holder is this process among those that share a ledger.
type holder struct {
	id, host, process string
	home, address     string
	db, reader        *sql.DB // db writes
	log               *slog.Logger

	lost chan struct{}
	lose sync.Once

	mu      sync.Mutex
	epoch   string           // of the ledger since it was opened; "" before
	held    map[string]int64 // agents, and the fences of their leases
	renewed bool             // since Give looked
	others  int              // processes that share the ledger, when they were last counted
	why     error            // Problem
}

func newHolder(o Options) (*holder, error) {
	h := &holder{id: rand.Text(), home: o.Home, address: o.Address, log: o.Log, lost: make(chan struct{}),
		held: make(map[string]int64)}
	if h.log == nil {
		h.log = slog.New(slog.DiscardHandler)
	}
	self, err := procfs.Identify(os.Getpid())
	if err != nil {
		return nil, err
	}
	boot, err := procfs.BootID()
	if err != nil {
		return nil, err
	}
	space, _ := os.Readlink("/proc/self/ns/pid") // a number of a process is of one alone
	h.host = boot + " " + space
	text, err := json.Marshal(self)
	h.process = string(text)
	return h, err
}

// connected makes a new connection one that may write: what one before it may still have running is ended, and the
// history of the database has to be that with which the ledger was opened.
func (h *holder) connected(ctx context.Context, conn *pgx.Conn) error {
	if _, err := conn.Exec(ctx, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "+
		"WHERE application_name = current_setting('application_name') AND pid <> pg_backend_pid()"); err != nil {
		return err
	}
	// The promise of an Update does not depend on what the server has as its default.
	if _, err := conn.Exec(ctx, "SELECT set_config('synchronous_commit', 'on', false) "+
		"WHERE current_setting('synchronous_commit') = 'off'"); err != nil {
		return err
	}
	return h.sameHistory(ctx, conn)
}

// sameHistory is an error when the database has another history than the one with which the ledger was opened.
func (h *holder) sameHistory(ctx context.Context, conn *pgx.Conn) error {
	h.mu.Lock()
	epoch := h.epoch
	h.mu.Unlock()
	if epoch == "" {
		return nil
	}
	var same bool
	err := conn.QueryRow(ctx, "SELECT (SELECT value FROM meta WHERE key = 'epoch') = $1 AND "+
		"(SELECT value FROM meta WHERE key = 'origin') = "+origin, epoch).Scan(&same)
	if err == nil && !same {
		h.lose.Do(func() { close(h.lost) })
		err = &state.Error{Code: ledger.CodeLocked, Message: "the database was restored, or failed over",
			Hint: "start this holon serve again"}
	}
	return err
}

// trouble notes what Problem returns.
func (h *holder) trouble(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.why = err
}

// Problem implements ledger.Leases.
func (h *holder) Problem() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.why
}

// begins waits until no other process writes, and returns the id of the transaction if this one may, and
// whether others share the ledger.
const begins = "SELECT xact, shared FROM holon_begin($1, $2, $3)"

// begin waits until no other process writes, and refuses one that is no holder any more.
func (h *holder) begin(ctx context.Context, t *sql.Tx) error {
	var id *string
	var shared *bool
	err := t.QueryRowContext(ctx, begins, lockClass, lockObject, h.id).Scan(&id, &shared)
	if err == nil && id == nil {
		err = h.ended()
	}
	return err
}

// ended is the error of what this process may not write any more.
func (h *holder) ended() error {
	h.lose.Do(func() { close(h.lost) })
	return &state.Error{Code: ledger.CodeLeaseLost,
		Message: "this holon serve was silent for too long, and others run its agents; nothing was written",
		Hint:    "start this holon serve again"}
}

// within runs fn in a transaction of its own, while no other process writes.
func (h *holder) within(ctx context.Context, fn func(*sql.Tx) error) error {
	t, err := h.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer t.Rollback()
	if err = h.begin(ctx, t); err == nil {
		err = fn(t)
	}
	if err == nil {
		err = t.Commit()
	}
	return err
}

// join makes this process a holder, unless others use the ledger with another home or store: agents have files there.
func (h *holder) join(ctx context.Context, conn *pgx.Conn) error {
	if err := h.evict(ctx, conn, true); err != nil {
		return err
	}
	var other string
	err := conn.QueryRow(ctx, "SELECT home FROM holders WHERE home <> $1 LIMIT 1", h.home).Scan(&other)
	if err == nil {
		return &state.Error{Code: ledger.CodeLocked,
			Message: fmt.Sprintf("a holon serve with its files in %.200q has the ledger in this database open", other),
			Hint:    "let all of them have one store, or one HOLON_HOME on a file system that they share, or stop the other one"}
	}
	if errors.Is(err, pgx.ErrNoRows) {
		// The lock waits for a process that writes now: it would not tell this one of its commit.
		_, err = conn.Exec(ctx, "WITH alone AS (SELECT pg_advisory_xact_lock($1, $2)) INSERT INTO holders "+
			"SELECT $3, $4, $5, $6, $7, clock_timestamp() + $8 FROM alone", lockClass, lockObject, h.id, h.host, h.process,
			h.home, h.address, leaseTime)
	}
	return err
}

// leave ends the holding of a process that has ended all that it ran.
func (h *holder) leave(config *pgx.ConnConfig) error {
	ctx, cancel := context.WithTimeout(context.Background(), connectWithin) // also after the end of the process's context
	defer cancel()
	conn, err := pgx.ConnectConfig(ctx, config)
	if err == nil {
		_, err = conn.Exec(ctx, "DELETE FROM holders WHERE id = $1", h.id)
		err = errors.Join(err, conn.Close(ctx))
	}
	if err != nil {
		h.log.Warn("others take the agents of this holon serve a moment later", "err", err)
	}
	return nil
}

// renew says that this process lives, and reports whether it did in time: after an outage of the database all are
// late, and none of them takes the agents of another before that one could renew, too.
func (h *holder) renew(ctx context.Context, conn *pgx.Conn) (inTime bool, err error) {
	var others int
	err = conn.QueryRow(ctx, "WITH old AS (SELECT id, expires_at > clock_timestamp() AS in_time FROM holders "+
		"WHERE id = $1 FOR UPDATE) UPDATE holders SET expires_at = clock_timestamp() + $2 FROM old "+
		"WHERE holders.id = old.id RETURNING in_time, (SELECT count(*) FROM holders) - 1", h.id, leaseTime).Scan(&inTime,
		&others)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, h.ended()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if err == nil {
		h.others, h.renewed = others, true
	}
	return inTime, err
}

// evict removes the holders that are gone: those of this host whose process has ended, and with expired those that were
// silent. What they have begun to write is over then, and they begin nothing more.
func (h *holder) evict(ctx context.Context, conn *pgx.Conn, expired bool) error {
	rows, err := conn.Query(ctx, "SELECT id, host, process, expires_at < clock_timestamp() FROM holders "+
		"WHERE id <> $1", h.id)
	if err != nil {
		return err
	}
	type other struct {
		ID, Host, Process string
		Expired           bool
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[other])
	for _, o := range list {
		var p procfs.Process
		gone := o.Host == h.host && json.Unmarshal([]byte(o.Process), &p) == nil && !p.Running()
		if !gone && (!expired || !o.Expired) {
			continue
		}
		h.log.Warn("a holon serve that shares the ledger is gone", "holder", o.ID, "ended", gone)
		_, failed := conn.Exec(ctx, "WITH alone AS (SELECT pg_advisory_xact_lock($1, $2)) DELETE FROM holders "+
			"USING alone WHERE id = $3 AND ($4 OR expires_at < clock_timestamp())", lockClass, lockObject, o.ID, gone)
		err = errors.Join(err, failed)
	}
	return err
}
