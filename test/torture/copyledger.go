package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strings"

	"holon/state/sqlite"
	"holon/test/torture/check"
)

// quietAfterCopy copies the ledger into a file, which the checker reads, and looks whether anything is still to be
// done.
func quietAfterCopy(ctx context.Context, url, path string) error {
	if err := copyLedger(ctx, url, path); err != nil {
		return err
	}
	led, err := check.OpenLedger(path)
	if err != nil {
		return err
	}
	return errors.Join(led.Quiet(ctx), led.Close())
}

func copyLedger(ctx context.Context, url, path string) (err error) {
	_ = os.Remove(path) // there may be none
	made, err := sqlite.Open(ctx, sqlite.Options{Path: path + ".copy"})
	if err == nil {
		err = made.Close()
	}
	if err != nil {
		return err
	}
	db, err := sql.Open("pgx", url)
	if err != nil {
		return err
	}
	defer db.Close()
	from, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
	if err != nil {
		return err
	}
	defer from.Rollback()
	to, err := sql.Open("sqlite", "file:"+path+".copy?_pragma=foreign_keys(0)&_pragma=journal_mode(delete)")
	if err != nil {
		return err
	}
	tables, err := texts(ctx, to, "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'")
	for _, table := range tables {
		if err == nil {
			err = copyTable(ctx, from, to, table)
		}
	}
	return errors.Join(err, to.Close(), os.Rename(path+".copy", path))
}

func copyTable(ctx context.Context, from *sql.Tx, to *sql.DB, table string) error {
	columns, err := texts(ctx, to, "SELECT name FROM pragma_table_info('"+table+"')")
	if err != nil {
		return err
	}
	names := strings.Join(columns, ", ")
	rows, err := from.QueryContext(ctx, "SELECT "+names+" FROM "+table)
	if err != nil {
		return err
	}
	defer rows.Close()
	values, into := make([]any, len(columns)), make([]any, len(columns))
	for i := range values {
		into[i] = &values[i]
	}
	t, err := to.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer t.Rollback()
	_, err = t.ExecContext(ctx, "DELETE FROM "+table)
	for err == nil && rows.Next() {
		if err = rows.Scan(into...); err == nil {
			_, err = t.ExecContext(ctx, "INSERT INTO "+table+" ("+names+") VALUES (?"+
				strings.Repeat(", ?", len(columns)-1)+")", values...)
		}
	}
	if err = errors.Join(err, rows.Err()); err != nil {
		return fmt.Errorf("copy %s: %w", table, err)
	}
	return t.Commit()
}

func texts(ctx context.Context, db *sql.DB, query string) (list []string, err error) {
	rows, err := db.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	return list, rows.Err()
}
