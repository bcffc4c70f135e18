package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"holon/state"
	"holon/state/ledger"
	"holon/state/sqlstore"
)

// How long the outcome of a commit is asked for, and how often.
const (
	outcomeWithin = time.Minute
	outcomeEvery  = 200 * time.Millisecond
)

// Closing implements sqlstore.Batches.
func (d dialect) Closing(opened sqlstore.Answer, changed []string) (all []sqlstore.Statement) {
	shared, _ := opened.Rows[0][1].(bool)
	if payload := d.holder.payload(changed); shared && payload != "" {
		all = append(all, sqlstore.Statement{Text: "SELECT pg_notify($1, $2)", Args: []any{channel, payload}})
	}
	return append(all, sqlstore.Statement{Text: "COMMIT"})
}

// Outcome implements sqlstore.Batches. When the answer of a commit is lost, it asks what became of the transaction,
// while no other transaction of this process can begin.
func (d dialect) Outcome(opened sqlstore.Answer, err error) error {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok && e.Severity == "ERROR" {
		return err
	}
	id, _ := opened.Rows[0][0].(string)                                     // see Opened
	ctx, cancel := context.WithTimeout(context.Background(), outcomeWithin) // an outcome is owed also at the end
	defer cancel()
	again := time.NewTicker(outcomeEvery)
	defer again.Stop()
	for {
		switch d.outcome(ctx, id) {
		case "committed":
			return nil
		case "aborted":
			return away(err)
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return &state.Error{Code: ledger.CodeLedgerAway, Err: fmt.Errorf("commit to the ledger: %w", err),
				Message: "the database of the ledger went away, and whether it kept the change is not known",
				Hint:    "see that PostgreSQL runs and can be reached, then look at what was asked before it is asked again"}
		}
	}
}

// outcome is the state of a transaction, "" when it cannot be read.
func (d dialect) outcome(ctx context.Context, id string) string {
	var status string
	err := d.reader.QueryRowContext(ctx, "SELECT pg_xact_status($1::xid8)", id).Scan(&status)
	if e, ok := errors.AsType[*pgconn.PgError](err); ok && e.Code == invalidParameter {
		return "aborted" // the server has not come to this id: it was restored without the transaction
	}
	return status
}
