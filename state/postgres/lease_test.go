package postgres

import (
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"holon/internal/procfs"
	"holon/state/ledger"
	"holon/test/expect"
	"holon/test/postgrestest"
)

func holderOf(s *Store) *holder { return s.Leases.(*holder) }

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	expect.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(t.Context()) })
	return conn
}

func makeAgents(t *testing.T, s *Store, ids ...string) {
	t.Helper()
	expect.NoError(t, s.Update(t.Context(), func(tx ledger.Tx) error {
		for _, id := range ids {
			if err := tx.Insert(&ledger.Agent{ID: id}, &ledger.AgentState{AgentID: id}); err != nil {
				return err
			}
		}
		return nil
	}))
}

func take(t *testing.T, s *Store, wanted ...string) []string {
	t.Helper()
	taken, err := s.Take(t.Context(), wanted)
	expect.NoError(t, err)
	slices.Sort(taken)
	return taken
}

// Two stores write one ledger; each learns of what the other commits. Each takes its share of the agents, and what one
// has the other has not.
func testShared(t *testing.T, server *postgrestest.Server) {
	url := server.Database(t)
	a, b := openAt(t, url), openAt(t, url)
	makeAgents(t, a, "a", "b", "c", "c.abcdefgh")
	changed, any := b.Changed("a"), b.Changed("")
	expect.NoError(t, a.Update(t.Context(), tell))
	<-changed
	<-any
	expect.NoError(t, b.Update(t.Context(), tell))
	expect.Equal(t, "events", newest(t, a), 2)

	first := take(t, a, "a", "b", "c")
	expect.Equal(t, "taken by the first", len(first), 3) // two of three, and the sessions
	second := take(t, b, "a", "b", "c")
	expect.Equal(t, "taken by the second", len(second), 1)
	expect.Equal(t, "taken again", len(take(t, a, "a", "b", "c"))+len(take(t, b, "a", "b", "c")), 0)
	for _, id := range []string{"a", "b", "c"} {
		if slices.Contains(first, id) != a.Held(id) || slices.Contains(second, id) != b.Held(id) ||
			a.Held(id) == b.Held(id) {
			t.Errorf("%s: held by the first %v, by the second %v", id, a.Held(id), b.Held(id))
		}
	}
	expect.Equal(t, "a child goes with its agent", a.Held("c.abcdefgh"), a.Held("c"))
	expect.NoError(t, a.Check(t.Context(), first[1]))
	wantCode(t, b.Check(t.Context(), first[1]), ledger.CodeElsewhere)
	expect.NoError(t, b.Check(t.Context(), "new"))
	wantCode(t, a.Check(t.Context(), "new"), ledger.CodeElsewhere)

	expect.NoError(t, a.Close())
	wantCode(t, b.Check(t.Context(), first[1]), ledger.CodeElsewhere) // until it is taken, with what runs
	expect.Equal(t, "taken after the end of the first", fmt.Sprint(take(t, b)), fmt.Sprint(first))
	expect.NoError(t, b.Check(t.Context(), first[1]))
	expect.NoError(t, b.Close())
}

// A process that has more agents than its share gives up those that have nothing to do, and one that came later takes
// them; one with a tree, or with something to do, stays.
func testGiven(t *testing.T, server *postgrestest.Server) {
	url := server.Database(t)
	a := openAt(t, url)
	makeAgents(t, a, "a", "b", "c", "d", "d.abcdefgh", "e", "f")
	give := func(s *Store, ids *[]string) {
		t.Helper()
		expect.NoError(t, s.Give(t.Context(), func(id string, give func() error) error {
			*ids = append(*ids, id)
			return give()
		}))
	}
	expect.Equal(t, "taken alone", len(take(t, a, "a", "b", "c", "d", "e", "f")), 7)
	expect.NoError(t, a.Update(t.Context(), func(tx ledger.Tx) error {
		return errors.Join(tx.Insert(&ledger.Attempt{ID: "1", AgentID: "a", Status: ledger.AttemptOpen}),
			tx.Insert(&ledger.Tree{AgentID: "b", Name: "t", Status: ledger.TreeActive}),
			tx.Insert(&ledger.Task{ID: "1", AgentID: "d.abcdefgh"}))
	}))
	var given []string
	give(a, &given)
	expect.Equal(t, "given up by one that is alone", len(given), 0)
	b := openAt(t, url)
	await(t, func() bool { give(a, &given); return len(given) > 0 })
	slices.Sort(given)
	expect.Equal(t, "given up", fmt.Sprint(given), "[c e f]")
	expect.Equal(t, "taken back", len(take(t, a)), 0)
	expect.Equal(t, "taken by the other", fmt.Sprint(take(t, b)), "[c e f]")
	for id, fence := range map[string]int64{"c": a.Fence("c"), "a": b.Fence("a")} {
		expect.Equal(t, "fence of "+id, fence, 0)
	}
	again := []string{}
	holderOf(a).mu.Lock()
	holderOf(a).renewed = true
	holderOf(a).mu.Unlock()
	give(a, &again)
	expect.Equal(t, "given up again", len(again), 0)
	// Of one of which it is not known whether it was given up, this process finds that it was not.
	holderOf(b).mu.Lock()
	delete(holderOf(b).held, "c")
	holderOf(b).mu.Unlock()
	expect.Equal(t, "found", fmt.Sprint(take(t, b, "c")), "[c]")
	expect.Equal(t, "held", b.Held("c"), true)
	expect.NoError(t, errors.Join(a.Close(), b.Close()))
}

// A process that lost its leases writes nothing any more, not even what it has begun, and hears of it.
func testLost(t *testing.T, server *postgrestest.Server) {
	url := server.Database(t)
	a, b := openAt(t, url), openAt(t, url)
	expect.NoError(t, a.Update(t.Context(), tell))
	expect.Equal(t, "taken", fmt.Sprint(take(t, a, "a")), "[/sessions a]")
	execute(t, url, "DELETE FROM holders WHERE id = $1", holderOf(a).id)
	wantCode(t, a.Update(t.Context(), tell), ledger.CodeLeaseLost)
	<-a.Lost()
	_, err := a.Take(t.Context(), []string{"b"})
	wantCode(t, err, ledger.CodeLeaseLost)
	expect.Equal(t, "taken by the other", fmt.Sprint(take(t, b)), "[/sessions a]")
	expect.NoError(t, b.Update(t.Context(), tell))
	expect.Equal(t, "events", newest(t, a), 2) // it reads
	expect.NoError(t, a.Close())
	expect.NoError(t, b.Close())
}

const expired = "UPDATE holders SET expires_at = clock_timestamp() - interval '1 second' WHERE id = $1"

// A process that was silent is evicted, but not by one that was silent too.
func testSilent(t *testing.T, server *postgrestest.Server) {
	url := server.Database(t)
	s, err := Open(t.Context(), Options{URL: url, unattended: true})
	expect.NoError(t, err)
	defer s.Close()
	h, conn := holderOf(s), connect(t, url)
	execute(t, url, "INSERT INTO holders VALUES ('other', 'elsewhere', '{}', '', '', clock_timestamp())")
	execute(t, url, expired, h.id)
	inTime, err := h.renew(t.Context(), conn)
	expect.NoError(t, err)
	expect.Equal(t, "renewed in time", inTime, false)
	expect.NoError(t, h.evict(t.Context(), conn, inTime))
	expect.Equal(t, "holders", count(t, conn), 2)
	inTime, err = h.renew(t.Context(), conn)
	expect.NoError(t, err)
	expect.NoError(t, h.evict(t.Context(), conn, inTime))
	expect.Equal(t, "holders", count(t, conn), 1)
}

// Leases end by the clock of the database, also where that is an hour off those of the processes.
func testClocks(t *testing.T, server *postgrestest.Server) {
	for _, off := range []string{"1 hour", "-1 hour"} {
		url := server.Database(t)
		execute(t, url, "CREATE FUNCTION public.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS "+
			"$$ SELECT pg_catalog.clock_timestamp() + interval '"+off+"' $$")
		url += "&search_path=public,pg_catalog"
		conn := connect(t, url)
		var both []*Store
		for range 2 {
			s, err := Open(t.Context(), Options{URL: url, unattended: true})
			expect.NoError(t, err)
			defer s.Close()
			both = append(both, s)
		}
		for _, s := range both {
			inTime, err := holderOf(s).renew(t.Context(), conn)
			expect.NoError(t, err)
			expect.Equal(t, "renewed in time, "+off, inTime, true)
			expect.NoError(t, holderOf(s).evict(t.Context(), conn, true))
			expect.Equal(t, "holders, "+off, count(t, conn), 2)
		}
		execute(t, url, expired, holderOf(both[0]).id)
		expect.NoError(t, holderOf(both[1]).evict(t.Context(), conn, true))
		expect.Equal(t, "holders once one is silent, "+off, count(t, conn), 1)
	}
}

// A process of this host that has ended is evicted at once, by one that begins too.
func testEnded(t *testing.T, server *postgrestest.Server) {
	url := server.Database(t)
	s := openAt(t, url)
	cmd := exec.Command("sleep", "60")
	expect.NoError(t, cmd.Start())
	process, err := procfs.Identify(cmd.Process.Pid)
	expect.NoError(t, err)
	text, err := json.Marshal(process)
	expect.NoError(t, err)
	execute(t, url, "INSERT INTO holders VALUES ('other', $1, $2, '', '', clock_timestamp() + interval '1 hour')",
		holderOf(s).host, string(text))
	conn := connect(t, url)
	expect.NoError(t, holderOf(s).evict(t.Context(), conn, true))
	expect.Equal(t, "holders", count(t, conn), 2)
	expect.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait() // it was killed
	expect.NoError(t, s.Close())
	s = openAt(t, url)
	expect.Equal(t, "holders", count(t, conn), 1)
	expect.NoError(t, s.Close())
	expect.Equal(t, "holders at the end", count(t, conn), 0)
}

func count(t *testing.T, conn *pgx.Conn) (n int) {
	t.Helper()
	expect.NoError(t, conn.QueryRow(t.Context(), "SELECT count(*) FROM holders").Scan(&n))
	return n
}

func testOtherHome(t *testing.T, server *postgrestest.Server) {
	url := server.Database(t)
	s := openAt(t, url)
	_, err := Open(t.Context(), Options{URL: url, Home: "/other"})
	wantCode(t, err, ledger.CodeLocked)
	expect.NoError(t, s.Close())
	s, err = Open(t.Context(), Options{URL: url, Home: "/other"})
	expect.NoError(t, err)
	expect.NoError(t, s.Close())
}

// A store whose connection was lost goes on with another one, but not in a database with another history.
func testRestored(t *testing.T, server *postgrestest.Server) {
	url := server.Database(t)
	s := openAt(t, url)
	defer s.Close()
	const cutOff = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1"
	expect.NoError(t, s.Update(t.Context(), tell))
	execute(t, url, cutOff, "holon "+holderOf(s).id)
	expect.NoError(t, s.Update(t.Context(), tell))
	execute(t, url, "UPDATE meta SET value = 'other' WHERE key = 'epoch'")
	execute(t, url, cutOff, "holon "+holderOf(s).id)
	wantCode(t, s.Update(t.Context(), tell), ledger.CodeLocked)
	<-s.Lost()
	expect.Equal(t, "events", newest(t, s), 2)
}

// A process that can read its ledger and not write it says so, until it can.
func testProblem(t *testing.T, server *postgrestest.Server) {
	url := server.Database(t)
	s := openAt(t, url)
	expect.NoError(t, s.Problem())
	other := server.Database(t)
	place, _, _ := strings.Cut(url, "?")
	set := func(value string) {
		execute(t, other, "ALTER DATABASE "+path.Base(place)+" SET default_transaction_read_only = "+value)
		execute(t, other, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '"+path.Base(place)+"'")
	}
	set("on")
	await(t, func() bool { return s.Problem() != nil })
	wantCode(t, s.Problem(), ledger.CodeLedgerAway)
	set("off")
	await(t, func() bool { return s.Problem() == nil })
}

func await(t *testing.T, condition func() bool) {
	t.Helper()
	for !condition() {
		select {
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		case <-time.After(10 * time.Millisecond):
		}
	}
}
