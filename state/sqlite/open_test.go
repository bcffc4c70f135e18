package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holon/state"
	"holon/state/ledger"
	"holon/test/expect"
	"holon/test/memory"
)

func TestLock(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	s := openAt(t, path)
	_, err := Open(t.Context(), Options{Path: path})
	if !state.IsCode(err, ledger.CodeLocked) || !strings.Contains(err.Error(), fmt.Sprintf("process %d", os.Getpid())) {
		t.Errorf("error %v, want one that names the holder", err)
	}
	if _, err := Restore(t.Context(), path, path, true); !state.IsCode(err, ledger.CodeLocked) {
		t.Errorf("restore over an open ledger: %v", err)
	}
	expect.NoError(t, s.Close())
	expect.NoError(t, openAt(t, path).Close())
}

func TestFilesAreTheOwnersAlone(t *testing.T) {
	t.Parallel()
	dir := memory.Dir(t)
	s := openAt(t, filepath.Join(dir, "led ger?#%.db")) // a name that a URI would take apart
	defer s.Close()
	appendTo(t, s, 1)
	names := []string{}
	expect.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		names = append(names, d.Name())
		if err == nil && info.Mode() != 0o600 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		return err
	}))
	if len(names) != 4 { // the ledger, its lock, log and index of the log
		t.Errorf("files %q", names)
	}
}

// appendTo makes agent a, if need be, and n events of it, each in an update.
func appendTo(t testing.TB, s *store, n int) {
	t.Helper()
	err := s.Update(t.Context(), func(tx ledger.Tx) error {
		if _, err := tx.Agent("a"); err == nil {
			return nil
		}
		return tx.Insert(&ledger.Agent{ID: "a"}, &ledger.AgentState{AgentID: "a"})
	})
	for range n {
		if err == nil {
			err = s.Update(t.Context(), func(tx ledger.Tx) error { return tell(tx, 1) })
		}
	}
	expect.NoError(t, err)
}

// tell appends n events of agent a.
func tell(tx ledger.Tx, n int) error {
	l, err := tx.AgentState("a")
	if err != nil {
		return err
	}
	return tx.Step(&l, make([]ledger.Event, n)...)
}

// script runs statements on the writer.
func script(t testing.TB, s *store, text string) {
	t.Helper()
	if _, err := s.writer.Exec(text); err != nil {
		t.Fatal(err)
	}
}

// number returns what a statement of one row answers.
func number(t testing.TB, s *store, text string) (n int) {
	t.Helper()
	expect.NoError(t, s.writer.QueryRow(text).Scan(&n))
	return n
}

func newestEvent(t testing.TB, s *store) (n int64) {
	t.Helper()
	expect.NoError(t, s.View(t.Context(), func(v ledger.View) error {
		page, err := v.Events("a", ledger.EventQuery{Limit: 1})
		n = page.Newest
		return err
	}))
	return n
}

func TestOpenRefusesWhatIsNoLedger(t *testing.T) {
	t.Parallel()
	foreign := func(script string) func(path string) error {
		return func(path string) error {
			db, err := dial(path, url.Values{})
			if err == nil {
				_, err = db.Exec(script)
				err = errors.Join(err, db.Close())
			}
			return err
		}
	}
	for name, make := range map[string]func(path string) error{
		"text": func(path string) error {
			return os.WriteFile(path, []byte(strings.Repeat("no database ", 100)), 0o600)
		},
		"a short file":   func(path string) error { return os.WriteFile(path, []byte("SQLite format 3\x00"), 0o600) },
		"other tables":   foreign("CREATE TABLE contacts (name)"),
		"another's mark": foreign("PRAGMA application_id = 1; CREATE TABLE contacts (name)"),
		"a ledger of another version": func(path string) error {
			s := openAt(t, path)
			script(t, s, "PRAGMA user_version = 999")
			return s.Close()
		},
	} {
		path := newPath(t)
		expect.NoError(t, make(path))
		before, err := os.ReadFile(path)
		expect.NoError(t, err)
		_, err = Open(t.Context(), Options{Path: path})
		if e, ok := errors.AsType[*state.Error](err); !ok || e.Code != ledger.CodeUnreadable || e.Hint == "" {
			t.Errorf("%s: the error is %v", name, err)
		}
		if after, _ := os.ReadFile(path); string(after) != string(before) {
			t.Errorf("%s: the file was changed", name)
		}
	}
}
