package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"holon/runner"
	"holon/runner/oneshot"
	"holon/state"
	"holon/state/files"
)

func newStopCommand(streams Streams) *cobra.Command {
	all, grace := false, 30*time.Second
	cmd := lifecycleCommand(streams, "stop [RUN]", "End a run and keep its work",
		func(ctx context.Context, l *lifecycle) error { return runStop(ctx, l, all, grace) })
	cmd.Long = `End a run and keep its work: its turn is cancelled and its change collected, as
after Ctrl-C. When its holon does not manage that within the grace, the container
is killed. A run whose holon was killed is settled.

` + aboutRun
	cmd.Example = "  holon stop last\n  holon stop --all"
	cmd.Flags().BoolVar(&all, "all", false, "end all runs that go on")
	timeVar(cmd.Flags(), &grace, "grace", "`time` for an end in good order")
	return cmd
}

type stopped struct {
	RunID  string         `json:"run_id"`
	Status state.Status   `json:"status"`
	Dir    string         `json:"output_dir"`
	Error  *state.Failure `json:"error"` // why it could not be stopped
}

func runStop(ctx context.Context, l *lifecycle, all bool, grace time.Duration) error {
	if all == (len(l.args) > 0) {
		return usage("RUN", "name one run", "or all with --all")
	}
	ids, err := l.toStop(ctx)
	if err != nil {
		return err
	}
	recovery, results, failed := l.recovery(), []stopped{}, error(nil)
	for _, id := range ids {
		r := stopped{RunID: id}
		m, err := recovery.Stop(ctx, id, grace)
		if err != nil {
			f := runner.Describe(err)
			r.Error = &f
			failed = errors.Join(failed, err)
		} else {
			r.Status = m.Status
		}
		if entry, err := files.New(l.home).Open(ctx, id); err == nil {
			r.Dir = entry.OutputDir()
		}
		results = append(results, r)
		if !l.JSON && err == nil {
			failed = errors.Join(failed, printRow(l.streams, id, string(r.Status), r.Dir))
		}
	}
	if l.JSON && (failed == nil || all) {
		err := printJSON(l.streams, results)
		if failed != nil { // each result has its error
			err = errors.Join(err, exitError(exitFailure))
		}
		return err
	}
	return failed
}

func (l *lifecycle) toStop(ctx context.Context) (ids []string, err error) {
	if len(l.args) == 1 {
		entry, err := l.run(ctx)
		if err != nil {
			return nil, err
		}
		if whole, part := state.WholeOf(entry.ID); part != "" && entry.Live {
			return nil, usage("RUN", entry.ID+" goes on with others", "stop all of them: holon stop "+whole)
		}
		return []string{entry.ID}, nil
	}
	views, err := oneshot.Inventory(ctx, l.home, l.engine)
	for _, v := range views {
		if v.Status == state.StatusRunning || v.Status == state.StatusOrphaned {
			ids = append(ids, v.ID)
		}
	}
	return ids, err
}
