package present_test

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"holon/runner/agent/record"
	"holon/runner/agent/view"
	"holon/runner/present"
	"holon/test/expect"
)

var update = flag.Bool("update", false, "write golden files")

// day is the stream of an agent that worked for a day: messages, tools, a workspace, work items, a task, a child, an
// interjection, a failure, a rest, a timer, ticks, a stop, a budget that is spent.
func day(t *testing.T) (events []view.EventEnvelope) {
	t.Helper()
	file, err := os.Open("testdata/day.ndjson")
	expect.NoError(t, err)
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var ev view.EventEnvelope
		expect.NoError(t, json.Unmarshal(lines.Bytes(), &ev))
		events = append(events, ev)
	}
	expect.NoError(t, lines.Err())
	return events
}

// draw is rows with all that they have.
func draw(rows []present.Row) string {
	var b strings.Builder
	for _, row := range rows {
		marks := ""
		if row.Open {
			marks += " open"
		}
		if row.Failed {
			marks += " failed"
		}
		fmt.Fprintf(&b, "%-21s %s%s\n", row.Category, row.Summary, marks)
		if row.Category == present.CategoryBrief || row.Category == present.CategoryMessage {
			fmt.Fprintf(&b, "%-21s   | %s\n", "", strings.ReplaceAll(row.Body, "\n", "⏎"))
		}
		if c := row.Call; c != nil {
			fmt.Fprintf(&b, "%-21s   > %s", "", c.Text)
			if c.ExitCode != nil {
				fmt.Fprintf(&b, ", exit %d", *c.ExitCode)
			}
			fmt.Fprintf(&b, " %q %q\n", c.Diff, c.Output)
		}
	}
	return b.String()
}

// What a day of an agent is in each mode.
func TestDay(t *testing.T) {
	t.Parallel()
	var fold present.Fold
	var all present.List
	for _, ev := range day(t) {
		all.Put(fold.Event(&ev)...)
	}
	for _, mode := range []present.Mode{present.Info, present.Verbose, present.Debug} {
		path, got := filepath.Join("testdata", "day."+mode.String()+".golden"), draw(all.Rows(mode))
		if *update {
			expect.NoError(t, os.WriteFile(path, []byte(got), 0o644))
		}
		want, err := os.ReadFile(path)
		expect.NoError(t, err)
		if got != string(want) {
			t.Errorf("%s: got\n%s\nwant, as in %s (-update writes it)\n%s", mode, got, path, want)
		}
	}
	for _, row := range all.Rows(present.Debug) {
		if !slices.Contains(record.Categories, row.Category) || row.Category == present.CategoryTrace {
			t.Errorf("%s has the category %q", row.Key, row.Category)
		}
	}
}
