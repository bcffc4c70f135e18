package main

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"

	"holon/responses/turns"
	"holon/runner/telemetry"
)

// maxFactLine bounds a line of runtime.ndjson, in bytes. Payloads have 8 KiB at most.
const maxFactLine = 256 << 10

// newTraceCommand makes `holon runtime trace`.
func newTraceCommand(streams Streams) *cobra.Command {
	return &cobra.Command{
		Use: "trace FILE...", Short: "Send the traces of turns that agentd made without holon",
		Long: `Send the spans of turns to a collector of OpenTelemetry, from the runtime.ndjson of
each: for turns of an agentd that no holon runs, since holon sends those of its own.
Each is below the span that the traceparent of its request named. Where to is in
OTEL_EXPORTER_OTLP_ENDPOINT. The FILE - is the standard input.

Exit codes: 0 the collector has them, 1 it does not take them, 2 usage error.`,
		Example: "  holon runtime trace output/turns/*/runtime.ndjson",
		Args:    argumentsOfUse,
		RunE:    func(cmd *cobra.Command, args []string) error { return runTrace(cmd.Context(), streams, args) },
	}
}

func runTrace(ctx context.Context, streams Streams, names []string) (err error) {
	log := slog.New(slog.NewTextHandler(streams.Err, &slog.HandlerOptions{Level: slog.LevelWarn}))
	exporter := openTelemetry(ctx, streams.Secrets, log)
	if exporter == nil {
		return usage("OTEL_EXPORTER_OTLP_ENDPOINT", "there is no collector to send traces to",
			"set it to a URL like http://127.0.0.1:4318")
	}
	sent := 0
	for _, name := range names {
		ok, err := replayFile(ctx, streams, exporter, name)
		if err != nil {
			_ = exporter.Close() // what was read before is sent
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return usage("FILE", err.Error(), "name files runtime.ndjson of turns")
		}
		if ok {
			sent++
		}
	}
	if err := exporter.Close(); err != nil {
		return err
	}
	if exporter.Lost() > 0 {
		return exitError(1) // the log has the reason
	}
	_, err = fmt.Fprintf(streams.Out, "%d of %d turns sent\n", sent, len(names))
	return err
}

// replayFile sends the turn of one file, and returns false when there is nothing in it to send.
func replayFile(ctx context.Context, streams Streams, exporter *telemetry.Exporter, name string) (sent bool,
	err error) {
	in, err := openInput(ctx, streams, name)
	if err != nil {
		return false, err
	}
	defer in.Close()
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxFactLine)
	sent = exporter.Replay(ctx, func(yield func(turns.RuntimeEvent) bool) {
		for n := 1; lines.Scan(); n++ {
			ev, wrong := turns.DecodeRuntimeEvent(lines.Bytes())
			if wrong != nil {
				err = fmt.Errorf("%s:%d: %w", name, n, wrong)
				return
			}
			if !yield(ev) {
				return
			}
		}
		if wrong := lines.Err(); wrong != nil {
			err = fmt.Errorf("%s: %w", name, wrong)
		}
	})
	return sent, err
}
