package sqlite

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"holon/state/sqlstore"
	"holon/test/expect"
)

// columnsOf returns the columns of each table of a new ledger.
func columnsOf(t *testing.T) map[string][]string {
	t.Helper()
	path := newPath(t)
	defer openAt(t, path).Close()
	db, err := dialReader(path)
	expect.NoError(t, err)
	defer db.Close()
	rows, err := db.Query("SELECT m.name, c.name FROM sqlite_schema m, pragma_table_info(m.name) c " +
		"WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite%'")
	expect.NoError(t, err)
	defer rows.Close()
	tables := map[string][]string{}
	for rows.Next() {
		var name, column string
		expect.NoError(t, rows.Scan(&name, &column))
		tables[name] = append(tables[name], column)
	}
	expect.NoError(t, rows.Err())
	return tables
}

// references are the columns that hold ids of other tables.
var references = map[string]string{"agent_id": "agents", "message_id": "messages", "wake_message": "messages",
	"attempt_id": "attempts", "wait_id": "waits", "turn_id": "turns", "chain": "turns", "work_item_id": "work_items"}

// The documentation has the retention of every table, and each table that names its rows.
func TestRetentionIsDocumented(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/reference/retention.md")
	expect.NoError(t, err)
	row := regexp.MustCompile("(?m)^\\| `(\\w+)` \\| ([\\w ]+) \\| ([\\w, ]*) \\| (.*) \\|$")
	documented := map[string][]string{} // columns of the page, by table
	for _, cells := range row.FindAllStringSubmatch(string(page), -1) {
		documented[cells[1]] = cells[2:]
	}
	tables, names := columnsOf(t), namedBy(t)
	byAge := map[string]bool{}
	for _, a := range sqlstore.Retention() {
		byAge[a.Table] = true
		if !slices.Contains(tables[a.Table], a.Key) || !slices.Contains(tables[a.Table], "created_at") {
			t.Errorf("%s has no %s or created_at to be pruned by", a.Table, a.Key)
		}
	}
	for table := range tables {
		cells := documented[table]
		if cells == nil {
			t.Errorf("the retention of %s is not documented", table)
			continue
		}
		var named []string
		if cells[1] != "" {
			named = strings.Split(cells[1], ", ")
		}
		if got, want := slices.Sorted(slices.Values(named)), names[table]; !slices.Equal(got, want) {
			t.Errorf("rows of %s are named by %v, documented is %v", table, want, got)
		}
		if (cells[0] == "messages") != byAge[table] || byAge[table] && len(named) > 0 && cells[2] == "" {
			t.Errorf("of %s is documented: %q", table, cells)
		}
	}
	expect.Equal(t, "documented tables", len(documented), len(tables))
}

// namedBy returns, for each table, the sorted tables whose rows name its rows.
func namedBy(t *testing.T) map[string][]string {
	t.Helper()
	names := map[string][]string{"briefs": {"events"}, "notifications": {"events"}, "tasks": {"events", "messages"},
		"messages": {"events"}} // in their data
	for table, columns := range columnsOf(t) {
		for _, column := range columns {
			if to := references[column]; to != "" {
				names[to] = append(names[to], table)
			}
		}
	}
	for to, from := range names {
		names[to] = slices.Compact(slices.Sorted(slices.Values(from)))
	}
	return names
}
