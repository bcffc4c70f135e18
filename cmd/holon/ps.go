package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"holon/internal/duration"
	"holon/internal/visible"
	"holon/runner/oneshot"
	"holon/state"
)

func newPsCommand(streams Streams) *cobra.Command {
	all := false
	cmd := lifecycleCommand(streams, "ps", "List the runs",
		func(ctx context.Context, l *lifecycle) error { return runPs(ctx, l, all) })
	cmd.Long = `List the runs that go on: those that a holon holds, and those whose holon was
killed (orphaned), which holon attach goes on with and holon gc settles. With
--all those that have ended too.

It reads and changes nothing.`
	cmd.Flags().BoolVarP(&all, "all", "a", false, "list ended runs too")
	return tableCommand(cmd, streams)
}

func runPs(ctx context.Context, l *lifecycle, all bool) error {
	list, err := oneshot.Inventory(ctx, l.home, l.engine)
	if !all {
		list = slices.DeleteFunc(list, func(v oneshot.View) bool {
			return v.Status != state.StatusRunning && v.Status != state.StatusOrphaned
		})
	}
	ids := shortIDs(list)
	return showList(&l.base, list, err, []string{"RUN", "AGE", "OUTCOME", "WORKSPACE", "NAME", "TASK*"},
		func(v oneshot.View) []string {
			if !l.streams.OutTTY {
				return []string{v.ID, l.streams.when(v.StartedAt), standing(v), v.Workspace.Path, v.Name, v.Task}
			}
			return []string{ids[v.ID], age(time.Since(v.StartedAt.Time())), standing(v),
				cut(dash(filepath.Base(v.Workspace.Path), 80), 14), cut(dash(v.Name, 80), 12), v.Task}
		})
}

// standing is what became of a run, or how it stands.
func standing(v oneshot.View) string {
	switch {
	case v.Problem != "":
		return "unreadable"
	case v.Outcome != nil:
		return string(*v.Outcome)
	}
	return string(v.Status)
}

// shortIDs are the beginnings of ids by which a person can name the runs of a list, at least six characters of each.
func shortIDs(list []oneshot.View) map[string]string {
	const least = len("run_") + 6
	short := make(map[string]string, len(list))
	for _, v := range list {
		n := least
		for _, other := range list {
			for other.ID != v.ID && n < len(v.ID) && strings.HasPrefix(other.ID, v.ID[:min(n, len(v.ID))]) {
				n++
			}
		}
		short[v.ID] = v.ID[:min(n, len(v.ID))]
	}
	return short
}

// dash is text for a column of a table.
func dash(text string, limit int) string {
	if text = visible.OneLine(text, limit); text == "" || text == "." {
		return "-"
	}
	return text
}

// elapsed says how long something took that was measured in milliseconds, with tenths below a minute.
func elapsed(ms int64) string {
	d := (time.Duration(ms) * time.Millisecond).Round(100 * time.Millisecond)
	if d < time.Minute {
		return fmt.Sprintf("%.1fs", d.Seconds())
	}
	return duration.Text(d.Round(time.Second))
}

// age is a duration in its largest unit.
func age(d time.Duration) string {
	switch {
	case d < 0:
		return "0s"
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}
