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
	"holon/state"
)

func newApplyCommand(streams Streams) *cobra.Command {
	workspace, c := "", consent{}
	cmd := attemptCommand(streams, "apply RUN", "Apply the change of a run to your files",
		func(ctx context.Context, l *lifecycle) error { return runApply(ctx, l, workspace, c) })
	cmd.Long = `Apply the change of a run to the files it was made from, merging three ways with
what you changed since. All of it is applied, or, when something conflicts,
nothing: then the files at fault are listed and nothing was touched. What is there
already, such as a deleted file, is not a conflict. A change with
files that programs execute without being asked to (git, editors, shells, package
managers, CI) needs --allow-executed, or your yes at a terminal.

The change is left uncommitted, for you to review. A run of another workspace is
applied there, which is announced first.

` + aboutRun
	cmd.Example = "  holon apply last"
	cmd.Flags().StringVar(&workspace, "workspace", "",
		"`directory` to apply to (default the one that the run was made from)")
	c.flag(cmd.Flags())
	return cmd
}

func runApply(ctx context.Context, l *lifecycle, into string, c consent) error {
	entry, err := l.changedRun(ctx, anyFile)
	if err != nil {
		return err
	}
	info, diff, err := result(entry)
	if err != nil {
		return err
	}
	dir := cmp.Or(into, info.Path)
	if dir == "" {
		return usage("--workspace", "the run has no record of what it was made from", "name the directory")
	}
	if diff == nil || len(diff.Files) == 0 {
		fmt.Fprintf(l.streams.Err, "holon: %s changed no file\n", entry.ID)
		return l.show(landing.ApplyResult{RunID: entry.ID, Path: dir, Written: []string{}, Deleted: []string{}}, nil,
			func() error { return nil })
	}
	merge := ""
	if into == "" {
		asked, _ := state.WholeOf(entry.ID)
		if asked != l.ref() {
			asked = entry.ID
		}
		if err := l.streams.fromElsewhere("RUN", l.ref(), asked, dir); err != nil {
			return err
		}
		if info.Kind == workspace.KindGit { // git merges commits and leaves what conflicts to the user
			merge = "commit your changes and git merge the branch that holon checkout " + entry.ID + " makes of the result"
		}
	}
	if err := l.undoKilled(ctx, entry.ID); err != nil {
		return err
	}
	patch, err := oneshot.PatchOf(entry)
	if err != nil {
		return err
	}
	applied, err := landing.Apply(ctx, landing.ApplyOptions{
		Dir: dir, Patch: patch, Merge: merge, RunDir: entry.Dir,
		Objects:   filepath.Join(entry.Dir, oneshot.ObjectsDir),
		Borrowing: l.borrowing(l.home), Submodules: diff.Submodules,
		Warnings: diff.Warnings, Confirm: c.confirm(ctx, l.streams, l.JSON, entry.ID),
	})
	if err != nil {
		return l.showConflicts(err)
	}
	applied.RunID = entry.ID
	return l.show(applied, nil, func() error { return showApplied(l.streams, applied) })
}

// undoKilled undoes what killed commands left half written, and reports what cannot be undone; of the run id, landing
// refuses it.
func (l *lifecycle) undoKilled(ctx context.Context, id string) error {
	killed, err := landing.UndoKilled(ctx, l.home.RunPatterns(), false)
	for _, k := range killed {
		if k.Err != nil && l.home.RunAt(k.Dir) != id {
			l.streams.sayFailure(describe(k.Err))
		}
	}
	return err
}

// showConflicts names the files that an error is about, and returns it.
func (l *lifecycle) showConflicts(err error) error {
	if e, ok := errors.AsType[*git.Error](err); ok && e.Code != landing.CodeExecutedFiles {
		for _, path := range e.Paths {
			fmt.Fprintf(l.streams.Err, "  conflict  %s\n", visible.Name(path))
		}
	}
	return err
}

func showApplied(streams Streams, result *landing.ApplyResult) error {
	t := newTable(streams)
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
		streams.say(fmt.Sprintf("the change of %s is in %s already", result.RunID, result.Path))
		return nil
	}
	streams.say(fmt.Sprintf("applied %s to %s; nothing is committed", result.RunID, result.Path))
	return nil
}

// fromElsewhere refuses a run of another workspace than this directory's, unless it is named by its whole id: then it
// prints which workspace that is.
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
