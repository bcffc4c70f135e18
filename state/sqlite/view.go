package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"slices"

	"holon/state/ledger"
)

// view reads in the transaction of its connection. The file of a noun has both how
// it is read and how it is written.
type view struct {
	ctx  context.Context
	conn *conn // nil when the transaction is over
}

var _ ledger.View = (*view)(nil)

// defaultLimit is the size of a list for which none was given.
const defaultLimit = 1000

// limited is the argument of LIMIT +?, by which a statement bounds a list. For LIMIT ? SQLite makes a plan for each
// value: it would parse the statement again whenever it is run.
func limited(limit int) driver.Value {
	if limit <= 0 {
		limit = defaultLimit
	}
	return int64(limit)
}

// usable is an error when the transaction or its caller's patience is over.
func (v *view) usable() error {
	if v.conn == nil {
		return errors.New("the ledger's transaction is over")
	}
	return v.ctx.Err()
}

// rows calls each for every row of an answer.
func (v *view) rows(doing string, each func(*row) error, text string, args ...driver.Value) error {
	if err := v.usable(); err != nil {
		return err
	}
	return failed(doing, v.conn.query(each, text, args...))
}

// list returns all records of an answer.
func list[T any](v *view, noun string, scan func(*row) T, text string, args ...driver.Value) ([]T, error) {
	var all []T
	err := v.rows("list "+noun, func(r *row) error {
		all = append(all, scan(r))
		return nil
	}, text, args...)
	return all, err
}

// tail returns the records of an answer that begins with the newest, the oldest
// first.
func tail[T any](v *view, noun string, scan func(*row) T, text string, args ...driver.Value) ([]T, error) {
	all, err := list(v, noun, scan, text, args...)
	slices.Reverse(all)
	return all, err
}

// find returns the one record of an answer, if there is one.
func find[T any](v *view, noun string, scan func(*row) T, text string, args ...driver.Value) (record T, ok bool,
	err error) {
	err = v.rows("read "+noun, func(r *row) error {
		record, ok = scan(r), true
		return nil
	}, text, args...)
	return record, ok && err == nil, err
}

// get returns the one record with an id.
func get[T any](v *view, noun, id string, scan func(*row) T, text string) (T, error) {
	record, ok, err := find(v, noun, scan, text, id)
	if err == nil && !ok {
		err = notFound(noun, id)
	}
	return record, err
}

// count returns the number that is the answer.
func (v *view) count(doing, text string, args ...driver.Value) (n int64, err error) {
	err = v.rows(doing, func(r *row) error { n = r.integer(); return nil }, text, args...)
	return n, err
}
