package landing

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"holon/runner/workspace/git"
)

// maxPack bounds the pack that is taken into the user's repository, in bytes.
const maxPack = 4 << 30

// assembly makes commits of a run's trees and checks them in a quarantine before the user's repository gets them.
//
//	run's objects ─▶ commits ─▶ quarantine: index-pack --strict ─▶ user's repository
type assembly struct {
	user    *git.UserRepository
	options CheckoutOptions
	scratch string

	source git.Repository // reads the user's and the run's objects, gets the commits
}

// build makes the commits and returns the last one and their number.
//
//	base ◀─ start (uncommitted changes, if the run began with some) ◀─ result
//	base ◀─ the agent's own commits ◀─ result (what it did not commit, if any)
func (a *assembly) build(ctx context.Context) (commit string, commits int, err error) {
	o := a.options
	a.source = git.Repository{Dir: filepath.Join(a.scratch, "source"), Format: a.user.Format,
		Alternates: []string{a.user.Objects, o.Objects}}
	if string(a.user.Format) != o.Info.ObjectFormat {
		return "", 0, &git.Error{Code: git.CodeMissingObjects, Param: "--workspace",
			Message: "the repository uses " + string(a.user.Format) + ", the run used " + o.Info.ObjectFormat,
			Hint:    "name a clone of the repository that the run was made from"}
	}
	if err := a.user.CreateBeside(a.source); err != nil {
		return "", 0, err
	}
	if err := a.checkObjects(ctx); err != nil {
		return "", 0, err
	}
	commit = o.Info.BaseCommit
	if tip := o.Diff.History; o.History && tip != nil {
		commit, commits = tip.Commit, tip.Commits
		if same, err := a.isTree(ctx, commit, o.Diff.ResultTree); err != nil || same {
			return commit, commits, err
		}
	} else if o.Info.IncludedDirty {
		if commit, commits, err = a.start(ctx, commit); err != nil {
			return "", 0, err
		}
	}
	commit, err = a.commit(ctx, o.Diff.ResultTree, commit, o.Title, "Holon-Run: "+o.Run)
	return commit, commits + 1, err
}

// start makes the commit of the uncommitted changes at the start, unless all of them are within submodules.
func (a *assembly) start(ctx context.Context, base string) (commit string, commits int, err error) {
	o := a.options
	if same, err := a.isTree(ctx, base, o.Diff.BaseTree); err != nil || same {
		return base, 0, err
	}
	commit, err = a.commit(ctx, o.Diff.BaseTree, base, "Uncommitted changes at the start of "+o.Run,
		"Holon-Start: "+o.Run)
	return commit, 1, err
}

// isTree reports whether a commit has a tree; "" has none.
func (a *assembly) isTree(ctx context.Context, commit, tree string) (bool, error) {
	if commit == "" {
		return false, nil
	}
	have, err := a.source.Git().Line(ctx, "rev-parse", "--verify", "--end-of-options", commit+"^{tree}")
	return have == tree, err
}

// checkObjects checks that the objects exist which the commits need: the run's base may be gone from the
// user's repository, and its objects from the run's directory.
func (a *assembly) checkObjects(ctx context.Context) error {
	o := a.options
	needs := []struct{ id, kind string }{{o.Info.BaseCommit, "commit"}, {o.Diff.BaseTree, "tree"},
		{o.Diff.ResultTree, "tree"}}
	if o.History && o.Diff.History != nil {
		needs = append(needs, struct{ id, kind string }{o.Diff.History.Commit, "commit"})
	}
	for _, need := range needs {
		if need.id == "" && need.kind == "commit" { // an unborn branch
			continue
		}
		if git.ObjectID().MatchString(need.id) {
			kind, err := a.source.Git().Line(ctx, "cat-file", "-t", need.id)
			if err == nil && kind == need.kind {
				continue
			}
			if _, ended := errors.AsType[*git.ExitError](err); err != nil && (!ended || ctx.Err() != nil) {
				return err
			}
		}
		if need.id == o.Diff.BaseTree && need.id == a.source.Format.EmptyTree() {
			continue
		}
		return &git.Error{Code: git.CodeMissingObjects, Param: "RUN",
			Message: fmt.Sprintf("the %s %.64q of the run is neither in the repository nor in the run's directory",
				need.kind, need.id),
			Hint: "fetch it, name another clone with --workspace, or use holon apply " + o.Run}
	}
	return nil
}

// commit makes a commit by the user, dated when the run ended, so that the same run gives the same commit.
func (a *assembly) commit(ctx context.Context, tree, parent, subject, trailer string) (string, error) {
	name, email := a.user.Identity()
	date := strconv.FormatInt(a.options.At.Unix(), 10) + " +0000"
	g := a.source.Git().With("GIT_AUTHOR_NAME="+name, "GIT_AUTHOR_EMAIL="+email, "GIT_AUTHOR_DATE="+date,
		"GIT_COMMITTER_NAME="+name, "GIT_COMMITTER_EMAIL="+email, "GIT_COMMITTER_DATE="+date)
	args := []string{"commit-tree", tree}
	if parent != "" {
		args = append(args, "-p", parent)
	}
	message := strings.Join(strings.Fields(subject), " ") + "\n\n" + trailer + "\n"
	out, err := g.Run(ctx, strings.NewReader(message), args...)
	if err != nil {
		return "", fmt.Errorf("make a commit: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// quarantine packs the objects that the commit needs beyond the run's base into a fresh repository, where
// every object has to pass the checks of fsck --strict, and returns the pack's path.
func (a *assembly) quarantine(ctx context.Context, commit string) (pack string, err error) {
	repo := git.Repository{Dir: filepath.Join(a.scratch, "quarantine"), Format: a.user.Format,
		Alternates: []string{a.user.Objects}}
	if err := a.user.CreateBeside(repo); err != nil {
		return "", err
	}
	bases := []string{a.options.Info.BaseCommit}
	if a.options.From != "" { // it may stand on any branch of the user's
		known, err := a.source.Commits(ctx, a.user.ReferenceIDs())
		if err != nil {
			return "", err
		}
		bases = append(bases, known...)
	}
	return git.Transfer(ctx, a.source, repo, commit, bases, maxPack)
}
