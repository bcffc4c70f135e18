package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"holon/runner/oneshot"
)

// diffOptions are what `holon diff` was asked to do.
type diffOptions struct {
	streams Streams
	host
	Run  string
	JSON bool
}

// newDiffCommand makes `holon diff`.
func newDiffCommand(streams Streams) *cobra.Command {
	opts := &diffOptions{streams: streams}
	cmd := &cobra.Command{
		Use:   "diff [flags] RUN",
		Short: "Show the change of a run",
		Long: `Show the patch of a run, and on stderr the files in it that programs execute
without being asked to. On a terminal what could not be seen is left out.

` + aboutRun,
		Example: "  holon diff last | less",
		RunE: func(cmd *cobra.Command, args []string) error {
			err := errNotOneRun
			if len(args) == 1 {
				opts.Run = args[0]
				if err = opts.host.fromEnv(); err == nil {
					err = opts.run(cmd.Context())
				}
			}
			return asJSON(err, opts.JSON)
		},
	}
	cmd.Flags().BoolVar(&opts.JSON, "json", false, "print the list of files and the warnings as JSON")
	return cmd
}

var errNotOneRun = usage("RUN", "is one argument", `give a run's id, the beginning of it, its name, or "last"`)

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
		fmt.Fprintf(o.streams.Err, "holon: run %s changed no file\n", entry.ID)
		return nil
	}
	if o.JSON {
		return printJSON(o.streams, diff)
	}
	if err := o.show(filepath.Join(entry.OutputDir(), oneshot.DiffFile)); err != nil {
		return err
	}
	showExecuted(o.streams, diff.Warnings)
	return nil
}

// show copies the patch as it is, for programs, or line by line for a terminal.
func (o *diffOptions) show(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	if !o.streams.OutTTY && !o.streams.CI {
		_, err := io.Copy(o.streams.Out, file)
		return err
	}
	return o.streams.copyPrintable(file)
}
