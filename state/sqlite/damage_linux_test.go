package sqlite

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"holon/state"
	"holon/state/ledger"
	"holon/test/expect"
	"holon/test/memory"
)

// dataTables have a record as JSON.
var dataTables = []string{"agents", "agent_states", "messages", "attempts", "turns", "waits", "timers", "triggers", "briefs",
	"notifications"}

// filledStore has one row in each of them, and an event.
func filledStore(t testing.TB) *store {
	t.Helper()
	s := openAt(t, newPath(t))
	t.Cleanup(func() { _ = s.Close() })
	appendTo(t, s, 1)
	expect.NoError(t, s.Update(t.Context(), func(tx ledger.Tx) error {
		return errors.Join(
			tx.Insert(&ledger.Message{ID: "x", AgentID: "a", Number: 1},
				&ledger.Entry{MessageID: "x", AgentID: "a", Number: 1, Status: ledger.Queued}),
			tx.Insert(&ledger.Attempt{ID: "x", AgentID: "a", Status: ledger.AttemptOpen}),
			tx.Insert(&ledger.Turn{ID: "x", AgentID: "a", Index: 1}),
			tx.Insert(&ledger.Wait{ID: "x", AgentID: "a", Owner: "agent", Status: ledger.WaitActive}),
			tx.Insert(&ledger.Timer{ID: "x", AgentID: "a"}),
			tx.Insert(&ledger.Trigger{ID: "x", AgentID: "a"}),
			tx.Insert(&ledger.Brief{ID: "x", AgentID: "a"}),
			tx.Insert(&ledger.Notification{ID: "x", AgentID: "a"}))
	}))
	return s
}

// readAll reads one row of each of dataTables, then the attempt by its id and the event.
func readAll(v ledger.View) (errs []error) {
	keep := func(_ any, err error) { errs = append(errs, err) }
	keep(v.Agent("a"))
	keep(v.AgentState("a"))
	keep(v.Message("x"))
	_, _, err := v.OpenAttempt("a")
	errs = append(errs, err)
	keep(v.Turn("x"))
	keep(v.Wait("x"))
	keep(v.Timer("x"))
	keep(v.Trigger("x"))
	keep(v.Briefs("a", 1))
	keep(v.Notifications("a", 1))
	keep(v.Attempt("x"))
	keep(v.Events("a", ledger.EventQuery{}))
	return errs
}

func FuzzDamagedRecord(f *testing.F) {
	for _, text := range []string{"", "{", "null", "[]", "7", `{"agent_id":7}`, `{"created_at":"yesterday"}`,
		`{"wake_sources":{}}`, "\xff\x00", strings.Repeat("[", 100_000), "{}"} {
		f.Add(text)
	}
	s := filledStore(f)
	f.Fuzz(func(t *testing.T, text string) {
		for i, table := range dataTables {
			if _, err := s.writer.Exec("UPDATE "+table+" SET data = ?", text); err != nil {
				t.Fatal(err)
			}
			err := s.View(t.Context(), func(v ledger.View) error { return readAll(v)[i] })
			if err != nil && !state.IsCode(err, ledger.CodeUnreadable) {
				t.Errorf("%s with %q: %v", table, text, err)
			}
			if err == nil && !strings.HasPrefix(strings.TrimSpace(text), "{") && strings.TrimSpace(text) != "null" {
				t.Errorf("%s: %q was read", table, text)
			}
		}
	})
}

// A page that is damaged gives errors and no panic, and what is elsewhere can be
// read.
func FuzzDamagedFile(f *testing.F) {
	s := filledStore(f)
	expect.NoError(f, s.Close())
	whole, err := os.ReadFile(s.path)
	expect.NoError(f, err)
	f.Add(uint32(0), []byte("SQLite"))
	stride := 1777
	if testing.Short() {
		stride = 7777
	}
	for at := 18; at < len(whole); at += stride {
		f.Add(uint32(at), []byte{0xff, 0, 0x7f, 0x80, 1})
	}
	f.Fuzz(func(t *testing.T, at uint32, with []byte) {
		damaged := append([]byte(nil), whole...)
		copy(damaged[int(at)%len(damaged):], with)
		path := newPath(t)
		expect.NoError(t, os.WriteFile(path, damaged, 0o600))
		s, err := Open(t.Context(), Options{Path: path})
		if err != nil {
			return
		}
		_ = s.View(t.Context(), func(v ledger.View) error { return errors.Join(readAll(v)...) })
		_ = s.Update(t.Context(), func(tx ledger.Tx) error { return tell(tx, 1) })
		_ = s.Close()
	})
}

// fill updates until one is refused, and returns how many were not.
func fill(t *testing.T, s *store) int {
	t.Helper()
	for n := range 10_000 {
		err := s.Update(t.Context(), func(tx ledger.Tx) error {
			if err := tell(tx, 1); err != nil {
				return err
			}
			return tx.Insert(&ledger.Brief{ID: fmt.Sprint("b", time.Now().UnixNano()), AgentID: "a",
				Text: strings.Repeat("x", 20_000)})
		})
		if state.IsCode(err, ledger.CodeLedgerFull) {
			return n
		}
		if err != nil {
			t.Fatalf("update %d: %v", n, err)
		}
	}
	t.Fatal("the disk does not get full")
	return 0
}

func checkFull(t *testing.T, s *store, kept int) {
	t.Helper()
	if n := newestEvent(t, s); n != int64(kept) {
		t.Errorf("%d updates were acknowledged, the newest event is %d", kept, n)
	}
	if err := s.View(t.Context(), func(v ledger.View) error {
		briefs, err := v.Briefs("a", 10_000)
		if len(briefs) != kept {
			t.Errorf("%d updates were acknowledged, there are %d briefs", kept, len(briefs))
		}
		return err
	}); err != nil {
		t.Error(err)
	}
}

// A ledger that may have no more pages refuses what needs one, whole, and goes
// on when it may again.
func TestFull(t *testing.T) {
	t.Parallel()
	s := openAt(t, newPath(t))
	defer s.Close()
	appendTo(t, s, 0)
	script(t, s, "PRAGMA max_page_count = 150")
	kept := fill(t, s)
	checkFull(t, s, kept)
	script(t, s, "PRAGMA max_page_count = 100000")
	appendTo(t, s, 1)
	if n := newestEvent(t, s); n != int64(kept)+1 {
		t.Errorf("newest event %d, want %d", n, kept+1)
	}
}

// The same with a disk that is really full.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	dir := memory.Dir(t)
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=4m"); err != nil {
		t.Skip("no small disk can be mounted: ", err)
	}
	defer func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	}()
	s := openAt(t, filepath.Join(dir, "ledger.db"))
	defer s.Close()
	appendTo(t, s, 0)
	kept := fill(t, s)
	checkFull(t, s, kept)
	expect.NoError(t, unix.Mount("tmpfs", dir, "tmpfs", unix.MS_REMOUNT, "size=16m"))
	appendTo(t, s, 1)
	if n := newestEvent(t, s); n != int64(kept)+1 {
		t.Errorf("newest event %d, want %d", n, kept+1)
	}
}

// Rows beyond the retention free pages, which return to the file system bit by bit.
func TestPrunedFileShrinks(t *testing.T) {
	t.Parallel()
	s := openAt(t, newPath(t))
	defer s.Close()
	appendTo(t, s, 0)
	for range 8 {
		expect.NoError(t, s.Update(t.Context(), func(tx ledger.Tx) error {
			l, err := tx.AgentState("a")
			if err != nil {
				return err
			}
			events := make([]ledger.Event, 1000)
			for i := range events {
				events[i].Data = []byte(`"` + strings.Repeat("x", 1500) + `"`)
			}
			return tx.Step(&l, events...)
		}))
	}
	pages := func() int { return number(t, s, "SELECT page_count FROM pragma_page_count") }
	before := pages()
	for more := true; more; {
		var err error
		if more, err = s.Prune(t.Context(), ledger.Retention{MaxEvents: 10}, time.Now(), 500); err != nil {
			t.Fatal(err)
		}
	}
	switch after := pages(); {
	case before < 2*reservePages:
		t.Errorf("before = %d, want at least %d", before, 2*reservePages)
	case after > before-4*vacuumPages:
		t.Errorf("after = %d, want at most %d", after, before-4*vacuumPages)
	case after < before-20*vacuumPages:
		t.Errorf("after = %d, want at least %d", after, before-20*vacuumPages)
	}
}
