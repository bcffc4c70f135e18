package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"holon/runner/agent/view"
	"holon/runner/control/wire"
)

// timerOptions are the times of a new timer, each given in one of two ways.
type timerOptions struct {
	afterMS, everyMS int64
	after, every     time.Duration
	summary, key     string
}

// newTimerCommand makes `holon timer`.
func newTimerCommand(streams Streams) *cobra.Command {
	o := &timerOptions{}
	var cmd *cobra.Command
	cmd, r := remoteCommand(streams, "timer [flags]", "Wake an agent later, once or again and again", 0, 0,
		func(ctx context.Context, r *remote) error {
			for _, flag := range []string{"every", "every-ms"} {
				if cmd.Flags().Changed(flag) && o.every == 0 && o.everyMS == 0 {
					return usage("--"+flag, "is no time", "leave it out for a timer that fires once")
				}
			}
			return runTimer(ctx, r, o)
		})
	cmd.Long = `Make a timer of an agent. When it is due the agent gets a message with the
summary. While that is not answered yet, later times are counted and not queued;
what came due while the daemon was down comes once.`
	cmd.Example = `  holon timer --after 10m --summary "look at the build"
  holon timer --every 24h --summary "write the report"
  holon timer list
  holon timer cancel ID`
	r.onAgent(cmd)
	f := cmd.Flags()
	timeVar(f, &o.after, "after", "`time` until it fires first, such as 90s or 2h (default --every)")
	f.Int64Var(&o.afterMS, "after-ms", 0, "the same in `milliseconds`")
	timeVar(f, &o.every, "every", "`time` between further times (default it fires once)")
	f.Int64Var(&o.everyMS, "every-ms", 0, "the same in `milliseconds`")
	f.StringVar(&o.summary, "summary", "", "`text` that the agent gets")
	f.StringVar(&o.key, "key", "", "`text` under which this timer is made once, however often that is asked for")
	cmd.MarkFlagsMutuallyExclusive("after", "after-ms")
	cmd.MarkFlagsMutuallyExclusive("every", "every-ms")

	list, lr := remoteCommand(streams, "list [flags]", "List the timers of an agent", 0, 0, runTimerList)
	tableCommand(list, streams)
	lr.onAgent(list)
	cancel, cr := remoteCommand(streams, "cancel [flags] ID", "Cancel a timer", 1, 1, runTimerCancel)
	cr.onAgent(cancel)
	cmd.AddCommand(list, cancel)
	return cmd
}

// wire checks the times and puts them together.
func (o *timerOptions) wire() (wire.Timer, error) {
	t := wire.Timer{DurationMS: o.afterMS, IntervalMS: o.everyMS, Summary: o.summary}
	if o.after != 0 {
		t.DurationMS = o.after.Milliseconds()
	}
	if o.every != 0 {
		t.IntervalMS = o.every.Milliseconds()
	}
	if t.DurationMS == 0 {
		t.DurationMS = t.IntervalMS
	}
	if t.DurationMS <= 0 || t.IntervalMS < 0 {
		return t, usage("--after", "a timer needs a time of at least 1ms", "write for example --after 10m")
	}
	return t, nil
}

func runTimer(ctx context.Context, r *remote, o *timerOptions) error {
	t, err := o.wire()
	if err != nil {
		return err
	}
	made, err := r.CreateTimer(ctx, r.Agent, t, o.key)
	if err != nil {
		return err
	}
	if r.JSON {
		return printJSON(r.streams, made)
	}
	return timerTable(r.streams, made.Timer)
}

func runTimerList(ctx context.Context, r *remote) error {
	timers, err := r.Timers(ctx, r.Agent, 0)
	if err != nil {
		return err
	}
	if r.JSON {
		return printJSON(r.streams, timers)
	}
	return timerTable(r.streams, timers...)
}

func runTimerCancel(ctx context.Context, r *remote) error {
	timer, err := r.CancelTimer(ctx, r.Agent, r.args[0])
	if err != nil {
		return err
	}
	if r.JSON {
		return printJSON(r.streams, timer)
	}
	return timerTable(r.streams, timer)
}

func timerTable(streams Streams, timers ...view.Timer) error {
	t := newTable(streams, "ID", "AGENT", "STATUS", "NEXT", "EVERY", "FIRED", "SUMMARY").cutting("SUMMARY")
	for _, one := range timers {
		every := ""
		if one.IntervalMS > 0 {
			every = (time.Duration(one.IntervalMS) * time.Millisecond).String()
		}
		t.row(one.ID, one.AgentID, string(one.Status), streams.moment(one.NextFireAt), every,
			strconv.FormatInt(one.FireCount, 10), fmt.Sprintf("%.200s", one.Summary))
	}
	return t.end()
}
