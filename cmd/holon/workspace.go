package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"holon/internal/visible"
	"holon/runner/agent/view"
	"holon/runner/control/wire"
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
			return r.show(made, err, func() error { return showWorkspaces(r, []view.WorkspaceRecord{made.Workspace}, false) })
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
			return showWorkspaces(r, list, all)
		})
	cmd.Flags().BoolVarP(&all, "all", "a", false, "those of all agents")
	return tableCommand(cmd, streams)
}

// showWorkspaces prints each workspace, and below it the copies that the agent has of it, or all agents.
func showWorkspaces(r *remote, list []view.WorkspaceRecord, all bool) error {
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
			if all {
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
