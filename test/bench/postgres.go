package main

import (
	"context"
	"database/sql"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver

	"holon/runner/agent/scheduler"
	"holon/state/postgres"
	"holon/test/load"
	"holon/test/postgrestest"
)

// measurePostgres is P38: what a message costs in a ledger in PostgreSQL. The floor is commits of one row each, of the
// same server, with everything that makes them durable.
func measurePostgres(ctx context.Context, r *rig) []row {
	server := load.Must(postgrestest.Make())
	r.later(server.Close)
	url := load.Must(server.Create(ctx, "template1"))
	store := load.Must(postgres.Open(ctx, postgres.Options{URL: url}))
	r.later(store.Close)
	w := &worker{store: store, steps: scheduler.New(store, scheduler.Options{Owner: "bench", Now: time.Now})}
	load.Must(w.steps.Create(ctx, scheduler.NewAgent{ID: workerID}))
	bare := load.Must(sql.Open("pgx", url))
	r.later(bare.Close)
	bare.SetMaxOpenConns(1)
	load.Must(bare.ExecContext(ctx, "CREATE TABLE bare (n BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, data TEXT)"))
	commit := func() { bareCommit(ctx, bare) }
	got := compare(ctx, r.plan(500, 30, 10),
		subject{"bare commits", func(context.Context) []float64 { return laps(commit, commit, commit) }},
		subject{"a message", w.handle})
	const against = "a commit of one row"
	rows := []row{versus("P38", "a message in PostgreSQL is admitted, claimed and settled", "three commits of one row",
		unitMS, got[1][0], got[0][0]).ratioGoal(3)}
	for n, what := range []string{"admitted", "claimed", "settled"} {
		rows = append(rows, versus("P38", "it is "+what, against, unitMS, got[1][n+1], got[0][n+1]).ratioGoal(3))
	}
	return rows
}

func bareCommit(ctx context.Context, db *sql.DB) {
	t := load.Must(db.BeginTx(ctx, nil))
	load.Must(t.ExecContext(ctx, "INSERT INTO bare (data) VALUES ($1)", prompt))
	load.Check(t.Commit())
}

// handle times what becomes of a message: it is admitted, claimed, and settled once its turn has begun.
func (w *worker) handle(ctx context.Context) []float64 {
	before := laps(func() { w.ask(ctx) }, func() { w.claim(ctx) })
	w.began(ctx)
	after := laps(func() { w.settle(ctx) })
	return []float64{before[0] + after[0], before[1], before[2], after[1]}
}
