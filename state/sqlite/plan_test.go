package sqlite

import (
	"database/sql/driver"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"holon/state/ledger"
	"holon/test/ledgertest"
	"holon/test/memory"
)

// noted is a store whose statements are written down when it is closed.
type noted struct {
	*Store
	texts *texts
}

type texts struct {
	mu  sync.Mutex
	all map[string]bool
}

func (x *texts) note(c *conn) {
	for text := range c.stmts {
		x.all[text] = true
	}
}

func (n noted) Close() error {
	n.texts.mu.Lock()
	defer n.texts.mu.Unlock()
	var idle []*conn
	for range readers {
		select {
		case c := <-n.readers:
			idle = append(idle, c)
		default:
		}
	}
	for _, c := range idle {
		if c != nil {
			n.texts.note(c)
		}
		n.readers <- c
	}
	err := n.Store.Close()
	n.texts.note(n.writer.conn)
	return err
}

// statements runs the suite and returns every statement that was made.
func statements(t *testing.T) []string {
	t.Helper()
	seen := &texts{all: make(map[string]bool)}
	t.Run("conduct", func(t *testing.T) {
		ledgertest.Run(t, func(t *testing.T) ledgertest.Reopener {
			path := newPath(t)
			return func(t *testing.T) ledger.Store { return noted{openAt(t, path), seen} }
		})
	})
	return slices.Sorted(maps.Keys(seen.all))
}

// newPath is where the ledger of a test may be.
func newPath(t testing.TB) string {
	t.Helper()
	return filepath.Join(memory.Dir(t), "ledger.db")
}

func openAt(t testing.TB, path string) *Store {
	t.Helper()
	s, err := Open(t.Context(), Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// The store has the conduct of a ledger. Every query of it finds its rows by an index, and in the order that was asked
// for, however much the ledger holds, and none is parsed anew for each value: SQLite does so for each value of a bare
// parameter in a LIMIT.
func TestStore(t *testing.T) {
	texts := statements(t)
	if len(texts) < 60 {
		t.Fatalf("only %d statements were seen", len(texts))
	}
	s := openAt(t, newPath(t))
	defer s.Close()
	for _, text := range texts {
		if bad := offence(t, s.writer.conn, text); bad != "" {
			t.Errorf("%s\n%s", bad, text)
		}
		if strings.Contains(text, "LIMIT ?") {
			t.Errorf("a statement is parsed each time; write LIMIT +?:\n%s", text)
		}
	}
	// The test itself must be able to fail.
	for _, text := range []string{"SELECT data FROM turns WHERE agent_id > ? ORDER BY data",
		"SELECT id FROM messages WHERE number = 7", "SELECT seq FROM events WHERE type = 'x'"} {
		if offence(t, s.writer.conn, text) == "" {
			t.Errorf("no offence: %s", text)
		}
	}
}

// few are tables of which all rows may be read: as many as there are agents, or
// as many as are selected by the index that is named.
var few = regexp.MustCompile(`SCAN (agents USING INDEX agents_live|lanes|waiting|pragma_\S+|CONSTANT ` +
	`ROW|\(subquery-\d+\)|` +
	`tasks USING COVERING INDEX tasks_open|attempts USING INDEX attempts_open|waits USING INDEX waits_unresolved|timers USING INDEX timers_active|entries ` +
	`USING (COVERING )?INDEX entries_live)( |$)`)

func offence(t *testing.T, c *conn, text string) (bad string) {
	t.Helper()
	if strings.HasPrefix(text, "PRAGMA") || strings.HasPrefix(text, "EXPLAIN") {
		return ""
	}
	err := c.query(func(r *row) error {
		r.value()
		r.value()
		r.value()
		if step := r.text(); strings.Contains(step, "TEMP B-TREE") ||
			strings.HasPrefix(step, "SCAN") && !few.MatchString(step) {
			bad = step
		}
		return nil
	}, "EXPLAIN QUERY PLAN "+text, make([]driver.Value, 16)...) // as many as any of them takes
	if err != nil {
		t.Errorf("%s: %v", text, err)
	}
	return bad
}
