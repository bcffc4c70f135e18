package sqlite

import (
	"database/sql"
	"errors"
	"fmt"

	"modernc.org/sqlite"
	code "modernc.org/sqlite/lib"

	"holon/state"
	"holon/state/ledger"
	"holon/state/sqlstore"
)

// dialect is that of SQLite.
type dialect struct{}

var _ sqlstore.Dialect = dialect{}

func (dialect) Bind(text string) string    { return text }
func (dialect) Arguments(args []any) []any { return args }
func (dialect) Read([]any)                 {}

// reservePages stay free for new rows; at most vacuumPages are returned to the file
// system in one call.
const (
	reservePages = 1024
	vacuumPages  = 256
)

// Shrink makes the file smaller when much of it is free.
func (dialect) Shrink(t *sql.Tx) error {
	var free int
	err := t.QueryRow("SELECT freelist_count FROM pragma_freelist_count").Scan(&free)
	if err != nil || free <= reservePages {
		return err
	}
	_, err = t.Exec(fmt.Sprintf("PRAGMA incremental_vacuum(%d)", vacuumPages))
	return err
}

// failed is err with what was being done, and with the ledger's code if it has
// one of its own.
func failed(doing string, err error) error { return sqlstore.Failed(dialect{}, doing, err) }

// Known implements sqlstore.Dialect.
func (dialect) Known(err error) *state.Error {
	switch primary(err) {
	case code.SQLITE_FULL:
		return &state.Error{Code: ledger.CodeLedgerFull, Message: "the ledger's disk is full; nothing was written",
			Hint: "make room on the disk that holds the ledger", Err: err}
	case code.SQLITE_CORRUPT, code.SQLITE_NOTADB:
		return sqlstore.Unreadable(err)
	}
	return nil
}

// primary is the driver's code without its details; 0: no error of the driver.
func primary(err error) int { return extended(err) & 0xff }

func extended(err error) int {
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return e.Code()
	}
	return 0
}

// Refusal implements sqlstore.Dialect.
func (dialect) Refusal(err error) sqlstore.Refusal {
	switch extended(err) {
	case code.SQLITE_CONSTRAINT_UNIQUE, code.SQLITE_CONSTRAINT_PRIMARYKEY:
		return sqlstore.Duplicate
	case code.SQLITE_CONSTRAINT_FOREIGNKEY:
		return sqlstore.Orphan
	}
	return sqlstore.Allowed
}
