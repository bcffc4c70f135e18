package main

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"

	"holon/responses/agentruntime"
	"holon/responses/turns"
	"holon/runner/telemetry"
)

type validateOptions struct {
	streams Streams
	level   string
	json    bool
	partial bool
	files   []string
}

func newRuntimeCommand(streams Streams) *cobra.Command {
	o := &validateOptions{streams: streams}
	validate := &cobra.Command{
		Use: "validate FILE...", Short: "Check logs of events by the rules of the Agent Runtime standard",
		Long: `Check logs with one event a line, such as runtime.ndjson of a turn, by the rules V1
to V94. Several files are one log, in the order given, such as those of the turns of a
session; - is the standard input. With --partial the log is that of a later turn alone.
Each violation is one line. Exit codes: 0 valid, 1 violations, 2 usage error.`,
		Example: "  holon runtime validate --level C turns/*/runtime.ndjson",
		Args:    argumentsOfUse,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.files = args
			return runValidate(cmd.Context(), o)
		},
	}
	f := validate.Flags()
	f.StringVar(&o.level, "level", "A", "`rules` to hold the log to: A, B or C")
	f.BoolVar(&o.json, "json", false, "print each violation and the summary as one JSON object a line")
	f.BoolVar(&o.partial, "partial", false, "the log begins in the middle of its threads")
	return group("runtime", "Check what the runtime recorded",
		"The record of an agent is a log of events in the vocabulary of the Agent Runtime\nstandard.", validate,
		newTraceCommand(streams))
}

func runValidate(ctx context.Context, o *validateOptions) error {
	if o.level != "A" && o.level != "B" && o.level != "C" {
		return usage("--level", fmt.Sprintf("%.40q is not a level", o.level), "use A, B or C")
	}
	v := agentruntime.NewValidator(agentruntime.Level(o.level[0]), func(v agentruntime.Violation) {
		if o.json {
			_ = printJSON(o.streams, v) // the summary reports an output that is gone
			return
		}
		event := cmp.Or(o.streams.oneLine(v.EventID, 100), "-")
		fmt.Fprintf(o.streams.Out, "%s:%d: %s: %s: got %s, expected %s\n", o.streams.oneLine(v.File, 1000), v.Line,
			event, v.Rule, o.streams.oneLine(v.Got, 300), o.streams.oneLine(v.Want, 300))
	})
	if o.partial {
		v.Partial()
	}
	for _, file := range o.files {
		if err := validateFile(ctx, o.streams, v, file); ctx.Err() != nil {
			return context.Cause(ctx)
		} else if err != nil {
			return usage("FILE", err.Error(), "name files with one event a line")
		}
	}
	if err := o.summarize(v); err != nil {
		return err
	}
	if _, violations, _ := v.Summary(); violations > 0 {
		return exitError(1)
	}
	return nil
}

func validateFile(ctx context.Context, streams Streams, v *agentruntime.Validator, name string) error {
	in, err := openInput(ctx, streams, name)
	if err != nil {
		return err
	}
	defer in.Close()
	return v.Read(name, in)
}

func (o *validateOptions) summarize(v *agentruntime.Validator) error {
	events, violations, idle := v.Summary()
	if o.json {
		return printJSON(o.streams, struct {
			Level         string                       `json:"level"`
			Events        int                          `json:"events"`
			Violations    int                          `json:"violations"`
			NotApplicable []agentruntime.NotApplicable `json:"not_applicable"`
		}{o.level, events, violations, idle})
	}
	for _, rule := range idle {
		fmt.Fprintf(o.streams.Out, "not applicable: %s: %s\n", rule.Rule, rule.Why)
	}
	_, err := fmt.Fprintf(o.streams.Out, "level %s: %s, %s\n", o.level, count(events, "event"),
		count(violations, "violation"))
	return err
}

// maxFactLine bounds a line of runtime.ndjson, in bytes. Payloads have 8 KiB at most.
const maxFactLine = 256 << 10

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
