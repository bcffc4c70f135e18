package sqlstore

import (
	"database/sql"
	"fmt"
	"reflect"
	"strings"
)

// Batches is a Dialect whose database takes several statements at once, for the way to it is long. What is written is
// sent with what is read next, or with the end of the transaction. What was read is not read again until its table is
// written, and then together with what else was said to be read.
type Batches interface {
	Dialect
	// Opening comes first in a transaction that writes, with what becomes of its answer, which comes when no other process
	// writes.
	Opening() (Statement, func(Answer) error)
	// Send runs statements one after the other, and returns the answers before an error.
	Send(conn *sql.Conn, all []Statement) ([]Answer, error)
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
	conn  *sql.Conn
	queue []queued
	read  map[string][]Values   // by the keys of questions
	ahead map[string][]question // those that are asked together, by the key of each
	said  *[]question           // where Ahead collects questions; nil: they are asked
}

// question is a query with its key, which names it and its arguments.
type question struct {
	Statement
	key string
}

type queued struct {
	Statement
	then func(Answer, error) error // what becomes of the answer
}

// opening waits until no other process writes, with what is sent first.
func (t *tx) opening() {
	if t.batch == nil {
		return
	}
	first, then := t.batch.Opening()
	t.batch.queue = append(t.batch.queue, queued{first, func(a Answer, err error) error {
		if err == nil {
			err = then(a)
		}
		return t.failed("begin to write to the ledger", err)
	}})
}

func (t *tx) statement(text string, args []any) Statement {
	return Statement{t.dialect.Bind(text), t.dialect.Arguments(args)}
}

// forget lets what was read of a table be read again, "" is all.
func (b *batch) forget(table string) {
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
	all := make([]Statement, 0, len(b.queue)+len(last))
	for _, q := range b.queue {
		all = append(all, q.Statement)
	}
	answers, err = b.Send(b.conn, append(all, last...))
	queue := b.queue
	b.queue = nil
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

// ask reads rows, or has them from before.
func (t *tx) ask(text string, args ...any) ([]Values, error) {
	if err := t.over(); err != nil {
		return nil, err
	}
	b, asked := t.batch, question{Statement: t.statement(text, args)}
	asked.key = fmt.Sprintf("%s\x00%#v", asked.Text, asked.Args)
	if b.said != nil {
		*b.said = append(*b.said, asked)
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
		b.read[all[i].key] = a.Rows
	}
	return b.read[asked.key], err
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
	b.said = &together
	read()
	b.said = nil
	for _, q := range together {
		b.ahead[q.key] = together
	}
}
