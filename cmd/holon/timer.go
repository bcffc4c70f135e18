package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"holon/internal/duration"
	"holon/runner/agent/view"
	"holon/runner/control/wire"
	"holon/state"
	"holon/state/ledger"
)

// timerOptions are the times of a new timer, each given in one of two ways.
type timerOptions struct {
	afterMS, everyMS int64
	after, every     time.Duration
	cron, zone       string
	summary, key     string
	changed          func(flag string) bool
}

func newTimerCommand(streams Streams) *cobra.Command {
	cmd := newTimerMaker(streams, "timer", "Wake an agent later, once or again and again")
	cmd.Long = `Make a timer of an agent. When it is due the agent gets a message with the
summary. While that is not answered yet, later times are counted and not queued;
what came due while the daemon was down comes once.`
	cmd.Example = `  holon timer --after 10m --summary "look at the build"
  holon timer --every 24h --summary "write the report"
  holon timer add --cron "0 9 * * 1-5" --zone Europe/Berlin --summary mail
  holon timer list
  holon timer cancel TIMER`
	all := false
	list := remoteCommand(streams, "list", "List the timers of an agent",
		func(ctx context.Context, r *remote) error { return runTimerList(ctx, r, all) })
	list.Flags().BoolVarP(&all, "all", "a", false, "also those that have ended")
	cmd.AddCommand(newTimerMaker(streams, "add", "Make a timer of an agent"),
		tableCommand(list, streams), remoteCommand(streams, "cancel TIMER", "Cancel a timer",
			func(ctx context.Context, r *remote) error {
				timer, err := r.CancelTimer(ctx, r.Agent, r.args[0])
				return r.showTimer(timer, timer, err)
			}))
	return cmd
}

// newTimerMaker is a command that makes a timer.
func newTimerMaker(streams Streams, use, short string) *cobra.Command {
	o := &timerOptions{}
	cmd := remoteCommand(streams, use, short, func(ctx context.Context, r *remote) error { return runTimer(ctx, r, o) })
	o.changed = cmd.Flags().Changed
	f := cmd.Flags()
	timeVar(f, &o.after, "after", "`time` until it fires first, such as 90s or 2h (default --every)")
	f.Int64Var(&o.afterMS, "after-ms", 0, "the same in `milliseconds`")
	timeVar(f, &o.every, "every", "`time` between further times (default it fires once)")
	f.Int64Var(&o.everyMS, "every-ms", 0, "the same in `milliseconds`")
	f.StringVar(&o.cron, "cron", "", "`times` at which it fires, as minute hour day month weekday")
	f.StringVar(&o.zone, "zone", "", "the time `zone` of --cron (default UTC)")
	f.StringVar(&o.summary, "summary", "", "`text` that the agent gets")
	f.StringVar(&o.key, "key", "", "`text` under which this timer is made once, however often that is asked for")
	cmd.MarkFlagsMutuallyExclusive("after", "after-ms")
	cmd.MarkFlagsMutuallyExclusive("every", "every-ms")
	for _, flag := range []string{"after", "after-ms", "every", "every-ms"} {
		cmd.MarkFlagsMutuallyExclusive("cron", flag)
	}
	return cmd
}

// wire checks the times and puts them together.
func (o *timerOptions) wire() (wire.Timer, error) {
	t := wire.Timer{DurationMS: cmp.Or(o.afterMS, o.after.Milliseconds()),
		IntervalMS: cmp.Or(o.everyMS, o.every.Milliseconds()), Cron: o.cron, Zone: o.zone, Summary: o.summary}
	after, every := o.given("after"), o.given("every")
	switch {
	case o.cron != "":
		return t, nil
	case after == "" && every == "":
		return t, usage("--after", "no time is given",
			`write for example --after 10m, --every 24h or --cron "0 9 * * 1-5"`)
	case after != "" && t.DurationMS <= 0:
		return t, usage(after, "is less than 1ms", "write for example --after 10m")
	case every != "" && t.IntervalMS <= 0:
		return t, usage(every, "is less than 1ms", "write for example --every 24h, or leave it out for one time only")
	case after == "":
		t.DurationMS = t.IntervalMS
	}
	return t, nil
}

// given is the flag by which a time was given, "" where it was not.
func (o *timerOptions) given(name string) string {
	for _, flag := range []string{name, name + "-ms"} {
		if o.changed(flag) {
			return "--" + flag
		}
	}
	return ""
}

func runTimer(ctx context.Context, r *remote, o *timerOptions) error {
	t, err := o.wire()
	if err != nil {
		return err
	}
	made, err := r.CreateTimer(ctx, r.Agent, t, o.key)
	if e, ok := errors.AsType[*state.Error](err); ok {
		switch e.Param {
		case "duration_ms":
			e.Param = cmp.Or(o.given("after"), o.given("every"))
		case "interval_ms":
			e.Param = o.given("every")
		case "cron", "zone":
			e.Param = "--" + e.Param
		}
	}
	return r.showTimer(made, made.Timer, err)
}

func runTimerList(ctx context.Context, r *remote, all bool) error {
	timers, err := r.Timers(ctx, r.Agent, 0)
	if !all {
		timers = slices.DeleteFunc(timers, func(t view.Timer) bool { return t.Status != ledger.TimerActive })
	}
	return showList(&r.base, timers, err, timerHeads, r.timerRow)
}

func (r *remote) showTimer(found any, timer view.Timer, err error) error {
	return r.show(found, err, func() error {
		return printTable(r.streams, []view.Timer{timer}, timerHeads, r.timerRow)
	})
}

var timerHeads = []string{"TIMER", "AGENT", "STATUS", "NEXT", "EVERY", "FIRED", "SUMMARY*"}

func (r *remote) timerRow(t view.Timer) []string {
	every := strings.TrimSpace(t.Cron + " " + t.Zone)
	if t.IntervalMS > 0 {
		every = duration.Text(time.Duration(t.IntervalMS) * time.Millisecond)
	}
	return []string{t.ID, t.AgentID, string(t.Status), r.streams.when(t.NextFireAt), every,
		strconv.FormatInt(t.FireCount, 10), fmt.Sprintf("%.200s", t.Summary)}
}
