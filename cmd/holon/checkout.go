package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"holon/internal/visible"
	"holon/runner/oneshot"
	"holon/runner/workspace"
	"holon/runner/workspace/git"
	"holon/runner/workspace/landing"
	"holon/state"
	"holon/state/files"
)

// checkoutOptions are what `holon checkout` was asked to do.
type checkoutOptions struct {
	streams Streams
	host
	Run       string
	Workspace string
	Branch    string
	Path      string
	History   bool
	From      string
	JSON      bool
	gate      gate

	Remove       bool
	Save         bool
	DeleteBranch bool
}

// newCheckoutCommand makes `holon checkout`.
func newCheckoutCommand(streams Streams, do func(context.Context, *checkoutOptions) error) *cobra.Command {
	opts := &checkoutOptions{streams: streams}
	cmd := &cobra.Command{
		Use:   "checkout RUN",
		Short: "Make the result of a run a branch with a working tree",
		Long: `Make the result of a run a branch of the repository that it was made from, on the
commit it started from, and a working tree of that branch (git worktree). Your
own files, index, branches and configuration are not touched.

The path of the working tree is printed; asked again, the same. With --remove the
working tree goes, unless something in it would be lost; the branch stays.

` + aboutRun,
		Example: `  cd "$(holon checkout last)"
  holon checkout --branch fix-login --path ../fix-login last
  holon checkout --remove last`,
		RunE: func(cmd *cobra.Command, args []string) error {
			err := opts.complete(cmd, args)
			if err == nil {
				err = do(cmd.Context(), opts)
			}
			return err
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&opts.Branch, "branch", "", "`name` of the new branch (default holon/ and the run's name or id)")
	f.StringVar(&opts.Path, "path", "", "`directory` for the working tree (default below HOLON_HOME/worktrees)")
	f.StringVar(&opts.Workspace, "workspace", "",
		"`directory` in another clone of the repository (default where the run was made)")
	f.BoolVar(&opts.History, "history", false, "keep the agent's own commits below the result; default is one commit")
	f.StringVar(&opts.From, "from", "", "`branch` or stash of the agent to make the branch of, instead of the result")
	opts.gate.flag(f)
	f.BoolVar(&opts.Remove, "remove", false, "remove the working tree; the branch stays")
	f.BoolVar(&opts.Save, "save", false, "with --remove: keep uncommitted changes as a patch in the run's directory")
	f.BoolVar(&opts.DeleteBranch, "delete-branch", false, "with --remove: delete the branch if nothing is lost by it")
	f.BoolVar(&opts.JSON, "json", false, "print what was made as JSON")
	return cmd
}

// complete checks the arguments.
func (o *checkoutOptions) complete(cmd *cobra.Command, args []string) error {
	run, err := oneRun(args)
	if err != nil {
		return err
	}
	o.Run = run
	for _, name := range []string{"branch", "path", "workspace", "history", "from", "allow-executed"} {
		if o.Remove && cmd.Flags().Changed(name) {
			return usage("--"+name, "goes not with --remove", "leave one of them out")
		}
	}
	for _, name := range []string{"save", "delete-branch"} {
		if !o.Remove && cmd.Flags().Changed(name) {
			return usage("--"+name, "is about removing", "give --remove too")
		}
	}
	if cmd.Flags().Changed("branch") && o.Branch == "" {
		return usage("--branch", "is empty", "name a branch, or leave it out")
	}
	if o.Path != "" {
		path, err := filepath.Abs(o.Path)
		if err != nil {
			return usage("--path", err.Error(), "name a directory")
		}
		o.Path = path
	}
	if o.History && o.From != "" {
		return usage("--history", "is for the result", "leave it out: a branch of the agent has its own commits")
	}
	return o.host.fromEnv()
}

// runCheckout does what `holon checkout` was asked to do.
func runCheckout(ctx context.Context, o *checkoutOptions) error {
	home, entry, err := o.open(ctx, o.Run)
	if err != nil {
		return err
	}
	if o.Remove {
		return o.remove(ctx, home, entry)
	}
	info, diff, err := result(entry)
	if err != nil {
		return err
	}
	m := entry.Manifest
	if diff == nil || len(diff.Files) == 0 && o.From == "" {
		o.streams.say(fmt.Sprintf("holon: %s changed no file; there is nothing to check out", entry.ID))
		if o.JSON {
			return printJSON(o.streams, landing.CheckoutResult{Registration: landing.Registration{Run: entry.ID}})
		}
		return nil
	}
	made, err := landing.Checkout(ctx, landing.CheckoutOptions{
		Run: entry.ID, RunDir: entry.Dir, Objects: filepath.Join(entry.Dir, oneshot.ObjectsDir), Info: info,
		Diff: *diff,
		Dir:  cmp.Or(o.Workspace, info.Path), Borrowing: o.borrowing(home), Name: m.Name,
		From:  o.From,
		Title: cmp.Or(m.Task, m.Name, "Run "+entry.ID), At: m.CompletedAt.Time(), History: o.History,
		Confirm: o.confirm(ctx, entry.ID),
		Branch:  o.Branch, Path: o.Path, Default: home.WorktreesDir(),
	})
	if err != nil {
		return err
	}
	if o.History && diff.History == nil && o.From == "" {
		o.streams.say("holon: there are no commits of the agent's own that could be kept; the result is one commit")
	}
	return o.show(made)
}

// confirm is the gate's, with a remedy for files of a branch that holon diff does not show.
func (o *checkoutOptions) confirm(ctx context.Context, run string) landing.Confirm {
	ask := o.gate.confirm(ctx, o.streams, o.JSON, run)
	return func(files []workspace.Warning) error {
		err := ask(files)
		if e, ok := errors.AsType[*git.Error](err); ok && o.From != "" {
			e.Hint = "read them in " + oneshot.BundleFile + " of the results, then give --allow-executed if you mean it"
		}
		return err
	}
}

// show prints the path of the working tree, for the shell, and the rest for the
// person.
func (o *checkoutOptions) show(r *landing.CheckoutResult) error {
	if o.JSON {
		return printJSON(o.streams, r)
	}
	say := func(format string, args ...any) { o.streams.say(fmt.Sprintf(format, args...)) }
	base := "a new root"
	if r.Base != "" {
		base = r.Base[:12]
	}
	was := ""
	if r.Existing {
		was = "  (already checked out)"
	}
	say("branch   %s: %s on %s%s", visible.OneLine(r.Branch, 300), count(r.Commits, "commit"), base, was)
	for _, w := range r.Warnings {
		if w.Code == landing.WarnUnfiltered {
			say("note     %s", visible.OneLine(w.Message, 500))
		}
	}
	if r.Existing { // otherwise the gate has shown them
		showExecuted(o.streams, r.Warnings)
	}
	say("remove   holon checkout --remove %s", r.Run)
	_, err := fmt.Fprintln(o.streams.Out, visible.OneLine(r.Path, 5000))
	return err
}

func (o *checkoutOptions) remove(ctx context.Context, home state.Home, entry *files.Entry) error {
	result, err := landing.Remove(ctx,
		landing.RemoveOptions{RunDir: entry.Dir, Borrowing: o.borrowing(home), Save: o.Save,
			DeleteBranch: o.DeleteBranch})
	if err != nil {
		return err
	}
	switch {
	case result == nil && o.DeleteBranch: // which branch it was is not known any more
		return usage("--delete-branch", entry.ID+" is not checked out, so its branch is not known",
			"delete it with git branch -d NAME, which refuses where something is not merged")
	case result == nil:
		fmt.Fprintf(o.streams.Err, "holon: %s is not checked out\n", entry.ID)
		return nil
	}
	if o.JSON {
		return printJSON(o.streams, result)
	}
	branch := visible.OneLine(result.Branch, 300)
	what := "is kept; delete it with git branch -d " + branch
	if result.BranchDeleted {
		what = "is deleted"
	}
	o.streams.say(fmt.Sprintf("removed %s; the branch %s %s", visible.OneLine(result.Path, 5000), branch, what))
	if result.Saved != "" {
		o.streams.say("uncommitted changes are in " + result.Saved)
	}
	return nil
}
