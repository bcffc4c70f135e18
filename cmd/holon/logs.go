package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"

	"github.com/spf13/cobra"

	"holon/internal/visible"
	"holon/responses/turns"
	"holon/runner"
	"holon/runner/oneshot"
	"holon/runner/sessions"
	"holon/runner/turnfiles"
	"holon/state"
	"holon/state/files"
)

type logsOptions struct{ follow, outputs, events, container, tools bool }

func newLogsCommand(streams Streams) *cobra.Command {
	o := &logsOptions{}
	cmd := attemptCommand(streams, "logs [RUN]", "Show what a run did",
		func(ctx context.Context, l *lifecycle) error { return runLogs(ctx, l, o) })
	cmd.Long = `Show what a run did or does, from its records: the messages of the agent, the commands
it ran, its answer, and the error that ended it. With --json the records themselves,
one a line. --follow ends with the run, also with one whose holon was killed.

It reads and changes nothing. Control characters of the agent's are not printed.

` + aboutRun
	cmd.Example = "  holon logs -f last"
	f := cmd.Flags()
	f.BoolVarP(&o.follow, "follow", "f", false, "go on until the run ends")
	f.BoolVar(&o.outputs, "outputs", false, "with the output of each command below it")
	f.BoolVar(&o.events, "events", false, "the events of the response stream, one a line, as JSON")
	f.BoolVar(&o.tools, "tools", false, "the whole outputs of the tools")
	f.BoolVar(&o.container, "container", false, "the log of agentd: of a container that is there, or kept with --keep")
	cmd.MarkFlagsMutuallyExclusive("events", "tools", "container")
	return cmd
}

func runLogs(ctx context.Context, l *lifecycle, o *logsOptions) (err error) {
	entry, err := l.resultRun(ctx)
	if err != nil {
		return err
	}
	if o.container {
		return l.containerLog(ctx, entry)
	}
	more := func() bool { return false }
	if o.follow {
		more = l.goesOn(ctx, entry.ID)
		l.streams.watch(true)
		defer func() { err = cmp.Or(err, context.Cause(ctx)) }()
	}
	turn, err := l.awaitTurn(ctx, entry.ID, more)
	if err != nil {
		return err
	}
	defer turn.Close()
	if m := entry.Manifest; m != nil && m.Status == state.StatusInterrupted {
		fmt.Fprintln(l.streams.Err, "holon: holon did not see the end of this turn; the files of its container claim this:")
	}
	switch {
	case o.tools:
		return l.toolLogs(turn, turns.ToolsDir)
	case o.events:
		return l.records(ctx, turn, turns.EventsFile, more)
	case l.JSON:
		return l.records(ctx, turn, turns.RuntimeFile, more)
	}
	return l.showStory(ctx, turn, entry.ID, more, o.outputs)
}

// records prints the lines of a file that are JSON.
func (l *lifecycle) records(ctx context.Context, turn *turnfiles.Files, name string, more func() bool) error {
	for line, err := range turn.Lines(ctx, name, more) {
		if err != nil {
			return err
		}
		if !json.Valid(line) {
			fmt.Fprintf(l.streams.Err, "holon: a line of %s is not JSON and was left out\n", name)
			continue
		}
		if _, err := fmt.Fprintln(l.streams.Out, string(machineText(line))); err != nil {
			return err
		}
	}
	return nil
}

// maxToolOutput bounds what is shown of one output.
const maxToolOutput = 64 << 20

// toolLogs prints the files that tools left in a directory, each under its name.
func (l *lifecycle) toolLogs(turn *turnfiles.Files, dir string) error {
	return fs.WalkDir(turn.FS(), dir, func(name string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) && name == dir {
			return nil
		}
		if err != nil {
			fmt.Fprintln(l.streams.Err, "holon: "+visible.OneLine(name+": "+err.Error(), 300))
			return nil
		}
		if !d.Type().IsRegular() || d.Name() == turns.ArgumentsFile {
			return nil
		}
		f, err := turn.Open(name)
		if err != nil {
			fmt.Fprintln(l.streams.Err, "holon: "+visible.OneLine(err.Error(), 300))
			return nil
		}
		defer f.Close()
		if _, err := fmt.Fprintf(l.streams.Out, "== %s\n", visible.Name(path.Clean(name))); err != nil {
			return err
		}
		return l.streams.copyPrintable(io.LimitReader(f, maxToolOutput))
	})
}

// copyPrintable prints text, and a line end behind it where it has none.
func (s Streams) copyPrintable(in io.Reader) error {
	ended := true
	err := s.copyLines(in, func(piece string) string {
		ended = strings.HasSuffix(piece, "\n")
		return s.shown(piece)
	})
	if !ended {
		fmt.Fprintln(s.Out)
	}
	return err
}

// copyLines prints what show makes of text, in pieces that end with a line where there are lines.
func (s Streams) copyLines(in io.Reader, show func(piece string) string) error {
	lines := bufio.NewReaderSize(in, 64<<10)
	for {
		piece, err := lines.ReadSlice('\n')
		if len(piece) > 0 {
			if _, err := io.WriteString(s.Out, show(string(piece))); err != nil {
				return err
			}
		}
		switch {
		case err == io.EOF:
			return nil
		case err != nil && !errors.Is(err, bufio.ErrBufferFull):
			return err
		}
	}
}

// containerLog prints what agentd wrote to its output.
func (l *lifecycle) containerLog(ctx context.Context, entry *files.Entry) error {
	rec, err := sessions.ReadRun(entry.Dir)
	if err == nil && rec.Handle != nil {
		if eng, err := l.engine(rec.Engine); err == nil && eng != nil {
			if logs, err := eng.Logs(ctx, *rec.Handle, 10<<20); err == nil {
				return l.streams.copyPrintable(strings.NewReader(string(logs)))
			}
		}
	}
	if turn, err := oneshot.OpenTurn(entry); err == nil && entry.Manifest != nil {
		defer turn.Close()
		if f, err := turn.Open(oneshot.LogFile); err == nil {
			defer f.Close()
			return l.streams.copyPrintable(f)
		}
	}
	return &runner.Error{Code: oneshot.CodeNoTurn, Param: "--container",
		Message: "the container of " + entry.ID + " is gone, and its log was not kept",
		Hint:    "start runs with --keep to keep it"}
}
