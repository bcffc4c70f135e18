package main

import (
	"cmp"
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"holon/internal/visible"
	"holon/runner/oneshot"
	"holon/runner/workspace"
	"holon/state/files"
)

// diffOptions are what `holon diff` was asked to do.
type diffOptions struct {
	streams Streams
	host
	Run      string
	Stat     bool
	NameOnly bool
	Executed bool
	JSON     bool
}

// newDiffCommand makes `holon diff`.
func newDiffCommand(streams Streams) *cobra.Command {
	opts := &diffOptions{streams: streams}
	cmd := &cobra.Command{
		Use:   "diff [RUN]",
		Short: "Show the change of a run",
		Long: `Show the patch of a run, by default the last one, and on stderr the files in it
that programs execute without being asked to. On a terminal it is coloured and shown
by a pager (HOLON_PAGER, PAGER, else less), and what could not be seen is left out.

` + aboutRun,
		Example: "  holon diff\n  holon diff --stat last\n  holon diff last | git apply",
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			if opts.Run, err = runOrLast(args); err == nil {
				err = opts.host.fromEnv()
			}
			if err == nil {
				err = opts.run(cmd.Context())
			}
			return err
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.BoolVar(&opts.Stat, "stat", false, "list the files with their changed lines")
	f.BoolVar(&opts.NameOnly, "name-only", false, "list the names of the files")
	f.BoolVar(&opts.Executed, "executed", false, "list all files that programs execute without being asked to")
	f.BoolVar(&opts.JSON, "json", false, "print the list of files and the warnings as JSON")
	cmd.MarkFlagsMutuallyExclusive("stat", "name-only", "executed", "json")
	return cmd
}

func (o *diffOptions) run(ctx context.Context) error {
	_, entry, err := o.open(ctx, o.Run)
	if err != nil {
		return err
	}
	_, diff, err := result(entry)
	if err != nil {
		return err
	}
	if diff == nil || len(diff.Files) == 0 {
		fmt.Fprintf(o.streams.Err, "holon: %s changed no file\n", entry.ID)
		if o.JSON {
			return printJSON(o.streams, cmp.Or(diff, &workspace.Diff{Files: []workspace.FileChange{}}))
		}
		return nil
	}
	if o.JSON {
		return printJSON(o.streams, diff)
	}
	if o.Executed {
		return o.executed(diff.Warnings)
	}
	if err := o.show(entry, diff.Files); err != nil {
		return err
	}
	showExecuted(o.streams, diff.Warnings)
	return nil
}

// executed lists the files that programs execute, one a line, with the program.
func (o *diffOptions) executed(warnings []workspace.Warning) error {
	t := newTable(o.streams)
	for _, w := range warnings {
		if w.Code == workspace.WarnExecuted {
			t.row(visible.Name(w.Path), w.Message)
		}
	}
	return t.end()
}

func (o *diffOptions) show(entry *files.Entry, changes []workspace.FileChange) error {
	switch {
	case o.NameOnly:
		t := newTable(o.streams)
		for _, f := range changes {
			t.row(visible.Name(f.Path))
		}
		return t.end()
	case o.Stat:
		t := newTable(o.streams)
		for _, f := range changes {
			t.row(f.Status, namesOf(f), lineCounts(f))
		}
		return t.end()
	}
	patch, err := oneshot.OpenPatch(entry)
	if err != nil {
		return err
	}
	defer patch.Close()
	return o.patch(patch)
}

// lineCounts says how much of a file was changed.
func lineCounts(f workspace.FileChange) string {
	if f.Binary {
		return "binary"
	}
	return fmt.Sprintf("+%d −%d", f.Added, f.Deleted)
}

// patch copies the patch as it is, for programs, or line by line for a terminal.
func (o *diffOptions) patch(file io.Reader) error {
	if !o.streams.OutTTY && !o.streams.CI {
		_, err := io.Copy(o.streams.Out, file)
		return err
	}
	if !o.streams.OutTTY {
		return o.streams.copyPrintable(file)
	}
	return o.streams.paged(func(s Streams) error { return s.copyPatch(file) })
}
