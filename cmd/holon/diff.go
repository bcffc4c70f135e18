package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"holon/internal/userprogram"
	"holon/internal/visible"
	"holon/runner/oneshot"
	"holon/runner/workspace"
	"holon/state/files"
)

type diffOptions struct{ stat, nameOnly, executed bool }

func newDiffCommand(streams Streams) *cobra.Command {
	o := &diffOptions{}
	cmd := attemptCommand(streams, "diff [RUN]", "Show the change of a run",
		func(ctx context.Context, l *lifecycle) error { return runDiff(ctx, l, o) })
	cmd.Long = `Show the patch of a run, by default the last one, and on stderr the files in it
that programs execute without being asked to. On a terminal it is coloured and shown
by a pager (HOLON_PAGER, PAGER, else less), and what could not be seen is left out.

` + aboutRun
	cmd.Example = "  holon diff\n  holon diff --stat last\n  holon diff last | git apply"
	f := cmd.Flags()
	f.BoolVar(&o.stat, "stat", false, "list the files with their changed lines")
	f.BoolVar(&o.nameOnly, "name-only", false, "list the names of the files")
	f.BoolVar(&o.executed, "executed", false, "list all files that programs execute without being asked to")
	cmd.MarkFlagsMutuallyExclusive("stat", "name-only", "executed", "json")
	return cmd
}

func runDiff(ctx context.Context, l *lifecycle, o *diffOptions) error {
	entry, err := l.changedRun(ctx, anyFile)
	if err != nil {
		return err
	}
	_, diff, err := result(entry)
	if err != nil {
		return err
	}
	unchanged := diff == nil || len(diff.Files) == 0
	if unchanged {
		fmt.Fprintf(l.streams.Err, "holon: %s changed no file\n", entry.ID)
		diff = cmp.Or(diff, &workspace.Diff{Files: []workspace.FileChange{}})
	}
	err = l.show(diff, nil, func() error {
		switch {
		case unchanged:
			return nil
		case o.executed:
			return printExecuted(l.streams, diff.Warnings)
		}
		if err := o.print(l.streams, entry, diff.Files); err != nil {
			return err
		}
		showExecuted(l.streams, diff.Warnings)
		return nil
	})
	if err == nil && !unchanged && l.ref() == files.Last {
		l.streams.say("holon: this is the change of " + whichRun(entry))
	}
	return err
}

// printExecuted lists the files that programs execute, one a line, with the program.
func printExecuted(streams Streams, warnings []workspace.Warning) error {
	t := newTable(streams)
	for _, w := range warnings {
		if w.Code == workspace.WarnExecuted {
			t.row(visible.Name(w.Path), w.Message)
		}
	}
	return t.end()
}

func (o *diffOptions) print(streams Streams, entry *files.Entry, changes []workspace.FileChange) error {
	switch {
	case o.nameOnly:
		return printTable(streams, changes, nil, func(f workspace.FileChange) []string {
			return []string{visible.Name(f.Path)}
		})
	case o.stat:
		return printChanges(streams, changes)
	}
	patch, err := oneshot.OpenPatch(entry)
	if err != nil {
		return err
	}
	defer patch.Close()
	return printPatch(streams, patch)
}

// printChanges prints the changed files, each with how much of it was changed.
func printChanges(streams Streams, changes []workspace.FileChange) error {
	return printTable(streams, changes, nil, func(f workspace.FileChange) []string {
		return []string{f.Status, namesOf(f), f.Changed()}
	})
}

// printPatch copies a patch as it is, for programs, or line by line for a terminal.
func printPatch(streams Streams, file io.Reader) error {
	switch {
	case streams.OutTTY:
		return streams.paged(func(s Streams) error { return s.copyPatch(file) })
	case streams.CI:
		return streams.copyPrintable(file)
	}
	_, err := io.Copy(streams.Out, file)
	return err
}

// copyPatch prints a patch line by line, fit for a terminal and coloured.
func (s Streams) copyPatch(in io.Reader) error {
	inHunk, whole, style := false, true, ""
	return s.copyLines(in, func(text string) string {
		if whole { // else it goes on with a line that is longer than a piece
			inHunk = !strings.HasPrefix(text, "diff --git ") && (inHunk || strings.HasPrefix(text, "@@ "))
			style = styleOf(text, inHunk)
		}
		line := strings.TrimSuffix(s.shown(text), "\n")
		if style != "" {
			line = s.paint(style, line)
		}
		if whole = strings.HasSuffix(text, "\n"); whole {
			line += "\n"
		}
		return line
	})
}

// styleOf is the style of a line of a patch, "" for none.
func styleOf(line string, inHunk bool) string {
	switch {
	case !inHunk:
		return styleBold
	case strings.HasPrefix(line, "@@ "):
		return styleCode
	case strings.HasPrefix(line, "+"):
		return styleGreen
	case strings.HasPrefix(line, "-"):
		return styleRed
	}
	return ""
}

// paged calls print with streams whose output a pager shows, when there is a terminal and a pager: that of HOLON_PAGER
// or PAGER, else less where it is installed; "" and "cat" mean none. A pager that is closed early ends the output
// without an error.
func (s Streams) paged(print func(Streams) error) error {
	variable, name := chosenPager()
	if !s.OutTTY || name == "" || name == "cat" {
		return print(s)
	}
	pager := userprogram.Command(context.Background(), name) // it ends when the person closes it
	pager.Env = append([]string{"LESS=FRX", "LV=-c"}, os.Environ()...)
	pager.Stdout, pager.Stderr = os.Stdout, os.Stderr
	in, err := pager.StdinPipe()
	if err == nil {
		err = pager.Start()
	}
	if err != nil {
		return print(s)
	}
	paged := s
	paged.Out = s.Secrets.Writer(in, nil)
	err = print(paged)
	closed := errors.Join(in.Close(), pager.Wait())
	if err != nil && !errors.Is(err, syscall.EPIPE) {
		return err
	}
	if closed != nil {
		return usage(variable, fmt.Sprintf("%q: %v", visible.OneLine(name, 100), closed),
			"name a pager that works, or cat for none")
	}
	return nil
}

// chosenPager is the pager, "" for none, and the variable that names one.
func chosenPager() (variable, name string) {
	for _, variable = range []string{"HOLON_PAGER", "PAGER"} {
		if name, set := os.LookupEnv(variable); set {
			return variable, name
		}
	}
	if userprogram.Installed("less") {
		name = "less"
	}
	return variable, name
}
