package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"holon/state/ledger"
)

// Batches is a Dialect whose database takes several statements at once, for the way to it is long. What is written is
// sent with what is read next, or with the end of the transaction. What was read is not read again until its table is
// written, and then together with what else [ledger.Rows.Ahead] names.
type Batches interface {
	Dialect
	// Opening begins a transaction that writes. The last of its answers comes when no other process writes.
	Opening() []Statement
	// Opened is why a transaction whose Opening had this answer may not write, nil if it may.
	Opened(Answer) error
	// Closing commits durably, and announces to other processes which agents have new events.
	Closing(opened Answer, changed []string) []Statement
	// Outcome is what became of a transaction whose Closing ended with an error: nil when it was kept. An error says that
	// nothing was, or that this cannot be found out.
	Outcome(opened Answer, err error) error
	// Send runs statements one after the other, and returns the answers before an error. The end of the context ends the
	// connection.
	Send(ctx context.Context, conn *sql.Conn, all []Statement) ([]Answer, error)
	// Rollback ends a transaction that was opened and not closed.
	Rollback(conn *sql.Conn)
}

// Statement is one with its arguments, in the form of the database.
type Statement struct {
	Text string
	Args []any
}

// Answer is that of a statement.
type Answer struct {
	Rows     []Values
	Affected int64
}

// Values are the columns of a row.
type Values []any

// scanner is a row.
type scanner interface{ Scan(into ...any) error }

// Scan sets what pointers point to.
func (v Values) Scan(into ...any) error {
	for i, p := range into {
		if i >= len(v) {
			return fmt.Errorf("a row has %d columns, and not %d", len(v), len(into))
		}
		to, from := reflect.ValueOf(p).Elem(), reflect.ValueOf(v[i])
		text, isText := v[i].(string)
		switch {
		case to.Kind() == reflect.Interface, isText && to.Kind() == reflect.String, from.CanInt() && to.CanInt():
			if !from.IsValid() {
				to.SetZero()
				continue
			}
			to.Set(from.Convert(to.Type()))
		case isText && to.Type() == reflect.TypeFor[[]byte]():
			to.SetBytes([]byte(text))
		default:
			return fmt.Errorf("column %d is a %T, and not for a %T", i, v[i], p)
		}
	}
	return nil
}

// batch is what a transaction has not sent yet, and what it has read.
type batch struct {
	Batches
	db     *sql.DB
	conn   *sql.Conn
	opened *Answer // nil: nothing was sent
	wrote  bool
	queue  []queued
	read   map[string][]Values   // by the keys of questions
	ahead  map[string][]question // those that are asked together, by the key of each
	plan   *[]question           // where Ahead collects questions; nil: they are asked
}

// question is a query with its key, which names it and its arguments.
type question struct {
	Statement
	key string
	row string // the query for one of the rows that it is answered with, by their first column; "": there is none
}

type queued struct {
	Statement
	then func(Answer, error) error // what becomes of the answer
}

// inBatches runs fn in a transaction that begins with what is sent first.
func (t *tx) inBatches(b Batches, db *sql.DB, fn func(*tx) error) error {
	t.batch = &batch{Batches: b, db: db, read: make(map[string][]Values), ahead: make(map[string][]question)}
	if err := t.begins(t.patience, t.batch.connect); err != nil {
		return err
	}
	defer func() { // it may be another connection by then
		b.Rollback(t.batch.conn)
		_ = t.batch.conn.Close()
	}()
	return fn(t)
}

func (b *batch) connect(wait context.Context) (isLost bool, err error) {
	conn, err := b.db.Conn(wait)
	if err == nil {
		b.conn = conn
	}
	return false, err
}

// open sends what begins the transaction, and what goes with it; on another connection if that one is lost.
func (t *tx) open(all []Statement) (answers []Answer, err error) {
	b := t.batch
	first := b.Opening()
	n := len(first)
	all = append(first, all...)
	patience := 2 * t.patience // the server waits for what other processes write
	err = t.begins(patience, func(wait context.Context) (isLost bool, err error) {
		answers, err = b.Send(wait, b.conn, all)
		if err == nil || len(answers) > 0 || b.conn.PingContext(wait) == nil {
			return false, err
		}
		_ = b.conn.Close() // nothing was begun on it
		_, err = b.connect(wait)
		return err == nil, err
	})
	if len(answers) < n {
		return nil, err
	}
	b.opened = &answers[n-1]
	return answers[n:], cmp.Or(t.failed("begin to write to the ledger", b.Opened(*b.opened)), err)
}

// commitBatch commits with what was put off. What only read has nothing to commit.
func (t *tx) commitBatch() (err error) {
	b := t.batch
	if t.broken == nil && b.opened == nil { // the outcome of a commit is looked up by the answer
		_, err = t.send()
	}
	if err = cmp.Or(t.broken, err); err != nil || !b.wrote {
		return err
	}
	queue := b.queue
	answers, err := b.Send(context.Background(), b.conn, append(statements(queue), b.Closing(*b.opened, t.changed)...))
	if err != nil {
		if err = b.Outcome(*b.opened, err); err == nil {
			return nil
		}
	}
	_, err = t.answered(queue, answers, err)
	return t.failed("commit to the ledger", err)
}

func (t *tx) statement(text string, args []any) Statement {
	return Statement{text, t.dialect.Arguments(args)}
}

// changes lets what was read of a table be read again, "" is all.
func (b *batch) changes(table string) {
	b.wrote = true
	for text := range b.read {
		if strings.Contains(text, table) {
			delete(b.read, text)
		}
	}
}

// send sends what was put off, and then further statements, whose answers it returns. After an error nothing more is
// sent.
func (t *tx) send(last ...Statement) (answers []Answer, err error) {
	b := t.batch
	queue := b.queue
	b.queue = nil
	all := append(statements(queue), last...)
	if b.opened == nil {
		answers, err = t.open(all)
	} else {
		answers, err = b.Send(context.Background(), b.conn, all)
	}
	return t.answered(queue, answers, err)
}

func statements(queue []queued) []Statement {
	all := make([]Statement, 0, len(queue))
	for _, q := range queue {
		all = append(all, q.Statement)
	}
	return all
}

// answered tells what was put off of its answers, and returns the others.
func (t *tx) answered(queue []queued, answers []Answer, err error) ([]Answer, error) {
	for i, q := range queue {
		if i < len(answers) {
			t.broken = q.then(answers[i], nil)
		} else {
			t.broken = q.then(Answer{}, err)
		}
		if t.broken != nil {
			return nil, t.broken
		}
	}
	if err != nil {
		t.broken = t.failed("send statements to the ledger", err)
		return nil, err
	}
	return answers[len(queue):], nil
}

func keyOf(text string, args []any) string {
	key := append(make([]byte, 0, 512), text...)
	for _, arg := range args {
		key = append(key, 0)
		switch arg := arg.(type) {
		case int64:
			key = strconv.AppendInt(key, arg, 10)
		case string:
			key = strconv.AppendQuote(key, arg)
		default:
			key = fmt.Appendf(key, "%v", arg)
		}
	}
	return string(key)
}

// ask reads rows, or has them from before; each is the answer of a query of its own, too, where they are records.
func (t *tx) ask(of ledger.Row, text string, args ...any) ([]Values, error) {
	b, asked := t.batch, question{Statement: t.statement(text, args)}
	asked.key = keyOf(asked.Text, asked.Args)
	if of.Key == 1 {
		asked.row = t.byKey(of)
	}
	if b.plan != nil {
		*b.plan = append(*b.plan, asked)
		return nil, nil
	}
	if rows, ok := b.read[asked.key]; ok {
		return rows, nil
	}
	all := b.with(asked)
	statements := make([]Statement, 0, len(all))
	for _, q := range all {
		statements = append(statements, q.Statement)
	}
	answers, err := t.send(statements...)
	for i, a := range answers {
		b.keep(all[i], a.Rows)
	}
	return b.read[asked.key], err
}

// asked calls each for every row of an answer.
func (t *tx) asked(of ledger.Row, each func(scanner) error, text string, args ...any) error {
	all, err := t.ask(of, text, args...)
	for _, one := range all {
		if err = each(one); errors.Is(err, errStop) {
			return nil
		} else if err != nil {
			break
		}
	}
	return err
}

// keep stores the answer of a question.
func (b *batch) keep(q question, rows []Values) {
	b.read[q.key] = rows
	for i, row := range rows {
		if q.row != "" && q.row != q.Text {
			b.read[keyOf(q.row, row[:1])] = rows[i : i+1]
		}
	}
}

// with is a question and those that go with it and are open.
func (b *batch) with(asked question) (all []question) {
	together, ok := b.ahead[asked.key]
	if !ok {
		return []question{asked}
	}
	for _, q := range together {
		if _, known := b.read[q.key]; !known {
			all = append(all, q)
		}
	}
	return all
}

// Ahead implements ledger.Rows.
func (t *tx) Ahead(read func()) {
	b := t.batch
	if b == nil {
		return
	}
	var together []question
	b.plan = &together
	read()
	b.plan = nil
	for _, q := range together {
		b.ahead[q.key] = together
	}
}
