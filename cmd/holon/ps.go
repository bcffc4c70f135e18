package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"holon/internal/visible"
	"holon/runner/oneshot"
	"holon/state"
)

// newPsCommand makes `holon ps`.
func newPsCommand(streams Streams) *cobra.Command {
	all := false
	cmd := lifecycleCommand(streams, "ps [flags]", "List the runs", 0,
		func(ctx context.Context, l *lifecycle, _ []string) error {
			return runPs(ctx, l, all)
		})
	cmd.Long = `List the runs that go on: those that a holon holds, and those whose holon was
killed (orphaned), which holon attach goes on with and holon gc settles. With
--all those that have ended too.

It reads and changes nothing.`
	cmd.Flags().BoolVar(&all, "all", false, "list ended runs too")
	return cmd
}

func runPs(ctx context.Context, l *lifecycle, all bool) error {
	views, err := oneshot.Inventory(ctx, l.home, l.engine)
	if err != nil {
		return err
	}
	list := []oneshot.View{}
	for _, v := range views {
		if all || v.Status == state.StatusRunning || v.Status == state.StatusOrphaned {
			list = append(list, v)
		}
	}
	if l.JSON {
		return printJSON(l.streams, list)
	}
	table := tabwriter.NewWriter(l.streams.Out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(table, "RUN\tNAME\tSTATUS\tAGE\tMODEL\tWORKSPACE\tEXIT")
	for _, v := range list {
		status := string(v.Status)
		if v.Status == state.StatusOrphaned {
			status += " (container " + v.Container + ")"
		}
		if v.Problem != "" {
			status += " (unreadable)"
		}
		exit := "-"
		if v.ExitCode != nil {
			exit = strconv.Itoa(*v.ExitCode)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", v.ID, dash(v.Name, 30), status,
			age(time.Since(v.CreatedAt.Time())), dash(v.Model, 40), dash(filepath.Base(v.Workspace), 40), exit)
	}
	return table.Flush()
}

// dash is text for a column of a table.
func dash(text string, limit int) string {
	if text = visible.OneLine(text, limit); text == "" || text == "." {
		return "-"
	}
	return text
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
