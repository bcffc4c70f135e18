package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"holon/responses"
	"holon/state/ledger"
)

// tx is a transaction, which sees its own changes.
type tx struct {
	ctx        context.Context
	raw        *sql.Tx // nil with a batch
	dialect    Dialect
	statements map[string]string
	texts      *sync.Map     // of statements in the form of the database, see text
	patience   time.Duration // of begin; 0: that of its context
	changed    []string      // agents with new events
	batch      *batch        // nil: each statement is sent for itself
	broken     error         // after which the database may have ended the transaction
}

var _ ledger.Rows = (*tx)(nil)

// within runs fn in a transaction, which is rolled back unless fn commits it, also when it panics. The context
// bounds the wait for a connection, and no statement begins after its end; it does not interrupt one, so that the
// outcome of a commit is always clear.
func within(ctx context.Context, db *sql.DB, opts *sql.TxOptions, t *tx, fn func(*tx) error) error {
	t.ctx = ctx
	if b, ok := t.dialect.(Batches); ok && opts == nil {
		return t.inBatches(b, db, fn)
	}
	var conn *sql.Conn
	err := t.begins(t.patience, func(wait context.Context) (isLost bool, err error) {
		conn, isLost, err = t.beginOn(wait, db, opts)
		return isLost, err
	})
	if err != nil {
		return err
	}
	defer conn.Close()
	defer t.raw.Rollback()
	return fn(t)
}

// begins lets try begin the transaction in time, and once more when its connection turns out to be lost.
func (t *tx) begins(patience time.Duration, try func(wait context.Context) (isLost bool, err error)) error {
	wait, stop := t.ctx, func() {}
	if patience > 0 {
		wait, stop = context.WithTimeout(wait, patience)
	}
	defer stop()
	isLost, err := try(wait)
	if isLost {
		_, err = try(wait)
	}
	if err != nil && wait.Err() != nil && t.ctx.Err() == nil {
		err = fmt.Errorf("not within %v: %w", patience, driver.ErrBadConn)
	}
	return t.failed("begin a transaction of the ledger", err)
}

// beginOn begins the transaction before the context ends, and then without it. isLost is true when a connection was.
func (t *tx) beginOn(wait context.Context, db *sql.DB, opts *sql.TxOptions) (conn *sql.Conn, isLost bool, err error) {
	if conn, err = db.Conn(wait); err != nil {
		return nil, false, err
	}
	ctx, end := context.WithCancel(context.WithoutCancel(wait))
	inTime := context.AfterFunc(wait, end)
	if t.raw, err = conn.BeginTx(ctx, opts); err == nil {
		if inTime() {
			return conn, false, nil
		}
		err = errors.Join(wait.Err(), t.raw.Rollback())
	}
	isLost = conn.PingContext(wait) != nil
	_ = conn.Close() // it was not used
	return nil, isLost, err
}

// text is the form of the database of a statement about a table, which is made once.
func (t *tx) text(name, table string, make func() string) string {
	type key struct{ name, table string }
	if known, ok := t.texts.Load(key{name, table}); ok {
		return known.(string)
	}
	text := t.dialect.Bind(make())
	t.texts.Store(key{name, table}, text)
	return text
}

// byKey is the statement that reads one row.
func (t *tx) byKey(row ledger.Row) string {
	return t.text("get", row.Table, func() string {
		return selected(row) + " WHERE " + terms(row.Columns[:row.Key], " AND ")
	})
}

// Get implements ledger.Rows.
func (t *tx) Get(r ledger.Record, key ...any) error {
	row, found := r.Row(), false
	err := t.rows(row, func(one scanner) error { found = true; return t.read(one, r, row, false) }, t.byKey(row), key...)
	if err != nil || found {
		return t.failed("read "+row.Noun, err)
	}
	return notFound(row.Noun, key[row.Key-1])
}

// List implements ledger.Rows.
func (t *tx) List(r ledger.Record, each func(), salvage bool, query string, args ...any) error {
	row := r.Row()
	text, err := t.named(query, row.Table, func(where string) string { return selected(row) + " " + where })
	if err != nil {
		return err
	}
	return t.failed("list "+row.Table, t.rows(row, func(one scanner) error {
		if err := t.read(one, r, row, salvage); err != nil {
			return err
		}
		each()
		return nil
	}, text, args...))
}

// Values implements ledger.Rows.
func (t *tx) Values(each func(scan func(...any) error) error, query string, args ...any) error {
	text, err := t.named(query, "", func(whole string) string { return whole })
	if err != nil {
		return err
	}
	return t.failed("read "+query, t.rows(ledger.Row{}, func(one scanner) error {
		return each(func(into ...any) error { return t.scan(one, into...) })
	}, text, args...))
}

func (t *tx) named(query, table string, form func(string) string) (string, error) {
	text, ok := t.statements[query]
	if !ok {
		return "", fmt.Errorf("the ledger has no statement %q", query)
	}
	return t.text(query, table, func() string { return form(text) }), nil
}

// Insert implements ledger.Rows.
func (t *tx) Insert(r ledger.Record) error {
	row := r.Row()
	args, err := stored(r, row)
	if err != nil {
		return err
	}
	if e, ok := r.(*ledger.Event); ok && !slices.Contains(t.changed, e.AgentID) {
		t.changed = append(t.changed, e.AgentID)
	}
	text := t.text("insert", row.Table, func() string {
		return fmt.Sprintf("INSERT INTO %s (%s, data) VALUES (%s?)", row.Table, names(row.Columns, ", "),
			strings.Repeat("?, ", len(row.Columns)))
	})
	return t.write(row.Table, text, args, func(_ int64, err error) error { return t.refused("insert", row.Noun, err) })
}

// Update implements ledger.Rows.
func (t *tx) Update(r ledger.Record) error {
	row := r.Row()
	args, err := stored(r, row)
	if err != nil {
		return err
	}
	key := args[:row.Key:row.Key]
	text := t.text("update", row.Table, func() string {
		return "UPDATE " + row.Table + " SET " + terms(append(row.Columns[row.Key:], ledger.Column{Name: "data"}), ", ") +
			" WHERE " + terms(row.Columns[:row.Key], " AND ")
	})
	last := reflect.Indirect(reflect.ValueOf(key[row.Key-1])).Interface()
	return t.write(row.Table, text, append(args[row.Key:], key...), func(n int64, err error) error {
		if err == nil && n == 0 {
			return notFound(row.Noun, last)
		}
		return t.refused("update", row.Noun, err)
	})
}

// write changes a row of a table, at once or with what is sent next. written says what the answer means.
func (t *tx) write(table, text string, args []any, written func(int64, error) error) error {
	if err := t.over(); err != nil {
		return err
	}
	if t.batch == nil {
		t.broken = written(t.run(table, text, args...))
		return t.broken
	}
	t.batch.changes(table)
	t.batch.queue = append(t.batch.queue, queued{t.statement(text, args),
		func(a Answer, err error) error { return written(a.Affected, err) }})
	return nil
}

// selected is the beginning of a statement that reads rows of a kind, see read.
func selected(row ledger.Row) string {
	var b strings.Builder
	b.WriteString("SELECT ")
	for _, c := range row.Columns {
		if reflect.ValueOf(c.Value).Kind() == reflect.Pointer {
			b.WriteString(c.Name + ", ")
		}
	}
	return b.String() + "data FROM " + row.Table
}

// read reads a row into its record. With salvage, it reads the columns alone if the data is damaged.
func (t *tx) read(one scanner, r ledger.Record, row ledger.Row, salvage bool) error {
	var data []byte
	into := make([]any, 0, len(row.Columns)+1)
	for _, c := range row.Columns {
		if reflect.ValueOf(c.Value).Kind() == reflect.Pointer {
			into = append(into, c.Value)
		}
	}
	into = append(into, &data)
	err := t.scan(one, into...)
	if err == nil {
		err = json.Unmarshal(data, r)
	}
	if err != nil && salvage {
		reflect.ValueOf(r).Elem().SetZero()
		err = t.scan(one, into...)
	}
	if err != nil {
		return Unreadable(fmt.Errorf("decode %s: %w", row.Noun, err))
	}
	return nil
}

// stored returns the values of a record's columns, its JSON last.
func stored(r ledger.Record, row ledger.Row) ([]any, error) {
	data, err := encode(r)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", row.Noun, err)
	}
	args := make([]any, 0, len(row.Columns)+1)
	for _, c := range row.Columns {
		args = append(args, c.Value)
	}
	return append(args, string(data)), nil
}

// encode is responses.Marshal, which would check what a record makes of itself.
func encode(r ledger.Record) ([]byte, error) {
	if itself, ok := r.(json.Marshaler); ok {
		return itself.MarshalJSON()
	}
	return responses.Marshal(r)
}

// terms are conditions or assignments, one for each column.
func terms(columns []ledger.Column, between string) string {
	return names(columns, " = ?"+between) + " = ?"
}

func names(columns []ledger.Column, between string) string {
	list := make([]string, 0, len(columns))
	for _, c := range columns {
		list = append(list, c.Name)
	}
	return strings.Join(list, between)
}

// scan reads the columns of a row.
func (t *tx) scan(one scanner, into ...any) error {
	err := one.Scan(into...)
	if err == nil {
		t.dialect.Read(into)
	}
	return err
}

// errStop, returned by a row function, ends a query early without an error.
var errStop = errors.New("stop")

// rows calls each for every row of an answer, which are records of a kind. The answer is read whole where there are
// batches.
func (t *tx) rows(of ledger.Row, each func(scanner) error, text string, args ...any) (err error) {
	if err := t.over(); err != nil {
		return err
	}
	if t.batch != nil {
		return t.asked(of, each, text, args...)
	}
	rows, err := t.raw.Query(text, t.dialect.Arguments(args)...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		if err := each(rows); errors.Is(err, errStop) {
			return nil
		} else if err != nil {
			return err
		}
	}
	return rows.Err()
}

// values calls each for every row of a query that returns other values than records.
func (t *tx) values(each func(scanner) error, text string, args ...any) error {
	return t.rows(ledger.Row{}, each, t.dialect.Bind(text), args...)
}

// exec runs a statement that changes rows of a table, "" may be any, and returns how many.
func (t *tx) exec(table, text string, args ...any) (int64, error) {
	return t.run(table, t.dialect.Bind(text), args...)
}

// run is exec for a statement in the form of the database.
func (t *tx) run(table, text string, args ...any) (int64, error) {
	if err := t.over(); err != nil {
		return 0, err
	}
	if t.batch != nil {
		t.batch.changes(table)
		answers, err := t.send(t.statement(text, args))
		if err != nil {
			return 0, err
		}
		return answers[0].Affected, nil
	}
	result, err := t.raw.Exec(text, t.dialect.Arguments(args)...)
	if err != nil {
		t.broken = t.failed("update the ledger", err)
		return 0, err
	}
	return result.RowsAffected()
}

// over is why no statement may begin: the transaction, or the patience of its caller, is over.
func (t *tx) over() error {
	if t.broken != nil {
		return t.broken
	}
	return t.ctx.Err()
}

func (t *tx) commit() error {
	if t.batch != nil {
		return t.commitBatch()
	}
	if t.broken != nil {
		return t.broken
	}
	return t.failed("commit to the ledger", t.raw.Commit())
}
