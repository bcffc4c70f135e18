package postgres

import (
	"bytes"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"holon/state"
	"holon/state/ledger"
	"holon/state/sqlstore"
)

// dialect is that of PostgreSQL.
type dialect struct {
	reader *sql.DB // that answers what became of a commit
	holder *holder
}

var _ sqlstore.Batches = dialect{}

// own are the statements that SQLite writes in another way.
var own = map[string]string{
	// data is not read as JSON: PostgreSQL refuses strings with a NUL there. A quotation mark within a string has a
	// backslash before it, so this is found only where the key is.
	"agents with open tasks": `SELECT DISTINCT agent_id FROM tasks
		WHERE open = 1 AND strpos(data, '"kind":"child_agent_task"') = 0 ORDER BY agent_id`,
}

// Bind numbers the arguments. No statement has a question mark in a string.
func (dialect) Bind(text string) string {
	var b strings.Builder
	for n := 1; ; n++ {
		before, after, found := strings.Cut(text, "?")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		b.WriteString("$" + strconv.Itoa(n))
		text = after
	}
}

// Arguments implements sqlstore.Dialect: columns of flags hold 0 and 1, and those of strings what escape makes of them.
func (dialect) Arguments(args []any) []any {
	made := make([]any, len(args))
	for i, arg := range args {
		value, err := driver.DefaultParameterConverter.ConvertValue(arg)
		if err != nil {
			value = arg // the driver refuses it
		}
		switch v := value.(type) {
		case bool:
			value = int64(0)
			if v {
				value = int64(1)
			}
		case string:
			value = escape(v)
		}
		made[i] = value
	}
	return made
}

// Read implements sqlstore.Dialect.
func (dialect) Read(into []any) {
	for _, p := range into {
		switch p := p.(type) {
		case *string:
			*p = unescape(*p)
		case *[]byte:
			if bytes.IndexByte(*p, mark) >= 0 {
				*p = []byte(unescape(string(*p)))
			}
		case *any:
			if s, ok := (*p).(string); ok {
				*p = unescape(s)
			}
		}
	}
}

// Shrink implements sqlstore.Dialect: autovacuum does it.
func (dialect) Shrink(*sql.Tx) error { return nil }

// SQLSTATEs, and classes of them, which are their first two characters.
const (
	uniqueViolation     = "23505"
	foreignKeyViolation = "23503"
	lockNotAvailable    = "55P03"
	readOnlyTransaction = "25006"
	inRecovery          = "55000"
	noPrivilege         = "42501"
	undefinedTable      = "42P01"
	undefinedFunction   = "42883"
	diskFull            = "53100"
	invalidParameter    = "22023"
	dataCorrupted       = "XX001"
	indexCorrupted      = "XX002"
)

// classesAway are those of errors after which the database cannot be used: of connections, authorization, the name of
// the database, resources, an operator's intervention, and the system.
var classesAway = []string{"08", "28", "3D", "53", "57", "58"}

// Known implements sqlstore.Dialect.
func (dialect) Known(err error) *state.Error {
	e, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		if lost(err) {
			return away(err)
		}
		return nil
	}
	switch {
	case e.Code == diskFull:
		return &state.Error{Code: ledger.CodeLedgerFull, Message: "the ledger's disk is full; nothing was written",
			Hint: "make room on the disk that holds the database", Err: err}
	case e.Code == dataCorrupted, e.Code == indexCorrupted:
		return sqlstore.Unreadable(err)
	case e.Code == readOnlyTransaction, e.Code == inRecovery, e.Code == noPrivilege, e.Code == lockNotAvailable,
		e.Code == undefinedTable, e.Code == undefinedFunction,
		slices.Contains(classesAway, e.Code[:min(2, len(e.Code))]):
		return refusedBy(e, err)
	}
	return nil
}

// refusals are what an operator has to change, by the class of an answer of the server; "tables": they are gone.
var refusals = map[string]struct{ what, hint string }{
	"25": {"can only be read", "name the primary server in the URL, or make this one take writes"},
	"28": {"refuses its user", "correct the user in the URL, or the password, in PGPASSWORD or the file of PGPASSFILE"},
	"3D": {"does not exist", "correct its name in the URL, or make it: createdb --owner USER DATABASE"},
	"42": {"does not let its user make the tables or write them", "make the user the owner of the database"},
	"tables": {"has not the tables that it had",
		"restore it from a backup, or correct its name in the URL, then start holon serve again"},
	"55": {"is held by another writer", "see in pg_stat_activity which session waits in a transaction"},
}

// refusedBy is about a server that answers that the database cannot be used.
func refusedBy(e *pgconn.PgError, err error) *state.Error {
	known := away(err)
	key := e.Code[:min(2, len(e.Code))]
	switch e.Code {
	case undefinedTable, undefinedFunction:
		key = "tables"
	case inRecovery:
		key = "25"
	}
	if r, ok := refusals[key]; ok {
		known.Param = "ledger"
		known.Message, known.Hint = "the database of the ledger "+r.what+"; nothing was written", r.hint
	}
	return known
}

// lost reports whether the connection, or the attempt to make one, ended without an answer.
func lost(err error) bool {
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return true
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) { // the patience of a caller
		return false
	}
	if _, ok := errors.AsType[net.Error](err); ok {
		return true
	}
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, driver.ErrBadConn) || strings.Contains(err.Error(), "conn closed")
}

// Refusal implements sqlstore.Dialect.
func (dialect) Refusal(err error) sqlstore.Refusal {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch e.Code {
		case uniqueViolation:
			return sqlstore.Duplicate
		case foreignKeyViolation:
			return sqlstore.Orphan
		}
	}
	return sqlstore.Allowed
}
