package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver

	"holon/state/sqlite"
	"holon/test/expect"
	"holon/test/load"
	"holon/test/postgrestest"
	"holon/test/torture/check"
)

// Of TestShared: processes, agents, kills, and the time between two of them.
const (
	sharing         = 3
	sharedAgents    = 30
	sharedKills     = 6
	betweenKills    = 10 * time.Second
	betweenShared   = 300 * time.Millisecond // letters
	longerThanLease = 25 * time.Second
)

// Three holon serve share a ledger, and one after another is killed, and comes back later, while agents work; at last
// one hangs until others have its agents, and ends when it goes on. No message is lost or taken twice, no result is lost,
// and no turn is begun twice.
func TestShared(t *testing.T) {
	if testing.Short() {
		t.Skip("full tier: three daemons are killed for a minute")
	}
	expect.NoError(t, needEngine(t.Context()))
	url := postgrestest.New(t).Database(t)
	servers := startShared(t, url)
	var agents []string
	for n := range sharedAgents {
		agents = append(agents, fmt.Sprintf("agent-%02d", n))
		expect.NoError(t, servers[n%sharing].Create(t.Context(), agents[n]))
	}
	sending, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	var letters []*load.Letter
	failed := make(chan error, 1<<16)
	all.Go(func() {
		for n := 0; load.Pause(sending, betweenShared) == nil; n++ {
			l := &load.Letter{Agent: agents[rand.IntN(len(agents))], Key: fmt.Sprintf("letter-%04d", n), Word: load.Run,
				Way:   []load.Way{load.Prompt, load.Enqueue, load.Webhook, load.Timer}[rand.IntN(4)],
				After: time.Duration(rand.IntN(300)+50) * time.Millisecond}
			letters = append(letters, l)
			through := servers[rand.IntN(sharing)]
			all.Go(func() { failed <- through.Send(t.Context(), l) })
		}
	})
	for n := range sharedKills {
		expect.NoError(t, load.Pause(t.Context(), betweenKills/2))
		victim := servers[n%sharing]
		victim.Kill()
		expect.NoError(t, load.Pause(t.Context(), betweenKills/2))
		expect.NoError(t, victim.Start(t.Context()))
	}
	hung := servers[0]
	hung.Signal(syscall.SIGSTOP)
	expect.NoError(t, load.Pause(t.Context(), longerThanLease))
	hung.Signal(syscall.SIGCONT)
	if code, err := hung.Wait(); err != nil || code != 1 {
		t.Errorf("one that hung and went on ended with code %d (%v), want 1", code, err)
	}
	expect.NoError(t, hung.Start(t.Context()))
	stop()
	all.Wait()
	close(failed)
	for err := range failed {
		expect.NoError(t, err)
	}
	quiet := func() error { return quietAfterCopy(t.Context(), url, servers[0].Ledger()) }
	if err := load.Eventually(t.Context(), load.Patience, quiet); err != nil {
		t.Fatalf("wait until every agent is idle: %v", err)
	}
	_, err := servers[0].Verify(t.Context(), agents, letters)
	expect.NoError(t, err)
	led, err := check.OpenLedger(servers[0].Ledger())
	expect.NoError(t, err)
	expect.NoError(t, errors.Join(led.Sound(t.Context()), led.Lawful(t.Context()), led.Recorded(t.Context()),
		led.Close()))
	acked := slices.DeleteFunc(slices.Clone(letters), func(l *load.Letter) bool { return !l.Acked })
	turns, lost, by := figures(t, url)
	t.Logf("%d kills, %d letters, %d acknowledged, %d turns, of which %d ended with their process; agents by process %s",
		sharedKills, len(letters), len(acked), turns, lost, by)
}

func startShared(t *testing.T, url string) (servers []*load.Server) {
	t.Helper()
	for n := range sharing {
		dir, err := os.MkdirTemp("", "sh")
		expect.NoError(t, err)
		o := load.Options{Dir: dir, Env: []string{"HOLON_LEDGER=" + url, "HOLON_MAX_CONTAINERS=4", "HOLON_IDLE_STOP=2s"}}
		if n > 0 {
			o.Beside, o.Model = servers[0], servers[0].Model()
		}
		s, err := load.New(o)
		expect.NoError(t, err)
		servers = append(servers, s)
		t.Cleanup(func() {
			s.Close()
			if t.Failed() {
				text, _ := os.ReadFile(filepath.Join(dir, "serve.log")) // it may not have begun
				t.Logf("%s\n%s", dir, text[max(0, len(text)-8<<10):])
			}
			_ = errors.Join(load.RemoveContainers(s.Home), os.RemoveAll(dir))
		})
		expect.NoError(t, s.Start(t.Context()))
	}
	return servers
}

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

func figures(t *testing.T, url string) (turns, lost int, by string) {
	t.Helper()
	db, err := sql.Open("pgx", url)
	expect.NoError(t, err)
	defer db.Close()
	expect.NoError(t, db.QueryRow("SELECT count(*), count(*) FILTER (WHERE data::json ->> 'lost' = 'true') FROM turns").
		Scan(&turns, &lost))
	expect.NoError(t, db.QueryRow("SELECT coalesce(string_agg(n::text, ', '), '') FROM "+
		"(SELECT count(*) AS n FROM leases GROUP BY holder) AS l").Scan(&by))
	return turns, lost, by
}
