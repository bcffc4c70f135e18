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
)

type checkoutOptions struct {
	*lifecycle
	workspace, branch, path, from       string
	history, remove, save, deleteBranch bool
	consent                             consent
}

func newCheckoutCommand(streams Streams) *cobra.Command {
	o := &checkoutOptions{}
	cmd := attemptCommand(streams, "checkout RUN", "Make the result of a run a branch with a working tree",
		func(ctx context.Context, l *lifecycle) error { o.lifecycle = l; return runCheckout(ctx, o) })
	cmd.Long = `Make the result of a run a branch of the repository that it was made from, on the
commit it started from, and a working tree of that branch (git worktree). Your
own files, index, branches and configuration are not touched.

The path of the working tree is printed; asked again, the same. With --remove the
working tree goes, unless something in it would be lost; the branch stays.

` + aboutRun
	cmd.Example = `  cd "$(holon checkout last)"
  holon checkout --branch fix-login --path ../fix-login last
  holon checkout --remove last`
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error { return o.check(cmd.Flags().Changed) }
	f := cmd.Flags()
	f.StringVar(&o.branch, "branch", "", "`name` of the new branch (default holon/ and the run's name or id)")
	f.StringVar(&o.path, "path", "", "`directory` for the working tree (default below HOLON_HOME/worktrees)")
	f.StringVar(&o.workspace, "workspace", "",
		"`directory` in another clone of the repository (default where the run was made)")
	f.BoolVar(&o.history, "history", false, "keep the agent's own commits below the result; default is one commit")
	f.StringVar(&o.from, "from", "", "`branch` or stash of the agent to make the branch of, instead of the result")
	o.consent.flag(f)
	f.BoolVar(&o.remove, "remove", false, "remove the working tree; the branch stays")
	f.BoolVar(&o.save, "save", false, "with --remove: keep uncommitted changes as a patch in the run's directory")
	f.BoolVar(&o.deleteBranch, "delete-branch", false, "with --remove: delete the branch if nothing is lost by it")
	return cmd
}

// check refuses flags that contradict each other, and makes the path absolute.
func (o *checkoutOptions) check(given func(flag string) bool) (err error) {
	for _, name := range []string{"branch", "path", "workspace", "history", "from", "allow-executed"} {
		if o.remove && given(name) {
			return usage("--"+name, "cannot be combined with --remove", "leave one of them out")
		}
	}
	for _, name := range []string{"save", "delete-branch"} {
		if !o.remove && given(name) {
			return usage("--"+name, "is about removing", "give --remove too")
		}
	}
	switch {
	case given("branch") && o.branch == "":
		return usage("--branch", "is empty", "name a branch, or leave it out")
	case o.history && o.from != "":
		return usage("--history", "is for the result", "leave it out: a branch of the agent has its own commits")
	case o.path == "":
		return nil
	}
	if o.path, err = filepath.Abs(o.path); err != nil {
		return usage("--path", err.Error(), "name a directory")
	}
	return nil
}

func runCheckout(ctx context.Context, o *checkoutOptions) error {
	if dir := o.ofAgent(); o.remove && dir != "" {
		return o.removeTree(ctx, o.ref(), dir)
	}
	entry, err := o.changedRun(ctx, func(diff *workspace.Diff) bool {
		return anyFile(diff) || o.from != "" && len(diff.Branches) > 0
	})
	if err != nil {
		return err
	}
	if o.remove {
		return o.removeTree(ctx, entry.ID, entry.Dir)
	}
	info, diff, err := result(entry)
	if err != nil {
		return err
	}
	m := entry.Manifest
	if diff == nil || len(diff.Files) == 0 && o.from == "" {
		o.streams.say(fmt.Sprintf("holon: %s changed no file; there is nothing to check out", entry.ID))
		return o.show(landing.CheckoutResult{Registration: landing.Registration{Run: entry.ID}}, nil,
			func() error { return nil })
	}
	made, err := landing.Checkout(ctx, landing.CheckoutOptions{
		Run: entry.ID, RunDir: entry.Dir, Objects: filepath.Join(entry.Dir, oneshot.ObjectsDir), Info: info,
		Diff: *diff,
		Dir:  cmp.Or(o.workspace, info.Path), Borrowing: o.borrowing(o.home), Name: m.Name,
		From:  o.from,
		Title: cmp.Or(m.Task, m.Name, "Run "+entry.ID), At: m.CompletedAt.Time(), History: o.history,
		Confirm: o.confirm(ctx, entry.ID),
		Branch:  o.branch, Path: o.path, Default: o.home.WorktreesDir(),
	})
	if err != nil {
		return err
	}
	if o.history && diff.History == nil && o.from == "" {
		o.streams.say("holon: there are no commits of the agent's own that could be kept; the result is one commit")
	}
	return o.show(made, nil, func() error { return o.showTree(made) })
}

// confirm asks for consent, with a remedy for files of a branch that holon diff does not show.
func (o *checkoutOptions) confirm(ctx context.Context, run string) landing.Confirm {
	ask := o.consent.confirm(ctx, o.streams, o.JSON, run)
	return func(files []workspace.Warning) error {
		err := ask(files)
		if e, ok := errors.AsType[*git.Error](err); ok && o.from != "" {
			e.Hint = "read them in " + oneshot.BundleFile + " of the results, then give --allow-executed if you mean it"
		}
		return err
	}
}

// showTree prints the path of the working tree, for the shell, and the rest for the person.
func (o *checkoutOptions) showTree(r *landing.CheckoutResult) error {
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
		if w.Code == landing.WarnUnfiltered || w.Code == landing.WarnSubmoduleLeft {
			say("note     %s", visible.OneLine(w.Message, 500))
		}
	}
	if r.Existing { // otherwise the question for consent has shown them
		showExecuted(o.streams, r.Warnings)
	}
	say("remove   holon checkout --remove %s", r.Run)
	_, err := fmt.Fprintln(o.streams.Out, visible.OneLine(r.Path, 5000))
	return err
}

// ofAgent is where the checkout of an agent's change is registered that RUN names; "" when it names none.
func (o *checkoutOptions) ofAgent() string {
	agents := o.home.AgentPrivateDir("*")
	return landing.FindCheckout(o.ref(), filepath.Join(agents, "changes", "*"),
		filepath.Join(agents, "children", "*", ".holon", "changes", "*"))
}

func (o *checkoutOptions) removeTree(ctx context.Context, id, dir string) error {
	result, err := landing.Remove(ctx,
		landing.RemoveOptions{RunDir: dir, Borrowing: o.borrowing(o.home), Save: o.save,
			DeleteBranch: o.deleteBranch})
	if err != nil {
		return err
	}
	switch {
	case result == nil && o.deleteBranch: // which branch it was is not recorded any more
		return usage("--delete-branch", id+" is not checked out, so its branch is not recorded",
			"delete it with git branch -d NAME, which refuses where something is not merged")
	case result == nil:
		fmt.Fprintf(o.streams.Err, "holon: %s is not checked out\n", id)
		return nil
	}
	return o.show(result, nil, func() error {
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
	})
}
