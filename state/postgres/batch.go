package postgres

import (
	"context"
	"database/sql"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"holon/state/sqlstore"
)

// Opening implements sqlstore.Batches.
func (d dialect) Opening() (sqlstore.Statement, func(sqlstore.Answer) error) {
	s := sqlstore.Statement{Text: begins, Args: []any{lockClass, lockObject, d.holder.id}}
	return s, func(a sqlstore.Answer) error {
		if may, _ := a.Rows[0][0].(bool); !may {
			return d.holder.ended()
		}
		return nil
	}
}

// Send implements sqlstore.Batches. No context interrupts it, so that the outcome of a commit stays clear.
func (dialect) Send(conn *sql.Conn, all []sqlstore.Statement) (answers []sqlstore.Answer, err error) {
	if len(all) == 0 {
		return nil, nil
	}
	err = conn.Raw(func(c any) error {
		var b pgx.Batch
		for _, s := range all {
			b.Queue(s.Text, s.Args...)
		}
		results := c.(*stdlib.Conn).Conn().SendBatch(context.Background(), &b) // answerWithin bounds it
		for range all {
			a, err := answer(results)
			if err != nil {
				_ = results.Close() // it has the same error
				return err
			}
			answers = append(answers, a)
		}
		return results.Close()
	})
	return answers, err
}

func answer(results pgx.BatchResults) (a sqlstore.Answer, err error) {
	rows, err := results.Query()
	if err != nil {
		return a, err
	}
	defer rows.Close()
	for rows.Next() {
		values, err := rows.Values()
		if err != nil {
			return a, err
		}
		a.Rows = append(a.Rows, values)
	}
	a.Affected = rows.CommandTag().RowsAffected()
	return a, rows.Err()
}
