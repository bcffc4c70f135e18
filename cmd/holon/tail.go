package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"holon/runner/agent/view"
	"holon/runner/control/client"
)

type tailOptions struct {
	follow bool
	limit  int
	level  string
}

// levels are the names of how much is shown, as numbers.
var levels = map[string]int{"action_required": 1, "work_done": 2, "turn_result": 3, "info": 3, "progress": 4,
	"verbose": 4, "trace": 5, "debug": 5}

func newTailCommand(streams Streams) *cobra.Command {
	o := &tailOptions{}
	cmd := remoteCommand(streams, "tail", "Show the events of an agent",
		func(ctx context.Context, r *remote) error {
			return runTail(ctx, r, o)
		})
	cmd.Long = `Show what happened to an agent lately, the newest last; with --follow what happens
from now on as well, also across restarts of the daemon. With --json the events
themselves, one a line. In a pipe the columns are number, time, level, type and
summary, with tabs between.`
	cmd.Example = "  holon tail -f\n  holon tail --level trace --limit 200"
	f := cmd.Flags()
	f.BoolVarP(&o.follow, "follow", "f", false, "go on until interrupted")
	f.IntVar(&o.limit, "limit", 20, "`number` of events that have happened already")
	f.StringVar(&o.level, "level", "progress",
		"`level` of what is shown: action_required, work_done, turn_result, progress or trace, or 1 to 5")
	return cmd
}

func runTail(ctx context.Context, r *remote, o *tailOptions) error {
	level, ok := levels[o.level]
	if n, err := strconv.Atoi(o.level); err == nil && n >= 1 && n <= 5 {
		level, ok = n, true
	}
	if !ok {
		return usage("--level", fmt.Sprintf("%.40q is not a level", o.level),
			"use action_required, work_done, turn_result, progress or trace")
	}
	if o.follow {
		r.streams.watch(true)
		return followTail(ctx, r, client.Follow{After: -1, Tail: o.limit, MaxLevel: level, Away: r.sayAway})
	}
	page, err := r.Events(ctx, r.Agent, view.EventQuery{Limit: o.limit, Descending: true, MaxLevel: level})
	if err != nil {
		return err
	}
	slices.Reverse(page.Events)
	for i := range page.Events {
		if err := r.showEvent(&page.Events[i]); err != nil {
			return err
		}
	}
	return nil
}

func followTail(ctx context.Context, r *remote, f client.Follow) error {
	for item, err := range r.Follow(ctx, r.Agent, f) {
		switch {
		case err != nil:
			return err
		case item.Reset != nil:
			fmt.Fprintf(r.streams.Err, "holon: events up to %d are no longer kept\n", item.Reset.AfterSeq)
		default:
			if err := r.showEvent(item.Event); err != nil {
				return err
			}
		}
	}
	return context.Cause(ctx)
}

// fixedTime is RFC 3339 with milliseconds: every time is as wide as the next.
const fixedTime = "2006-01-02T15:04:05.000Z07:00"

func (r *remote) showEvent(ev *view.EventEnvelope) error {
	if r.JSON {
		return printLine(r.streams, ev)
	}
	summary := r.streams.oneLine(ev.Display.Summary, 1000)
	if r.streams.OutTTY {
		at := ev.TS.Time().Local().Format(time.TimeOnly) + "  "
		return r.streams.print(at, strings.Repeat(" ", len(at)), summary)
	}
	_, err := fmt.Fprintf(r.streams.Out, "%d\t%s\t%s\t%s\t%s\n", ev.EventSeq, ev.TS.Time().Format(fixedTime),
		r.streams.oneLine(ev.Display.Visibility, 40), r.streams.oneLine(ev.Type, 80), summary)
	return err
}
