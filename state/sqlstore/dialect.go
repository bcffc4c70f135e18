package sqlstore

import (
	"database/sql"

	"holon/state"
)

// Dialect is what one database does in its own way.
type Dialect interface {
	// Bind gives a statement, which has ? where arguments stand, the form of the database.
	Bind(text string) string
	// Arguments gives arguments the form in which columns have them, and Read gives what was scanned back the form
	// of the arguments: a string that was written is read as it was.
	Arguments(args []any) []any
	Read(into []any)
	// Known returns the ledger's error for one of the driver, nil when it has none.
	Known(err error) *state.Error
	// Refusal says how a row that was not written broke a rule of the schema.
	Refusal(err error) Refusal
	// Shrink gives some of the space that pruned rows had back.
	Shrink(t *sql.Tx) error
}

// Refusal is how a row breaks a rule of the schema.
type Refusal int

const (
	Allowed   Refusal = iota
	Duplicate         // of a row that excludes it
	Orphan            // of a row that does not exist
)
