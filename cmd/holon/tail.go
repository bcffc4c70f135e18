package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"holon/runner/agent/view"
	"holon/runner/control/client"
	"holon/runner/present"
)

type tailOptions struct {
	follow  bool
	limit   int
	display string
}

func newTailCommand(streams Streams) *cobra.Command {
	o := &tailOptions{}
	cmd := remoteCommand(streams, "tail", "Show what happened to an agent",
		func(ctx context.Context, r *remote) error {
			return runTail(ctx, r, o)
		})
	cmd.Long = `Show what happened to an agent lately, the newest last; with --follow what happens
from now on as well, also across restarts of the daemon. In a pipe the columns are
number of the newest event, time of the first, visibility, kind and summary, with tabs
between; the numbers ascend.

--display info shows messages, answers, failures and what asks for action, verbose
also what the agent does, and debug the steps of the runtime. With --json the events
themselves, one a line: those of the levels 1 to 3 for info, 1 to 4 for verbose, and
all for debug.`
	cmd.Example = "  holon tail -f\n  holon tail --display debug --limit 200"
	f := cmd.Flags()
	f.BoolVarP(&o.follow, "follow", "f", false, "go on until interrupted")
	f.IntVar(&o.limit, "limit", 20, "`number` of rows, or of events, that have happened already")
	f.StringVar(&o.display, "display", present.Verbose.String(), "`mode`: info, verbose or debug, or 3 to 5")
	return cmd
}

func runTail(ctx context.Context, r *remote, o *tailOptions) error {
	mode, err := present.ParseMode(o.display)
	if err != nil {
		return usage("--display", fmt.Sprintf("%.40q is not a display mode", o.display),
			"use info, verbose or debug, or 3 to 5")
	}
	if r.JSON {
		return tailEvents(ctx, r, o, int(mode))
	}
	t := &tail{remote: r, mode: mode, printed: map[string]bool{}}
	newest, err := t.lately(ctx, o.limit)
	if err != nil || !o.follow {
		return err
	}
	r.streams.watch(true)
	for item, err := range r.Follow(ctx, r.Agent, client.Follow{After: newest, Away: r.sayAway}) {
		switch {
		case err != nil:
			return err
		case item.Reset != nil:
			t.fold.Reset()
			r.sayReset(item)
		default:
			err = t.print(t.fold.Event(item.Event), true)
		}
		if err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

// tail prints rows, each once: what is printed does not change.
type tail struct {
	*remote
	mode    present.Mode
	fold    present.Fold
	printed map[string]bool // keys
}

// lately prints the newest rows as they are now, and returns the number of the event after which others follow.
func (t *tail) lately(ctx context.Context, limit int) (newest int64, err error) {
	past, err := t.fold.Lately(limit, t.mode, func(before int64) (view.EventPage, error) {
		return t.Events(ctx, t.Agent, view.EventQuery{BeforeSeq: before, Limit: view.MaxLimit, Descending: true})
	})
	if err != nil {
		return 0, err
	}
	rows := past.Rows.Rows(t.mode)
	slices.SortStableFunc(rows, func(a, b present.Row) int { return cmp.Compare(a.Seq, b.Seq) }) // as they are followed
	return past.Newest, t.print(rows[max(0, len(rows)-limit):], false)
}

// print prints rows. Of those that go on it leaves calls and texts for when they have ended, where others follow.
func (t *tail) print(rows []present.Row, follow bool) error {
	for _, row := range rows {
		unfinished := row.Open && row.Call != nil || row.Category == present.CategoryProgress && row.Level == present.Info
		if row.Level > t.mode || t.printed[row.Key] || follow && unfinished {
			continue
		}
		t.printed[row.Key] = true
		if err := t.printRow(row); err != nil {
			return err
		}
	}
	return nil
}

// fixedTime is RFC 3339 with milliseconds: every time is as wide as the next.
const fixedTime = "2006-01-02T15:04:05.000Z07:00"

func (t *tail) printRow(row present.Row) error {
	summary := t.streams.oneLine(row.Summary, 1000)
	if t.streams.OutTTY {
		at := row.At.Time().Local().Format(time.TimeOnly) + "  "
		return t.streams.print(at, strings.Repeat(" ", len(at)), summary)
	}
	_, err := fmt.Fprintf(t.streams.Out, "%d\t%s\t%s\t%s\t%s\n", row.Seq, row.At.Time().Format(fixedTime),
		t.streams.oneLine(row.Visibility, 40), t.streams.oneLine(row.Source, 80), summary)
	return err
}

// tailEvents prints events as they are.
func tailEvents(ctx context.Context, r *remote, o *tailOptions, level int) error {
	if !o.follow {
		page, err := r.Events(ctx, r.Agent, view.EventQuery{Limit: o.limit, Descending: true, MaxLevel: level})
		slices.Reverse(page.Events)
		for _, ev := range page.Events {
			if err == nil {
				err = printLine(r.streams, ev)
			}
		}
		return err
	}
	r.streams.watch(true)
	follow := client.Follow{After: -1, Tail: o.limit, MaxLevel: level, Away: r.sayAway}
	for item, err := range r.Follow(ctx, r.Agent, follow) {
		switch {
		case err != nil:
			return err
		case item.Reset != nil:
			r.sayReset(item)
		default:
			if err := printLine(r.streams, item.Event); err != nil {
				return err
			}
		}
	}
	return context.Cause(ctx)
}

func (r *remote) sayReset(item client.Item) {
	fmt.Fprintf(r.streams.Err, "holon: events up to %d are no longer kept\n", item.Reset.AfterSeq)
}
