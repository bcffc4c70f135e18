package landing

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"holon/internal/visible"
	"holon/runner/workspace"
	"holon/runner/workspace/executed"
	"holon/runner/workspace/git"
)

// takeBranch makes a branch of the agent what is checked out: its commits, as they are, and its files that programs
// execute, which are not those of the result.
func (o *CheckoutOptions) takeBranch(ctx context.Context, user *git.UserRepository, scratch string) error {
	i := slices.IndexFunc(o.Diff.Branches, func(b workspace.Branch) bool { return b.Name == o.From })
	if i < 0 {
		return o.noSuchBranch()
	}
	branch := o.Diff.Branches[i]
	if !git.ObjectID().MatchString(branch.Commit) {
		return git.InvalidOption("RUN", "the record of the run can't be used")
	}
	repo := git.Repository{Dir: filepath.Join(scratch, "branch"), Format: user.Format,
		Alternates: []string{user.Objects, o.Objects}}
	if err := user.CreateBeside(repo); err != nil {
		return err
	}
	tree, err := repo.Git().Line(ctx, "rev-parse", "--verify", "--end-of-options", branch.Commit+"^{tree}")
	if err != nil {
		return &git.Error{Code: git.CodeMissingObjects, Param: "--from", Err: err,
			Message: fmt.Sprintf("the commits of %s are not in the run's directory any more", branch.Name),
			Hint:    "fetch them of its bundle, if that is there"}
	}
	base := user.Format.EmptyTree()
	if o.Info.BaseCommit != "" {
		if base, err = repo.Git().Line(ctx, "rev-parse", "--verify", "--end-of-options",
			o.Info.BaseCommit+"^{tree}"); err != nil {
			return err
		}
	}
	warnings, err := executedBetween(ctx, repo, base, tree)
	if err != nil {
		return err
	}
	o.Name, o.History = cmp.Or(o.Name, o.Run)+"-"+branch.Name, true
	o.Diff = workspace.Diff{BaseCommit: o.Info.BaseCommit, BaseTree: base, ResultTree: tree, Warnings: warnings,
		History: &workspace.History{Commit: branch.Commit, Commits: branch.Commits}}
	return nil
}

func (o *CheckoutOptions) noSuchBranch() error {
	var names []string
	for _, b := range o.Diff.Branches {
		names = append(names, b.Name)
	}
	hint := "the run has no commits of the agent but those of the result"
	if len(names) > 0 {
		hint = "choose of " + visible.OneLine(strings.Join(names, ", "), 500)
	}
	return &git.Error{Code: CodeNoSuchBranch, Param: "--from",
		Message: fmt.Sprintf("there is no branch %s in %s", visible.Quoted(visible.Clip(o.From, 200)), o.Run), Hint: hint}
}

// executedBetween returns warnings about files of a tree that another has not, and that programs execute.
func executedBetween(ctx context.Context, repo git.Repository, before, after string) ([]workspace.Warning, error) {
	var trees [2][]git.Entry
	for i, tree := range []string{before, after} {
		var err error
		if trees[i], err = git.ReadTree(ctx, repo.Git(), repo.Format, tree, ""); err != nil {
			return nil, err
		}
	}
	had := map[string]git.Entry{}
	for _, e := range trees[0] {
		had[e.Path] = e
	}
	var files []executed.File
	for _, e := range trees[1] {
		old, was := had[e.Path]
		f := executed.File{Path: e.Path, Link: e.Mode == git.ModeSymlink, Id: fmt.Sprintf("%x", e.Oid),
			Changed: !was || old.Oid != e.Oid || old.Mode != e.Mode}
		if was {
			f.Before = fmt.Sprintf("%x", old.Oid)
		}
		files = append(files, f)
	}
	found, err := executed.Find(ctx, repo.Git(), files)
	return workspace.ExecutedWarnings(found), err
}
