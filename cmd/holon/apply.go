package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"holon/internal/visible"
	"holon/runner/oneshot"
	"holon/runner/workspace"
	"holon/runner/workspace/git"
	"holon/runner/workspace/landing"
)

// applyOptions are what `holon apply` was asked to do.
type applyOptions struct {
	streams Streams
	host
	Run       string
	Workspace string
	JSON      bool
	gate      gate
}

// newApplyCommand makes `holon apply`.
func newApplyCommand(streams Streams, do func(context.Context, *applyOptions) error) *cobra.Command {
	opts := &applyOptions{streams: streams}
	cmd := &cobra.Command{
		Use:   "apply RUN",
		Short: "Apply the change of a run to your files",
		Long: `Apply the change of a run to the files it was made from, merging three ways with
what you changed since. All of it is applied, or, when something conflicts,
nothing: then the files at fault are listed and nothing was touched. What is there
already, such as a deleted file, is no conflict. A change with
files that programs execute without being asked to (git, editors, shells, package
managers, CI) needs --allow-executed, or your yes at a terminal.

The change is left uncommitted, for you to review. A run of another workspace is
applied there; it is said first where that is.

` + aboutRun,
		Example: "  holon apply last",
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			if opts.Run, err = oneRun(args); err == nil {
				err = opts.host.fromEnv()
			}
			if err == nil {
				err = do(cmd.Context(), opts)
			}
			return err
		},
	}
	cmd.Flags().StringVar(&opts.Workspace, "workspace", "",
		"`directory` to apply to (default the one that the run was made from)")
	opts.gate.flag(cmd.Flags())
	cmd.Flags().BoolVar(&opts.JSON, "json", false, "print what was written as JSON")
	return cmd
}

// runApply does what `holon apply` was asked to do.
func runApply(ctx context.Context, o *applyOptions) error {
	home, entry, err := o.open(ctx, o.Run)
	if err != nil {
		return err
	}
	info, diff, err := result(entry)
	if err != nil {
		return err
	}
	dir := cmp.Or(o.Workspace, info.Path)
	if dir == "" {
		return usage("--workspace", "the run does not say what it was made from", "name the directory")
	}
	if diff == nil || len(diff.Files) == 0 {
		fmt.Fprintf(o.streams.Err, "holon: %s changed no file\n", entry.ID)
		if o.JSON {
			return printJSON(o.streams,
				landing.ApplyResult{RunID: entry.ID, Path: dir, Written: []string{}, Deleted: []string{}})
		}
		return nil
	}
	if o.Workspace == "" {
		if err := o.streams.fromElsewhere("RUN", o.Run, entry.ID, dir); err != nil {
			return err
		}
	}
	patch, err := oneshot.PatchOf(entry)
	if err != nil {
		return err
	}
	killed, err := landing.UndoKilled(ctx, home.RunsDir(), false)
	if err != nil {
		return err
	}
	for _, k := range killed {
		if k.Err != nil && k.Run != entry.ID { // which Apply refuses
			o.streams.sayFailure(describe(k.Err))
		}
	}
	merge := ""
	if info.Kind == workspace.KindGit && o.Workspace == "" { // git merges commits and leaves what conflicts to the user
		merge = "commit your changes and git merge the branch that holon checkout " + entry.ID + " makes of the result"
	}
	applied, err := landing.Apply(ctx, landing.ApplyOptions{
		Dir: dir, Patch: patch, Merge: merge, RunDir: entry.Dir,
		Objects:   filepath.Join(entry.Dir, oneshot.ObjectsDir),
		Borrowing: o.borrowing(home), Warnings: diff.Warnings, Confirm: o.gate.confirm(ctx, o.streams, o.JSON, entry.ID),
	})
	if err != nil {
		if e, ok := errors.AsType[*git.Error](err); ok && e.Code != landing.CodeExecutedFiles {
			for _, path := range e.Paths {
				fmt.Fprintf(o.streams.Err, "  conflict  %s\n", visible.Name(path))
			}
		}
		return err
	}
	applied.RunID = entry.ID
	return o.show(applied)
}

func (o *applyOptions) show(result *landing.ApplyResult) error {
	if o.JSON {
		return printJSON(o.streams, result)
	}
	t := newTable(o.streams)
	for _, path := range result.Written {
		t.row("written", visible.Name(path))
	}
	for _, path := range result.Deleted {
		t.row("deleted", visible.Name(path))
	}
	if err := t.end(); err != nil {
		return err
	}
	if len(result.Written)+len(result.Deleted) == 0 {
		o.streams.say(fmt.Sprintf("the change of %s is in %s already", result.RunID, result.Path))
		return nil
	}
	o.streams.say(fmt.Sprintf("applied %s to %s; nothing is committed", result.RunID, result.Path))
	return nil
}

// fromElsewhere refuses a run of another workspace than this directory's, unless it is named by its whole id: then it
// says which workspace that is.
func (s *Streams) fromElsewhere(param, asked, id, dir string) error {
	here, err := os.Getwd()
	if err != nil || dir == "" || git.Within(dir, here) {
		return nil
	}
	if asked != id {
		return usage(param, fmt.Sprintf("%q is %s of another workspace, %s", visible.OneLine(asked, 100), id,
			visible.OneLine(dir, 500)), "give its whole id, or --workspace")
	}
	s.say(fmt.Sprintf("%s is of another workspace: its change goes to %s", id, visible.OneLine(dir, 500)))
	return nil
}
