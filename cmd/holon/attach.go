package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"holon/internal/visible"
	"holon/runner"
	"holon/runner/oneshot"
	"holon/state"
)

func newAttachCommand(streams Streams) *cobra.Command {
	quiet := false
	cmd := lifecycleCommand(streams, "attach [RUN]",
		"Watch a run to its end, or go on with one whose holon was killed",
		func(ctx context.Context, l *lifecycle) error { return runAttach(ctx, l, quiet) })
	cmd.Long = `Watch a run that goes on, which Ctrl-C does not end; or go on with a run whose holon
was killed, as if nothing had happened: its container, which kept working, gets its
model and its tools back, its turn is watched to the end and its change is collected.
If the container is gone, what there is of its work is collected. Nothing but a check
that was cut off is run a second time. When the holon of a run is killed while attach
watches it, attach says so and goes on with the run. Ctrl-C ends a run that attach
goes on with.

The exit code is that of the run. Keys are taken from this environment, as for
holon run.

` + aboutRun
	cmd.Example = "  holon attach last"
	cmd.Flags().BoolVarP(&quiet, "quiet", "q", false, "show no progress")
	return cmd
}

func runAttach(ctx context.Context, l *lifecycle, quiet bool) error {
	entry, err := l.run(ctx)
	if err != nil {
		return err
	}
	view := newProgress(l.streams, quiet)
	view.json = l.JSON
	view.opening = fmt.Sprintf("attached to %s", visible.OneLine(entry.ID, 130))
	var m *state.Manifest
	watched := entry.Live
	if watched {
		l.streams.watch(true)
		m, err = l.watch(ctx, entry, view)
		l.streams.watch(err != nil)
	}
	if m == nil && err == nil {
		view.takeOver(watched)
		recovery := l.recovery()
		recovery.Watch = view
		recovery.WatchAttempt = func(number int) oneshot.Watcher { return view.attemptView(fmt.Sprintf("[%d] ", number)) }
		recovery.Telemetry = openTelemetry(ctx, l.streams.Secrets, recovery.Log)
		defer recovery.Telemetry.Close()
		m, err = recovery.Attach(ctx, entry.ID)
	}
	view.end()
	if err != nil {
		if errors.Is(err, runner.ErrInterrupted) && l.streams.watches() {
			l.streams.say("holon: no longer watched; the run goes on: holon attach " + entry.ID)
		}
		return err
	}
	return showEnd(l.streams, l.JSON, m, entry.OutputDir(), view)
}
