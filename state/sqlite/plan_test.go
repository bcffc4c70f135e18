package sqlite

import (
	"database/sql"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"holon/state/ledger"
	"holon/state/sqlstore"
	"holon/test/expect"
	"holon/test/ledgertest"
	"holon/test/memory"
)

// newPath is where the ledger of a test may be.
func newPath(t testing.TB) string {
	t.Helper()
	return filepath.Join(memory.Dir(t), "ledger.db")
}

// store is a ledger with its file and the connection that writes it.
type store struct {
	*sqlstore.Store
	path   string
	writer *sql.DB
}

func openAt(t testing.TB, path string) *store {
	t.Helper()
	s, writer, err := open(t.Context(), Options{Path: path})
	expect.NoError(t, err)
	return &store{s, path, writer}
}

// The store has the conduct of a ledger.
func TestStore(t *testing.T) {
	ledgertest.Run(t, func(t *testing.T) ledgertest.Reopener {
		path := newPath(t)
		return func(t *testing.T) ledger.Store { return openAt(t, path) }
	})
}

// tables are those of the queries for records.
var tables = map[string]string{"agents": "agents", "message by key": "messages", "messages": "messages",
	"head message": "messages",
	"queued":       "entries", "held": "entries", "open attempt": "attempts", "open attempts": "attempts", "turns": "turns",
	"unresolved wait": "waits", "unresolved waits": "waits", "due waits": "waits", "timers": "timers",
	"due timers": "timers",
	"due work":   "work_items", "open work": "work_items", "work after": "work_items", "briefs after": "briefs",
	"completed work": "work_items", "tasks": "tasks", "open tasks": "tasks", "begun checks": "tasks",
	"triggers":        "triggers",
	"trigger by hash": "triggers", "workspaces": "workspaces", "trees": "trees", "all trees": "trees",
	"trees of task": "trees",
	"briefs":        "briefs", "notifications": "notifications", "open notifications": "notifications",
	"episodes": "episodes", "episodes after": "episodes",
	"operator bindings": "operator_bindings", "deliveries": "deliveries", "deliveries of notification": "deliveries",
	"due deliveries": "deliveries",
	"events":         "events", "events, newest first": "events",
	"notable events": "events", "notable events, newest first": "events"}

// Every query finds its rows by an index, and in the order that was asked for, however much the ledger holds.
func TestPlans(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	defer openAt(t, path).Close()
	db, err := dialReader(path)
	expect.NoError(t, err)
	defer db.Close()
	for name, text := range sqlstore.Statements() {
		if strings.HasPrefix(text, "WHERE") {
			text = "SELECT data FROM " + tables[name] + " " + text
		}
		if bad := offence(t, db, text); bad != "" && !sorted[name] {
			t.Errorf("%s: %s\n%s", name, bad, text)
		}
	}
	// The test itself must be able to fail.
	for _, text := range []string{"SELECT data FROM turns WHERE agent_id > ? ORDER BY data",
		"SELECT id FROM messages WHERE number = 7", "SELECT seq FROM events WHERE created_at = 7"} {
		if offence(t, db, text) == "" {
			t.Errorf("no offence: %s", text)
		}
	}
}

// sorted are queries whose few rows are sorted.
var sorted = map[string]bool{"held": true, "next due": true}

// few are tables of which all rows may be read: as many as there are agents, or
// as many as are selected by the index that is named.
var few = regexp.MustCompile(`SCAN (agents USING INDEX agents_live|workspaces|trees|(agent_states|s)( USING \S* ?INDEX \S+)?|` +
	`CONSTANT ROW|\(subquery-\d+\)|tasks USING( COVERING)? INDEX tasks_open|attempts USING INDEX attempts_open)$`)

func offence(t *testing.T, db *sql.DB, text string) (bad string) {
	t.Helper()
	steps, err := db.Query("EXPLAIN QUERY PLAN "+text, make([]any, strings.Count(text, "?"))...)
	if err != nil {
		t.Errorf("%s: %v", text, err)
		return ""
	}
	defer steps.Close()
	for steps.Next() {
		var skip any
		var step string
		expect.NoError(t, steps.Scan(&skip, &skip, &skip, &step))
		if strings.Contains(step, "TEMP B-TREE") || strings.HasPrefix(step, "SCAN") && !few.MatchString(step) {
			bad = step
		}
	}
	expect.NoError(t, steps.Err())
	return bad
}
