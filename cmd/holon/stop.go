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

// newStopCommand makes `holon stop`.
func newStopCommand(streams Streams) *cobra.Command {
	all, grace := false, 30*time.Second
	cmd := lifecycleCommand(streams, "stop RUN", "End a run and keep its work", 1,
		func(ctx context.Context, l *lifecycle, args []string) error {
			return runStop(ctx, l, args, all, grace)
		})
	cmd.Long = `End a run and keep its work: its turn is cancelled and its change collected, as
after Ctrl-C. When its holon does not manage that within the grace, the container
is killed. A run whose holon was killed is settled.

` + aboutRun
	cmd.Example = "  holon stop last\n  holon stop --all"
	cmd.Flags().BoolVar(&all, "all", false, "end all runs that go on")
	timeVar(cmd.Flags(), &grace, "grace", "`time` for an end in good order")
	return cmd
}

// stopped is what became of one run.
type stopped struct {
	RunID  string         `json:"run_id"`
	Status state.Status   `json:"status"`
	Dir    string         `json:"output_dir"`
	Error  *state.Failure `json:"error"` // why it could not be stopped
}

func runStop(ctx context.Context, l *lifecycle, args []string, all bool, grace time.Duration) error {
	if all == (len(args) > 0) {
		return usage("RUN", "name one run", "or all with --all")
	}
	ids, err := l.toStop(ctx, args)
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
		return errors.Join(printJSON(l.streams, results), exitIf(failed))
	}
	return failed
}

// toStop lists the runs that are meant.
func (l *lifecycle) toStop(ctx context.Context, args []string) (ids []string, err error) {
	if len(args) == 1 {
		entry, err := findRun(ctx, l.home, args[0])
		if err != nil {
			return nil, err
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

// exitIf is the exit of a command whose output says already what went wrong.
func exitIf(err error) error {
	if err == nil {
		return nil
	}
	return exitError(state.OutcomeFailure.ExitCode())
}
