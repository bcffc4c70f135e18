package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net/url"

	"modernc.org/sqlite"
)

// conn is one connection with the statements that were prepared on it. It
// belongs to one goroutine at a time.
//
// It calls the driver directly: through database/sql a step of an agent takes half
// as much processor time again, and a page of 500 events 40 % more. No statement
// runs long, so contexts are checked between statements.
type conn struct {
	raw   driver.Conn
	stmts map[string]statement
	args  []driver.NamedValue
	row   row
}

// statement is what a prepared statement of the driver can do.
type statement interface {
	driver.StmtExecContext
	driver.StmtQueryContext
	Close() error
}

// dial opens a connection to the file at an absolute path. The parameters are
// PRAGMAs, which are run in their order.
func dial(path string, readOnly bool, pragmas ...string) (*conn, error) {
	query := url.Values{"_pragma": pragmas}
	if readOnly {
		query.Set("mode", "ro")
	}
	raw, err := new(sqlite.Driver).Open("file:" + (&url.URL{Path: path}).EscapedPath() + "?" + query.Encode())
	if err != nil {
		return nil, err
	}
	return &conn{raw: raw, stmts: make(map[string]statement)}, nil
}

// close ends the connection. On nil it does nothing.
func (c *conn) close() error {
	if c == nil {
		return nil
	}
	var errs []error
	for _, s := range c.stmts {
		errs = append(errs, s.Close())
	}
	return errors.Join(append(errs, c.raw.Close())...)
}

// prepare returns the statement of a text, which is prepared once.
func (c *conn) prepare(text string) (statement, error) {
	if s, ok := c.stmts[text]; ok {
		return s, nil
	}
	raw, err := c.raw.Prepare(text)
	if err != nil {
		return nil, err
	}
	s, ok := raw.(statement)
	if !ok {
		return nil, errors.Join(fmt.Errorf("the driver's statement is a %T", raw), raw.Close())
	}
	c.stmts[text] = s
	return s, nil
}

// named puts arguments in the driver's form, in memory that is used again.
func (c *conn) named(args []driver.Value) []driver.NamedValue {
	c.args = c.args[:0]
	for i, a := range args {
		c.args = append(c.args, driver.NamedValue{Ordinal: i + 1, Value: a})
	}
	return c.args
}

// exec runs a statement and returns the number of rows that it changed.
// Arguments are int64, string or nil.
func (c *conn) exec(text string, args ...driver.Value) (int64, error) {
	s, err := c.prepare(text)
	if err != nil {
		return 0, err
	}
	result, err := s.ExecContext(context.Background(), c.named(args))
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// script runs statements that are used once.
func (c *conn) script(text string) error {
	raw, err := c.raw.Prepare(text)
	if err != nil {
		return err
	}
	s, ok := raw.(statement)
	if !ok {
		return errors.Join(fmt.Errorf("the driver's statement is a %T", raw), raw.Close())
	}
	_, err = s.ExecContext(context.Background(), nil)
	return errors.Join(err, s.Close())
}

// errStop, returned by a row function, ends a query early without an error.
var errStop = errors.New("stop")

// query calls each for every row of the answer. The row is gone after the call.
func (c *conn) query(each func(*row) error, text string, args ...driver.Value) (err error) {
	s, err := c.prepare(text)
	if err != nil {
		return err
	}
	rows, err := s.QueryContext(context.Background(), c.named(args))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	n := len(rows.Columns())
	for len(c.row.values) < n {
		c.row.values = append(c.row.values, nil)
	}
	for {
		c.row.next, c.row.err = 0, nil
		err := rows.Next(c.row.values[:n])
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = each(&c.row)
		}
		if err == nil {
			err = c.row.err
		}
		if errors.Is(err, errStop) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
