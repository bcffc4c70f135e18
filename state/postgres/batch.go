package postgres

import (
	"context"
	"database/sql"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"holon/state/sqlstore"
)

// Opening implements sqlstore.Batches.
func (d dialect) Opening() []sqlstore.Statement {
	return []sqlstore.Statement{{Text: "BEGIN"}, {Text: begins, Args: []any{lockClass, lockObject, d.holder.id}}}
}

// Opened implements sqlstore.Batches.
func (d dialect) Opened(a sqlstore.Answer) error {
	if _, may := a.Rows[0][0].(string); !may {
		return d.holder.ended()
	}
	return nil
}

// Rollback implements sqlstore.Batches.
func (dialect) Rollback(conn *sql.Conn) {
	_ = conn.Raw(func(c any) error { // one that is lost has ended its transaction
		pg := c.(*stdlib.Conn).Conn().PgConn()
		if pg.IsClosed() || pg.TxStatus() == 'I' {
			return nil
		}
		return pg.Exec(context.Background(), "ROLLBACK").Close() // answerWithin bounds it
	})
}

// Send implements sqlstore.Batches. answerWithin bounds it, too.
func (dialect) Send(ctx context.Context, conn *sql.Conn, all []sqlstore.Statement) (answers []sqlstore.Answer,
	err error) {
	err = conn.Raw(func(c any) error {
		var b pgx.Batch
		for _, s := range all {
			b.Queue(s.Text, s.Args...)
		}
		results := c.(*stdlib.Conn).Conn().SendBatch(ctx, &b)
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
