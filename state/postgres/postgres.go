// Package postgres keeps the ledger in a PostgreSQL database.
//
//	Open ─▶ migrate the schema, join the holders ─▶ Store
//	Update ─▶ BEGIN, wait for the lock, am I a holder? ─▶ fn ─▶ NOTIFY, COMMIT ─▶ Changed, of every process
//	Take ─▶ leases of agents ─▶ their turns, containers and files are this process's alone
//
// Several processes may share a ledger, each a row of the table holders under an id that is never used again. It renews
// the row; one that is silent for leaseTime, or whose process of this host has ended, loses it to another. All times
// are of the clock of the database. A lease is a row that names an agent and a holder; it goes with its holder.
//
// The invariant: updates of all processes run one at a time, under an advisory lock that ends with the transaction, and
// each looks under the lock whether its process is a holder still. The id of the holder is the token that fences a
// write: when an agent has another holder, no change of the one before is kept any more, whatever it has begun. That
// process has to end at once, see Leases.Lost, and leaves its containers to the next holder. Any holder reads and
// admits messages. Only Held, Check and Take say who may run an agent; a store does not look at what is written.
//
// Views run in transactions of their own with one snapshot. While the database cannot be reached, or does not answer in
// time, updates and views are an error with CodeLedgerAway. A commit whose answer was lost is looked up before Update
// returns.
package postgres

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"holon/state"
	"holon/state/ledger"
	"holon/state/sqlstore"
)

// Options of a ledger.
type Options struct {
	URL string       // postgres://USER@HOST/DATABASE, with the parameters and the variables that libpq has
	Log *slog.Logger // nil: nothing is logged

	Home    string // where the processes that share the ledger have their files: a directory, or a bucket
	Address string // where this process is reached, for people

	within     time.Duration // how long an answer may take, for tests; 0: answerWithin
	patience   time.Duration // how long a transaction may take to begin, for tests; 0: beginWithin
	unattended bool          // for tests whose clock stands still: nothing is renewed
}

// readers is how many Views run at once.
const readers = 8

func parse(text string) (*pgx.ConnConfig, error) {
	bad := &state.Error{Code: ledger.CodeLedgerURL, Param: "ledger",
		Message: "the ledger is not the URL of a PostgreSQL database",
		Hint:    "give postgres://USER@HOST:PORT/DATABASE, or nothing for the file in HOLON_HOME"}
	if !strings.HasPrefix(text, "postgres://") && !strings.HasPrefix(text, "postgresql://") {
		return nil, bad
	}
	config, err := pgx.ParseConfig(text)
	if err != nil {
		return nil, bad // the cause may quote the password
	}
	if !strings.Contains(text, "connect_timeout=") {
		config.ConnectTimeout = connectWithin
	}
	return config, nil
}

// Password is what the server gets from one who opens a URL: that of a variable or a file of libpq. "" is none.
func Password(text string) string {
	config, err := parse(text)
	if err != nil {
		return ""
	}
	return config.Password
}

// Store is a ledger that several processes may share, with the leases of this one.
type Store struct {
	*sqlstore.Store
	ledger.Leases
	holder *holder
}

// ID is that of the ledger, which its copies have too.
func (s *Store) ID(ctx context.Context) (id string, err error) {
	err = s.holder.reader.QueryRowContext(ctx, "SELECT value FROM meta WHERE key = 'id'").Scan(&id)
	return id, failed("read the id of the ledger", err)
}

// Open opens the ledger in a database, whose schema it makes or migrates. Errors have CodeLocked when a process with
// another home or an earlier version has it open, CodeLedgerAway when the database cannot be reached, and
// CodeUnreadable when a newer holon changed it.
func Open(ctx context.Context, opts Options) (*Store, error) {
	config, err := parse(opts.URL)
	if err != nil {
		return nil, err
	}
	h, err := newHolder(opts)
	if err != nil {
		return nil, err
	}
	config.RuntimeParams["application_name"] = "holon"
	attending, reading, writing := config.Copy(), config.Copy(), config.Copy()
	bound(reading, opts.within)
	bound(writing, opts.within)
	writing.RuntimeParams["application_name"] = "holon " + h.id
	writing.RuntimeParams["idle_in_transaction_session_timeout"] = milliseconds(silentClient)
	place, err := h.prepare(ctx, config)
	if err != nil {
		return nil, failed("open the ledger", err)
	}
	h.db = stdlib.OpenDB(*writing, stdlib.OptionAfterConnect(h.connected), stdlib.OptionShouldPing(ping))
	h.db.SetMaxOpenConns(1)
	reader := stdlib.OpenDB(*reading, stdlib.OptionShouldPing(ping))
	h.reader = reader
	reader.SetMaxOpenConns(readers)
	reader.SetMaxIdleConns(readers)
	attended, end := context.WithCancel(context.WithoutCancel(ctx)) // Close ends it
	var attends sync.WaitGroup
	s, err := sqlstore.New(ctx, sqlstore.Config{Own: own, Origin: place, Dialect: dialect{reader, h}, Writer: h.db,
		Reader: reader, Patience: cmp.Or(opts.patience, beginWithin),
		Snapshot: &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true},
		Release:  func() error { end(); attends.Wait(); return h.leave(config) }})
	if err != nil {
		end()
		return nil, err
	}
	h.mu.Lock()
	h.epoch = s.Epoch()
	h.mu.Unlock()
	if !opts.unattended {
		attends.Go(func() { h.attend(attended, attending, s.Announce) })
	}
	return &Store{s, h, h}, nil
}

// prepare brings the schema up to date, which may take its time, makes this process a holder, and returns where the
// ledger is. No other process writes meanwhile.
func (h *holder) prepare(ctx context.Context, config *pgx.ConnConfig) (place string, err error) {
	config = config.Copy()
	config.RuntimeParams["lock_timeout"] = milliseconds(heldWithin)
	db := stdlib.OpenDB(*config, stdlib.OptionAfterConnect(seize))
	db.SetMaxOpenConns(1)
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := migrate(ctx, db, h.log); err != nil {
		return "", err
	}
	if err := db.QueryRowContext(ctx, "SELECT "+origin).Scan(&place); err != nil {
		return "", err
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	return place, conn.Raw(func(c any) error { return h.join(ctx, c.(*stdlib.Conn).Conn()) })
}

// seize gives a new connection the lock of what writes. An earlier version, which shares no ledger, never lets go of
// it.
func seize(ctx context.Context, conn *pgx.Conn) error {
	_, err := conn.Exec(ctx, "SELECT pg_advisory_lock($1, $2)", lockClass, lockObject)
	if e, ok := errors.AsType[*pgconn.PgError](err); ok && e.Code == lockNotAvailable {
		return &state.Error{Code: ledger.CodeLocked, Message: "another process has the ledger in this database open",
			Hint: "stop the holon serve of an earlier version, then start this one again"}
	}
	return err
}

// origin names the history that a ledger is part of: it is another one after a restoration from a dump, which makes
// other tables, and after a failover, or a recovery to a point in time, which begin another timeline.
const origin = "(SELECT system_identifier FROM pg_control_system()) || ' ' || left(pg_walfile_name(" +
	"pg_current_wal_lsn()), 8) || ' ' || (SELECT oid FROM pg_database WHERE datname = current_database()) || ' ' || " +
	"'events'::regclass::oid"

// failed is err with what was being done, and with the ledger's code if it has one of its own.
func failed(doing string, err error) error {
	return sqlstore.Failed(dialect{}, doing, err)
}

// away is about a database that cannot be used now.
func away(err error) *state.Error {
	return &state.Error{Code: ledger.CodeLedgerAway,
		Message: "the database of the ledger cannot be used now; nothing was written",
		Hint:    "see that PostgreSQL runs and can be reached; what was asked can be asked again", Err: err}
}
