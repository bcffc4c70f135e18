package sqlite

import (
	"database/sql"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

// columnsOf returns the columns of each table of a new ledger.
func columnsOf(t *testing.T) map[string][]string {
	t.Helper()
	s := openAt(t, newPath(t))
	defer s.Close()
	tables := map[string][]string{}
	err := s.update(t.Context(), func(x *tx) error {
		return x.query(func(rows *sql.Rows) error {
			var name, column string
			err := rows.Scan(&name, &column)
			tables[name] = append(tables[name], column)
			return err
		}, "SELECT m.name, c.name FROM sqlite_schema m, pragma_table_info(m.name) c WHERE m.type = 'table' "+
			"AND m.name NOT LIKE 'sqlite%'")
	})
	if err != nil {
		t.Fatal(err)
	}
	return tables
}

// references are the columns that hold ids of other tables.
var references = map[string]string{"agent_id": "agents", "message_id": "messages", "wake_message": "messages",
	"attempt_id": "attempts", "wait_id": "waits", "turn_id": "turns", "chain": "turns", "work_item_id": "work_items"}

// Every table has a retention, and each table that names its rows is in it: a table or a reference without one fails.
func TestRetentionIsDeclared(t *testing.T) {
	t.Parallel()
	tables, names := columnsOf(t), map[string][]string{}
	for table, columns := range tables {
		for _, column := range columns {
			if to := references[column]; to != "" {
				names[to] = append(names[to], table)
			}
		}
	}
	for _, named := range []string{"briefs", "notifications", "tasks"} { // by ref
		names[named] = []string{"events"}
	}
	names["tasks"] = append(names["tasks"], "messages") // in its data
	names["messages"] = append(names["messages"], "events")
	var seen []string
	for _, d := range retention() {
		seen = append(seen, d.table)
		got, want := slices.Sorted(slices.Values(d.names)), slices.Sorted(slices.Values(names[d.table]))
		if !slices.Equal(got, slices.Compact(want)) {
			t.Errorf("rows of %s are named by %v, declared is %v", d.table, want, got)
		}
		if d.bound == byAge && (!slices.Contains(tables[d.table], d.key) ||
			!slices.Contains(tables[d.table], "created_at")) {
			t.Errorf("%s has no %s or created_at to be pruned by", d.table, d.key)
		}
		if d.bound == byAge && len(d.names) > 0 && d.then == "" {
			t.Errorf("nothing is declared for what refers to rows of %s that are gone", d.table)
		}
	}
	slices.Sort(seen)
	if want := slices.Sorted(maps.Keys(tables)); !slices.Equal(seen, want) {
		t.Errorf("declared are\n%v, the schema has\n%v", seen, want)
	}
}

// The table in the documentation is the declaration.
func TestRetentionIsDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/reference/retention.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range retention() {
		named := strings.Join(d.names, ", ")
		line := fmt.Sprintf("| `%s` | %s | %s | %s |\n", d.table, d.bound, named, d.then)
		if !strings.Contains(string(page), line) {
			t.Errorf("docs/reference/retention.md lacks\n%s", line)
		}
	}
}
