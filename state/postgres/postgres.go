// Package postgres keeps the ledger in a PostgreSQL database.
//
//	Open ─▶ connect, take the lock, migrate the schema ─▶ sqlstore.Store
//
// The session that holds an advisory lock of the database is the only writer, and every change is made in that session:
// when its connection is lost, PostgreSQL ends the transaction and gives up the lock, so that another holder never
// meets a change of this one. A new connection takes the lock again, unless another daemon had the ledger meanwhile.
//
// Updates run one at a time, views in transactions of their own with one snapshot. While the database cannot be reached,
// or does not answer in time, both are an error with CodeLedgerAway. A commit whose answer was lost is looked up before
// Update returns.
package postgres

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"holon/state"
	"holon/state/ledger"
	"holon/state/sqlstore"
)

// Options of a ledger.
type Options struct {
	URL string       // postgres://USER@HOST/DATABASE, with the parameters and the variables that libpq has
	Log *slog.Logger // nil: nothing is logged

	within time.Duration // how long an answer may take, for tests; 0: answerWithin
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

// Open opens the ledger in a database, whose schema it makes or migrates. Errors have CodeLocked when another process
// has it open, CodeLedgerAway when the database cannot be reached, and CodeUnreadable when a newer holon changed it.
func Open(ctx context.Context, opts Options) (*sqlstore.Store, error) {
	config, err := parse(opts.URL)
	if err != nil {
		return nil, err
	}
	config.RuntimeParams["application_name"] = "holon " + rand.Text()
	w := &writer{name: config.RuntimeParams["application_name"]}
	migrating, reading, writing := config.Copy(), config.Copy(), config.Copy()
	migrating.RuntimeParams["lock_timeout"] = milliseconds(heldWithin)
	bound(reading, opts.within)
	bound(writing, opts.within)
	writing.RuntimeParams["idle_in_transaction_session_timeout"] = milliseconds(silentClient)
	place, err := prepare(ctx, stdlib.OpenDB(*migrating, stdlib.OptionAfterConnect(w.seize)), opts.Log)
	if err != nil {
		return nil, failed("open the ledger", err)
	}
	c := sqlstore.Config{Own: own, Release: func() error { return nil },
		Snapshot: &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true},
		Writer:   stdlib.OpenDB(*writing, stdlib.OptionAfterConnect(w.seize)),
		Reader:   stdlib.OpenDB(*reading)}
	c.Writer.SetMaxOpenConns(1)
	c.Reader.SetMaxOpenConns(readers)
	c.Reader.SetMaxIdleConns(readers)
	c.Dialect, c.Origin = dialect{c.Reader}, place
	s, err := sqlstore.New(ctx, c)
	if err != nil {
		return nil, err
	}
	if err := w.claim(ctx, c.Writer); err != nil {
		return nil, errors.Join(failed("open the ledger", err), s.Close())
	}
	return s, nil
}

// prepare brings the schema up to date, which may take its time, and returns where the ledger is. It closes db.
func prepare(ctx context.Context, db *sql.DB, log *slog.Logger) (place string, err error) {
	defer func() { err = errors.Join(err, db.Close()) }()
	db.SetMaxOpenConns(1)
	if err := migrate(ctx, db, log); err != nil {
		return "", err
	}
	err = db.QueryRowContext(ctx, "SELECT "+origin).Scan(&place)
	return place, err
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
