package main

import (
	"database/sql"
	"fmt"
	"os"
	"testing"
	"time"

	"holon/test/expect"
	"holon/test/load"
	"holon/test/postgrestest"
)

// Of TestSleepers: agents, and how long they sleep.
const (
	fewSleepers, manySleepers = 10, 1000
	asleep                    = time.Minute
)

// Agents that have nothing to do cost the database the same statements, however many there are: the poll.
func TestSleepers(t *testing.T) {
	if testing.Short() {
		t.Skip("full tier: a thousand agents sleep for a minute")
	}
	url := postgrestest.New(t, "shared_preload_libraries=pg_stat_statements").Database(t)
	db, err := sql.Open("pgx", url)
	expect.NoError(t, err)
	defer db.Close()
	statement := func(text string) {
		t.Helper()
		_, err := db.Exec(text)
		expect.NoError(t, err)
	}
	statement("CREATE EXTENSION pg_stat_statements")
	dir, err := os.MkdirTemp("", "sl")
	expect.NoError(t, err)
	s, err := load.New(load.Options{Dir: dir, Env: []string{"HOLON_LEDGER=" + url}})
	expect.NoError(t, err)
	t.Cleanup(func() { s.Close(); _ = os.RemoveAll(dir) })
	expect.NoError(t, s.Start(t.Context()))
	made := 0
	sleep := func(agents int) (calls int) {
		for ; made < agents; made++ {
			expect.NoError(t, s.Create(t.Context(), fmt.Sprintf("agent-%04d", made)))
		}
		expect.NoError(t, load.Pause(t.Context(), 5*time.Second)) // what follows the last commit is over
		statement("SELECT pg_stat_statements_reset()")
		expect.NoError(t, load.Pause(t.Context(), asleep))
		rows, err := db.Query("SELECT calls, query FROM pg_stat_statements JOIN pg_database ON oid = dbid " +
			"WHERE datname = current_database() AND query NOT LIKE '%pg_stat_statements%' ORDER BY calls DESC, query")
		expect.NoError(t, err)
		defer rows.Close()
		for rows.Next() {
			var n int
			var query string
			expect.NoError(t, rows.Scan(&n, &query))
			calls += n
			t.Logf("%4d agents: %4d × %.200q", agents, n, query)
		}
		expect.NoError(t, rows.Err())
		t.Logf("%4d agents: %d statements in %v, resident memory %.1f MB", agents, calls, asleep,
			load.Resident(s.PID())/1e6)
		return calls
	}
	few := sleep(fewSleepers)
	if many := sleep(manySleepers); many > few+few/4 {
		t.Errorf("%d agents asleep cost %d statements in %v, and %d cost %d", manySleepers, many, asleep, fewSleepers, few)
	}
}
