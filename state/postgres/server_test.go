package postgres

import (
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"holon/state"
	"holon/state/ledger"
	"holon/state/sqlstore"
	"holon/test/expect"
	"holon/test/postgrestest"
)

// tell makes agent a, if need be, and appends an event of it.
func tell(tx ledger.Tx) error {
	s, err := tx.AgentState("a")
	if state.IsCode(err, ledger.CodeNotFound) {
		s = ledger.AgentState{AgentID: "a"}
		err = tx.Insert(&ledger.Agent{ID: "a"}, &s)
	}
	if err != nil {
		return err
	}
	return tx.Step(&s, ledger.Event{Level: 4})
}

func newest(t *testing.T, s ledger.Store) int64 {
	t.Helper()
	page, err := ledger.Read(t.Context(), s, func(v ledger.View) (ledger.EventPage, error) {
		return v.Events("a", ledger.EventQuery{})
	})
	expect.NoError(t, err)
	expect.Equal(t, "events without a gap", int64(len(page.Events)), page.Newest)
	return page.Newest
}

func wantCode(t *testing.T, err error, code state.Code) {
	t.Helper()
	if e, ok := errors.AsType[*state.Error](err); !ok || e.Code != code || e.Hint == "" {
		t.Errorf("error %v, want one with code %s and a hint", err, code)
	}
}

func execute(t *testing.T, url, text string, args ...any) {
	t.Helper()
	db, err := sql.Open("pgx", url)
	expect.NoError(t, err)
	defer db.Close()
	_, err = db.Exec(text, args...)
	expect.NoError(t, err)
}

// A database that was dropped, and made again without its tables, is named as what is wrong.
func TestTablesAreGone(t *testing.T) {
	t.Parallel()
	url := postgrestest.New(t).Database(t)
	s := openAt(t, url)
	defer s.Close()
	execute(t, url, "DROP SCHEMA public CASCADE")
	execute(t, url, "CREATE SCHEMA public")
	read := s.View(t.Context(), func(v ledger.View) error { _, err := v.Agents(); return err })
	for doing, err := range map[string]error{"read": read, "write": s.Update(t.Context(), tell)} {
		wantCode(t, err, ledger.CodeLedgerAway)
		if e, ok := errors.AsType[*state.Error](err); !ok || e.Param != "ledger" {
			t.Errorf("%s: error %v, want one that names the parameter ledger", doing, err)
		}
	}
}

// While the server is away there is a typed error; after it came back everything that was acknowledged is there, and
// the store goes on.
func TestServerRestarts(t *testing.T) {
	t.Parallel()
	server := postgrestest.New(t)
	s := openAt(t, server.Database(t))
	defer s.Close()
	for n, how := range []syscall.Signal{syscall.SIGINT, syscall.SIGQUIT} {
		expect.NoError(t, s.Update(t.Context(), tell))
		expect.Equal(t, "events", newest(t, s), int64(2*n+1))
		server.Stop(t, how)
		wantCode(t, s.Update(t.Context(), tell), ledger.CodeLedgerAway)
		wantCode(t, s.View(t.Context(), func(v ledger.View) error { _, err := v.Agents(); return err }),
			ledger.CodeLedgerAway)
		server.Start(t)
		expect.NoError(t, s.Update(t.Context(), tell))
		expect.Equal(t, "events", newest(t, s), int64(2*n+2))
	}
	// It goes away within an update.
	err := s.Update(t.Context(), func(tx ledger.Tx) error {
		expect.NoError(t, tell(tx))
		server.Stop(t, syscall.SIGINT)
		return tell(tx)
	})
	wantCode(t, err, ledger.CodeLedgerAway)
	server.Start(t)
	expect.Equal(t, "events", newest(t, s), 4)
}

// A server that hangs holds up nothing for ever, and the store goes on when it answers again.
func TestServerHangs(t *testing.T) {
	t.Parallel()
	server := postgrestest.New(t)
	s, err := Open(t.Context(), Options{URL: server.Database(t), within: time.Hour, patience: time.Second})
	expect.NoError(t, err)
	defer s.Close()
	expect.NoError(t, s.Update(t.Context(), tell))
	expect.Equal(t, "events", newest(t, s), 1)
	server.Hang(t)
	for range 2 { // on connections that there are, and on new ones
		wantCode(t, s.Update(t.Context(), tell), ledger.CodeLedgerAway)
		wantCode(t, s.View(t.Context(), func(v ledger.View) error { _, err := v.Agents(); return err }),
			ledger.CodeLedgerAway)
	}
	server.Resume(t)
	expect.NoError(t, s.Update(t.Context(), tell))
	expect.Equal(t, "events at the end", newest(t, s), 2)
}

// A server that hangs within an update holds it up no longer than an answer may take.
func TestServerHangsInUpdate(t *testing.T) {
	t.Parallel()
	server := postgrestest.New(t)
	s, err := Open(t.Context(), Options{URL: server.Database(t), within: time.Second})
	expect.NoError(t, err)
	defer s.Close()
	wantCode(t, s.Update(t.Context(), func(tx ledger.Tx) error {
		expect.NoError(t, tell(tx))
		server.Hang(t)
		return tell(tx)
	}), ledger.CodeLedgerAway)
	server.Resume(t)
	expect.NoError(t, s.Update(t.Context(), tell))
	expect.Equal(t, "events", newest(t, s), 1)
}

// While only a standby answers, nothing is written; once it has taken over, a process that had the ledger open before
// has to end, and another start goes on with all that the standby has.
func TestFailover(t *testing.T) {
	t.Parallel()
	server := postgrestest.New(t)
	first := server.Database(t)
	standby := server.Standby(t)
	url := first + "," + filepath.Dir(standby.Socket())
	s := openAt(t, url)
	expect.NoError(t, s.Update(t.Context(), tell))
	epoch := s.Epoch()
	copied := connect(t, strings.Replace(first, filepath.Dir(server.Socket()), filepath.Dir(standby.Socket()), 1))
	await(t, func() bool {
		var n int
		return copied.QueryRow(t.Context(), "SELECT count(*) FROM events").Scan(&n) == nil && n == 1
	})
	server.Stop(t, syscall.SIGQUIT)
	err := s.Update(t.Context(), tell)
	wantCode(t, err, ledger.CodeLedgerAway)
	if e, ok := errors.AsType[*state.Error](err); !ok || !strings.Contains(e.Hint, "primary") {
		t.Errorf("a standby refused with %v, want a hint at the primary server", err)
	}
	standby.Promote(t)
	wantCode(t, s.Update(t.Context(), tell), ledger.CodeLocked)
	<-s.Lost()
	expect.NoError(t, s.Close())
	s = openAt(t, url)
	defer s.Close()
	expect.Equal(t, "events after the failover", newest(t, s), 1)
	expect.NoError(t, s.Update(t.Context(), tell))
	if s.Epoch() == epoch || s.EpochOf("a", 1) != epoch {
		t.Errorf("epoch %s after %s, of the event before %s", s.Epoch(), epoch, s.EpochOf("a", 1))
	}
}

// While the disk is full, what does not fit is refused, and the store goes on once there is room.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	url, dir := postgrestest.New(t).Small(t, 64<<20)
	s := openAt(t, url)
	defer s.Close()
	expect.NoError(t, s.Update(t.Context(), tell))
	filler, err := os.Create(filepath.Join(dir, "filler"))
	expect.NoError(t, err)
	_, err = io.Copy(filler, zeros{})
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("the disk is not full: %v", err)
	}
	told := int64(1)
	for err = nil; err == nil && told < 10_000; told++ {
		err = s.Update(t.Context(), tell)
	}
	wantCode(t, err, ledger.CodeLedgerFull)
	told-- // which was refused
	expect.Equal(t, "events while the disk is full", newest(t, s), told)
	expect.NoError(t, errors.Join(filler.Close(), os.Remove(filler.Name())))
	expect.NoError(t, s.Update(t.Context(), tell))
	expect.Equal(t, "events at the end", newest(t, s), told+1)
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// An update that waits for another session too long is refused, and leaves nothing.
func testLocked(t *testing.T, server *postgrestest.Server) {
	url := server.Database(t)
	s, err := Open(t.Context(), Options{URL: url + "&lock_timeout=100"})
	expect.NoError(t, err)
	defer s.Close()
	expect.NoError(t, s.Update(t.Context(), tell))
	other := connect(t, url)
	for _, lock := range []string{"LOCK TABLE events IN EXCLUSIVE MODE",
		fmt.Sprintf("SELECT pg_advisory_xact_lock(%d, %d)", lockClass, lockObject)} {
		held, err := other.Begin(t.Context())
		expect.NoError(t, err)
		_, err = held.Exec(t.Context(), lock)
		expect.NoError(t, err)
		wantCode(t, s.Update(t.Context(), tell), ledger.CodeLedgerAway)
		expect.NoError(t, held.Rollback(t.Context()))
	}
	expect.NoError(t, s.Update(t.Context(), tell))
	expect.Equal(t, "events", newest(t, s), 2)
}

// A transaction whose client is silent, or waits for a lock too long, is ended by the server.
func testBounds(t *testing.T, server *postgrestest.Server) {
	config, err := parse(server.Database(t) + "&statement_timeout=100")
	expect.NoError(t, err)
	bound(config, 0)
	conn, err := pgx.ConnectConfig(t.Context(), config)
	expect.NoError(t, err)
	defer conn.Close(t.Context())
	_, err = conn.Exec(t.Context(), "SELECT pg_sleep(60)")
	wantCode(t, failed("sleep", err), ledger.CodeLedgerAway)
}

// Events keep their epoch, and new ones have another in a database that was copied or restored.
func testEpoch(t *testing.T, server *postgrestest.Server) {
	first := server.Database(t)
	s := openAt(t, first)
	expect.NoError(t, s.Update(t.Context(), tell))
	epoch, runtime := s.Epoch(), s.RuntimeID()
	expect.NoError(t, s.Close())
	s = openAt(t, first)
	expect.Equal(t, "epoch after another start", s.Epoch(), epoch)
	expect.NoError(t, s.Close())

	u, err := url.Parse(first)
	expect.NoError(t, err)
	s = openAt(t, server.Copy(t, strings.TrimPrefix(u.Path, "/")))
	defer s.Close()
	expect.NoError(t, s.Update(t.Context(), tell))
	if s.Epoch() == epoch || s.EpochOf("a", 1) != epoch || s.EpochOf("a", 2) != s.Epoch() ||
		s.SharedThrough("a", epoch) != 1 || s.RuntimeID() != runtime {
		t.Errorf("after %s: epoch %s, of the events %s and %s, shared through %d", epoch, s.Epoch(), s.EpochOf("a", 1),
			s.EpochOf("a", 2), s.SharedThrough("a", epoch))
	}
}

func testOpenRefuses(t *testing.T, server *postgrestest.Server) {
	url := server.Database(t)
	expect.NoError(t, openAt(t, url).Close())
	execute(t, url, "INSERT INTO holon_schema_version (version_id, is_applied) VALUES (99, true)")
	_, err := Open(t.Context(), Options{URL: url})
	wantCode(t, err, ledger.CodeUnreadable)
	standby := server.Database(t)
	execute(t, standby, "CREATE ROLE guest LOGIN; CREATE ROLE stranger")
	place, _, _ := strings.Cut(standby, "?")
	execute(t, standby, "ALTER DATABASE "+path.Base(place)+" SET default_transaction_read_only = on")
	for from, remedy := range map[string]string{
		url + "x":                                "runs and can be reached",
		strings.Replace(url, "/d", "/absent", 1): "createdb",
		standby:                                  "primary",
		strings.Replace(url, "holon@", "nobody@", 1):               "PGPASSWORD",
		strings.Replace(url, "holon@", "stranger@", 1):             "PGPASSWORD",
		strings.Replace(server.Database(t), "holon@", "guest@", 1): "owner",
	} {
		_, err := Open(t.Context(), Options{URL: from})
		wantCode(t, err, ledger.CodeLedgerAway)
		if e, ok := errors.AsType[*state.Error](err); !ok || !strings.Contains(e.Hint, remedy) {
			t.Errorf("%s: %v, want a remedy with %q", from, err, remedy)
		}
	}
}

// PostgreSQL takes every statement of its own form, and reads no whole table of an agent's history for it, although it
// knows nothing of the tables yet; those for records are read by the suite.
func testStatements(t *testing.T, server *postgrestest.Server) {
	url := server.Database(t)
	expect.NoError(t, openAt(t, url).Close())
	config, err := parse(url)
	expect.NoError(t, err)
	bound(config, 0)
	conn, err := pgx.ConnectConfig(t.Context(), config)
	expect.NoError(t, err)
	defer conn.Close(t.Context())
	for name, text := range sqlstore.Statements() {
		if other, ok := own[name]; ok {
			text = other
		}
		if strings.HasPrefix(text, "WHERE") {
			continue
		}
		if _, err := conn.Prepare(t.Context(), "asked", dialect{}.Bind(text)); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		explain := "EXPLAIN EXECUTE asked"
		if n := strings.Count(text, "?"); n > 0 {
			explain += "(" + strings.Repeat("NULL, ", n-1) + "NULL)"
		}
		rows, err := conn.Query(t.Context(), explain)
		expect.NoError(t, err)
		plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
		expect.NoError(t, err)
		for _, step := range plan {
			if strings.Contains(step, "Seq Scan on events") || strings.Contains(name, "bounds") && strings.Contains(step, "Sort") {
				t.Errorf("%s: %s", name, strings.Join(plan, "\n"))
				break
			}
		}
		expect.NoError(t, conn.Deallocate(t.Context(), "asked"))
	}
}
