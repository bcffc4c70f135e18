package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"holon/internal/visible"
	"holon/runner/agent/view"
	"holon/runner/control/wire"
	"holon/runner/workspace"
	"holon/state"
	"holon/state/ledger"
)

func newWorkspaceDiff(streams Streams) *cobra.Command {
	o := &diffOptions{}
	cmd := workspaceCommand(streams, "diff [WORKSPACE]", "Show what an agent changed in its workspaces",
		func(ctx context.Context, r *remote) error { return runWorkspaceDiff(ctx, r, o) })
	cmd.Long = `Show what an agent changed in a workspace, or in all that it has attached, since you
took its changes last.`
	o.define(cmd)
	return cmd
}

// define makes the flags of a diff that the daemon answers.
func (o *diffOptions) define(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&o.stat, "stat", false, "list the files with their changed lines")
	f.BoolVar(&o.nameOnly, "name-only", false, "list the names of the files")
	cmd.MarkFlagsMutuallyExclusive("stat", "name-only", "json")
}

func runWorkspaceDiff(ctx context.Context, r *remote, o *diffOptions) error {
	name, err := r.ref()
	if err != nil {
		return err
	}
	diffs, err := r.DiffWorkspace(ctx, r.Agent, wire.DiffWorkspace{WorkspaceID: name})
	if r.JSON || err != nil {
		return r.show(diffs, err, nil)
	}
	for _, d := range diffs {
		if err := r.showDiff(d, o, len(diffs) > 1 || r.streams.OutTTY); err != nil {
			return err
		}
	}
	if name != "" {
		return nil
	}
	shown := make(map[string]bool)
	for _, d := range diffs {
		shown[d.Tree] = true
	}
	return r.sayOthers(ctx, shown)
}

// showDiff prints what is in a copy, and says what is not.
func (r *remote) showDiff(d view.TreeDiff, o *diffOptions, headed bool) error {
	of := copyOf(d.TreeRef)
	if d.Skipped != "" {
		r.streams.say("skipped: " + of + ": " + visible.OneLine(d.Skipped, 1000))
		return nil
	}
	switch files := len(d.Changes.Files); {
	case files == 0:
		r.streams.say("unchanged: " + of)
	case headed:
		r.streams.say("changed: " + of)
		fallthrough
	default:
		if err := r.printDiff(d.Changes, o); err != nil {
			return err
		}
	}
	if len(d.Changes.Branches) > 0 {
		r.streams.say("commits elsewhere in " + d.Tree + ": " + branchNames(d.Changes.Branches) + ", kept as " +
			visible.OneLine(d.Changes.Bundle, 5000))
	}
	showExecuted(r.streams, d.Changes.Warnings)
	r.sayWarnings(d.Tree, d.Changes.Warnings)
	return nil
}

func copyOf(t view.TreeRef) string {
	return fmt.Sprintf("%s, a copy of %s", t.Tree, visible.OneLine(t.Path, 1000))
}

// sayWarnings says what a change leaves out, and the like.
func (r *remote) sayWarnings(copied string, warnings []state.Warning) {
	for _, w := range warnings {
		if w.Code != workspace.WarnExecuted {
			r.streams.say(visible.OneLine(fmt.Sprintf("warning: %s: %s: %s", copied, visible.Name(w.Path), w.Message), 300))
		}
	}
}

// sayOthers names the copies of attached workspaces that have changes too and are not among those that were shown.
func (r *remote) sayOthers(ctx context.Context, shown map[string]bool) error {
	list, err := r.Workspaces(ctx, r.Agent, view.MaxLimit)
	if err != nil {
		return err
	}
	for _, w := range list {
		for _, tree := range w.Trees {
			if w.AttachedAt.IsZero() || tree.Status != ledger.TreeActive || shown[tree.Name] {
				continue
			}
			diffs, err := r.DiffWorkspace(ctx, r.Agent, wire.DiffWorkspace{WorkspaceID: tree.Name})
			if err == nil && len(diffs) == 1 && len(diffs[0].Changes.Files)+len(diffs[0].Changes.Branches) == 0 &&
				len(workspace.Lost(&diffs[0].Changes)) == 0 {
				continue
			}
			r.streams.say(fmt.Sprintf("copy %s has changes too: holon workspace diff %s --agent %s", tree.Name, tree.Name,
				tree.AgentID))
		}
	}
	return nil
}

func (r *remote) printDiff(d state.Diff, o *diffOptions) error {
	switch {
	case o.nameOnly:
		for _, f := range d.Files {
			if _, err := fmt.Fprintln(r.streams.Out, visible.Name(f.Path)); err != nil {
				return err
			}
		}
		return nil
	case o.stat:
		return printChanges(r.streams, d.Files)
	}
	patch, err := os.Open(d.Patch)
	if err != nil {
		return fmt.Errorf("read the patch, which is on the host of the daemon: %w", err)
	}
	return errors.Join(printPatch(r.streams, patch), patch.Close())
}

func newWorkspaceApply(streams Streams) *cobra.Command {
	o := view.WorkspaceApply{}
	cmd := workspaceCommand(streams, "apply [WORKSPACE]", "Bring what an agent changed into your files",
		func(ctx context.Context, r *remote) (err error) {
			if o.WorkspaceID, err = r.ref(); err != nil {
				return err
			}
			done, err := r.ApplyWorkspace(ctx, r.Agent, o)
			if err = r.show(done, err, func() error { return r.showLanded(done) }); err != nil {
				return err
			}
			shown := make(map[string]bool)
			for _, d := range done {
				shown[d.Tree] = true
				r.sayWarnings(d.Tree, d.Warnings)
			}
			if o.WorkspaceID != "" {
				return nil
			}
			return r.sayOthers(ctx, shown)
		})
	cmd.Long = `Bring what an agent changed into your files, merging three ways with what you changed
since: of one workspace, or of all that it has attached. If something does not merge,
nothing of any is changed, and the files at fault are named. Nothing is committed. The
agent goes on from there, and the next diff shows what it changes then.`
	cmd.Flags().BoolVar(&o.AllowExecuted, "allow-executed", false,
		"also files that programs execute without being asked to")
	return cmd
}

func (r *remote) showLanded(done []view.TreeApplied) error {
	t := newTable(r.streams)
	for _, d := range done {
		t.files("written", d.Path, d.Written)
		t.files("deleted", d.Path, d.Deleted)
	}
	if err := t.end(); err != nil {
		return err
	}
	for _, d := range done {
		switch {
		case d.Skipped != "":
			r.streams.say("skipped: " + copyOf(d.TreeRef) + ": " + visible.OneLine(d.Skipped, 1000))
		case len(d.Written)+len(d.Deleted) == 0:
			r.streams.say(fmt.Sprintf("nothing to do in %s", visible.OneLine(d.Path, 1000)))
		}
	}
	return nil
}
