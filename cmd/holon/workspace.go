package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"holon/internal/visible"
	"holon/runner/agent/view"
	"holon/runner/control/wire"
	"holon/runner/workspace"
	"holon/state"
	"holon/state/ledger"
)

func newWorkspaceCommand(streams Streams) *cobra.Command {
	return group("workspace", "Let agents work in your directories, and take what they change",
		`An agent works on private copies of the directories that it has attached. You see and
take what it changes there at any time: your own files change by apply and checkout only.

WORKSPACE is an id, an alias, a path or the name of a copy; workspace list shows them.`,
		newWorkspaceAttach(streams), newWorkspaceList(streams), newWorkspaceUse(streams),
		workspaceCommand(streams, "exit", "Let an agent work in its home again", runWorkspaceExit),
		newWorkspaceDiff(streams), newWorkspaceApply(streams), newWorkspaceCheckout(streams),
		newWorkspaceSync(streams), newWorkspaceDetach(streams), newWorkspaceDiscard(streams))
}

// workspaceCommand is remoteCommand for commands whose argument is a directory or a workspace.
func workspaceCommand(streams Streams, use, short string, do func(context.Context, *remote) error) *cobra.Command {
	_, argument, _ := strings.Cut(use, " ")
	return remoteCommand(streams, use, short, func(ctx context.Context, r *remote) error {
		err := do(ctx, r)
		if e, ok := errors.AsType[*state.Error](err); ok && (e.Param == "path" || e.Param == "workspace_id") {
			named := *e
			named.Param = cmp.Or(strings.Trim(argument, "[]"), "workspace")
			return &named
		}
		return err
	})
}

func newWorkspaceAttach(streams Streams) *cobra.Command {
	cmd := workspaceCommand(streams, "attach [DIR]", "Let an agent work on copies of a directory",
		func(ctx context.Context, r *remote) error {
			dir, err := absolute("DIR", r.argument("."))
			if err != nil {
				return err
			}
			made, err := r.AttachWorkspace(ctx, r.Agent, dir)
			return r.show(made, err, func() error { return showWorkspaces(r, []view.WorkspaceRecord{made.Workspace}) })
		})
	cmd.Long = `Let an agent work on copies of a directory: of a repository with its history, or of a
plain directory. It stays where it works until you or the agent choose another place.`
	return cmd
}

func newWorkspaceList(streams Streams) *cobra.Command {
	all := false
	cmd := workspaceCommand(streams, "list", "List the workspaces of an agent, with its copies",
		func(ctx context.Context, r *remote) error {
			list, err := r.Workspaces(ctx, r.Agent, view.MaxLimit)
			if all && err == nil {
				list, err = r.Registry(ctx)
			}
			if r.JSON || err != nil {
				return r.show(list, err, nil)
			}
			return showWorkspaces(r, list)
		})
	cmd.Flags().BoolVarP(&all, "all", "a", false, "those of all agents")
	return tableCommand(cmd, streams)
}

// showWorkspaces prints each workspace, and below it the copies that the agent has of it.
func showWorkspaces(r *remote, list []view.WorkspaceRecord) error {
	t := newTable(r.streams, "WORKSPACE", "ALIAS", "STATE", "COPIES*", "PATH*")
	for _, w := range list {
		state := "attached"
		switch {
		case w.Active:
			state = "active"
		case w.AttachedAt.IsZero():
			state = "detached"
		}
		copies := ""
		for _, tree := range w.Trees {
			if copies != "" {
				copies += ", "
			}
			if tree.AgentID != "" {
				copies += tree.AgentID + ":"
			}
			copies += tree.Name
			if tree.Status != ledger.TreeActive {
				copies += " (" + string(tree.Status) + ")"
			}
		}
		t.row(w.ID, w.Alias, state, copies, r.streams.oneLine(w.Anchor, 1000))
	}
	return t.end()
}

func newWorkspaceUse(streams Streams) *cobra.Command {
	isolated, wait := false, false
	cmd := workspaceCommand(streams, "use WORKSPACE", "Have an agent work in a workspace from its next turn on",
		func(ctx context.Context, r *remote) error {
			use, err := workspaceNamed(ctx, r, r.args[0])
			if err != nil {
				return err
			}
			if use.Wait = wait; isolated {
				use.Mode = string(ledger.TreeIsolated)
			}
			return r.showEntered(r.UseWorkspace(ctx, r.Agent, use))
		})
	cmd.Long = `Have an agent work in a workspace from its next turn on. A directory that it does not
have is attached first; agent_home is its home.`
	cmd.Flags().BoolVar(&isolated, "isolated", false, "in a fresh copy, not in the one that it always has")
	cmd.Flags().BoolVar(&wait, "wait", false, "wait for the end of a turn that runs")
	return cmd
}

// workspaceNamed tells a path from the name of a workspace: a path has a slash or is "." or "..".
func workspaceNamed(_ context.Context, r *remote, name string) (use view.WorkspaceUse, err error) {
	if isName(name) {
		use.WorkspaceID = strings.ToLower(name)
		return use, nil
	}
	use.Path, err = absolute("WORKSPACE", name)
	return use, err
}

// isName tells the name of a workspace, which is in lower case however it is written, from a path.
func isName(name string) bool { return filepath.Base(name) == name && name != "." && name != ".." }

func absolute(param, name string) (string, error) {
	abs, err := filepath.Abs(name)
	if err != nil {
		return "", usage(param, err.Error(), "give an absolute path")
	}
	return abs, nil
}

func runWorkspaceExit(ctx context.Context, r *remote) error {
	return r.showEntered(r.ExitWorkspace(ctx, r.Agent))
}

func (r *remote) showEntered(now wire.WorkspaceEntered, err error) error {
	return r.show(now, err, func() error {
		a := now.Active
		return facts(r.streams, "agent", now.AgentID, "workspace", a.WorkspaceID, "alias", a.WorkspaceAlias,
			"path", r.streams.oneLine(a.WorkspaceAnchor, 1000), "works in", r.streams.oneLine(a.Cwd, 1000))
	})
}

// argument is the first argument, or otherwise.
func (r *remote) argument(otherwise string) string {
	if len(r.args) > 0 {
		return r.args[0]
	}
	return otherwise
}

// ref is the argument WORKSPACE as the daemon finds it, "" for none.
func (r *remote) ref() (string, error) {
	name := r.argument("")
	if name == "" || isName(name) {
		return strings.ToLower(name), nil
	}
	abs, err := absolute("WORKSPACE", name)
	if real, resolved := filepath.EvalSymlinks(abs); resolved == nil {
		abs = real // workspaces have paths without links
	}
	return abs, err
}

func newWorkspaceDiff(streams Streams) *cobra.Command {
	o := &diffOptions{}
	cmd := workspaceCommand(streams, "diff [WORKSPACE]", "Show what an agent changed in its workspaces",
		func(ctx context.Context, r *remote) error { return runWorkspaceDiff(ctx, r, o) })
	cmd.Long = `Show what an agent changed in a workspace, or in all that it has attached, since you
took its changes last.`
	f := cmd.Flags()
	f.BoolVar(&o.stat, "stat", false, "list the files with their changed lines")
	f.BoolVar(&o.nameOnly, "name-only", false, "list the names of the files")
	cmd.MarkFlagsMutuallyExclusive("stat", "name-only", "json")
	return cmd
}

func runWorkspaceDiff(ctx context.Context, r *remote, o *diffOptions) error {
	name, err := r.ref()
	if err != nil {
		return err
	}
	diffs, err := r.DiffWorkspace(ctx, r.Agent, name)
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
		if err := r.printDiff(d, o); err != nil {
			return err
		}
	}
	showExecuted(r.streams, d.Changes.Warnings)
	r.sayWarnings(d.Tree, d.Changes.Warnings)
	return nil
}

func copyOf(t view.TreeRef) string {
	return fmt.Sprintf("%s, a copy of %s", t.Tree, visible.OneLine(t.Path, 1000))
}

// ofAgent is the flag that names the agent once more, "" for the default one.
func (r *remote) ofAgent() string {
	if r.Agent == "" {
		return ""
	}
	return " --agent " + r.Agent
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
			diffs, err := r.DiffWorkspace(ctx, r.Agent, tree.Name)
			if err == nil && len(diffs) == 1 && len(diffs[0].Changes.Files) == 0 && !diffs[0].Changes.Incomplete {
				continue
			}
			r.streams.say(fmt.Sprintf("copy %s has changes too: holon workspace diff %s%s", tree.Name, tree.Name, r.ofAgent()))
		}
	}
	return nil
}

func (r *remote) printDiff(d view.TreeDiff, o *diffOptions) error {
	switch {
	case o.nameOnly:
		for _, f := range d.Changes.Files {
			if _, err := fmt.Fprintln(r.streams.Out, visible.Name(f.Path)); err != nil {
				return err
			}
		}
		return nil
	case o.stat:
		return printChanges(r.streams, d.Changes.Files)
	}
	patch, err := os.Open(d.Changes.Patch)
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
		for _, name := range d.Written {
			t.row("written", visible.Name(filepath.Join(d.Path, name)))
		}
		for _, name := range d.Deleted {
			t.row("deleted", visible.Name(filepath.Join(d.Path, name)))
		}
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

func newWorkspaceCheckout(streams Streams) *cobra.Command {
	o := view.WorkspaceCheckout{}
	cmd := workspaceCommand(streams, "checkout [WORKSPACE]", "Make a branch of what an agent changed",
		func(ctx context.Context, r *remote) (err error) {
			if o.WorkspaceID, err = r.ref(); err != nil {
				return err
			}
			if o.Path != "" {
				if o.Path, err = absolute("--path", o.Path); err != nil {
					return err
				}
			}
			done, err := r.CheckoutWorkspace(ctx, r.Agent, o)
			return r.show(done, err, func() error {
				r.streams.say(fmt.Sprintf("branch   %s: %d commits on %.12s", visible.OneLine(done.Branch, 300), done.Commits,
					cmp.Or(done.Base, "a new root")))
				r.streams.say("remove   holon checkout --remove " + done.ID)
				_, err := fmt.Fprintln(r.streams.Out, visible.OneLine(done.Worktree, 5000))
				return err
			})
		})
	cmd.Long = `Make a branch of what an agent changed in a workspace, by default the one in which it
works, with a working tree, whose path is printed. Your own files and branches stay as
they are, and so does the agent's copy.`
	f := cmd.Flags()
	f.StringVar(&o.Branch, "branch", "", "`name` of the new branch (default holon/ and agent, copy and a number)")
	f.StringVar(&o.Path, "path", "", "`directory` for the working tree (default below HOLON_HOME/worktrees)")
	f.BoolVar(&o.AllowExecuted, "allow-executed", false, "also files that programs execute without being asked to")
	return cmd
}

func newWorkspaceSync(streams Streams) *cobra.Command {
	cmd := workspaceCommand(streams, "sync [WORKSPACE]", "Bring what you changed into the copy of an agent",
		func(ctx context.Context, r *remote) error {
			name, err := r.ref()
			if err != nil {
				return err
			}
			done, err := r.SyncWorkspace(ctx, r.Agent, name)
			return r.show(done, err, func() error {
				return facts(r.streams, "workspace", done.WorkspaceAlias, "copy", done.Tree, "base", done.Base,
					"branch", done.Branch, "files", fmt.Sprint(done.Changed))
			})
		})
	cmd.Long = `Bring your commits since, and after an apply your files as they are, into the copy of an
agent, by default of the workspace in which it works. What the agent changed stays on
top. If something does not merge, nothing is changed, and the files at fault are named.`
	return cmd
}

func newWorkspaceDetach(streams Streams) *cobra.Command {
	cmd := workspaceCommand(streams, "detach WORKSPACE", "Take a workspace from an agent",
		func(ctx context.Context, r *remote) error {
			name, err := r.ref()
			if err != nil {
				return err
			}
			done, err := r.DetachWorkspace(ctx, r.Agent, name)
			return r.show(done, err, func() error {
				r.streams.say(fmt.Sprintf("detached %s from %s; nothing was removed", done.WorkspaceID, done.AgentID))
				return nil
			})
		})
	cmd.Long = `Take a workspace from an agent, also one whose directory is gone. Nothing is removed: its
copy and your files stay. The one in which it works cannot be taken; let it use another first.`
	return cmd
}
