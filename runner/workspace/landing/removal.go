package landing

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"holon/runner/workspace/git"
)

// RemoveOptions say what to do with a working tree that Checkout made.
type RemoveOptions struct {
	RunDir       string // the run's own directory, absolute
	Borrowing    git.Borrowing
	Save         bool // keep uncommitted changes as a patch in RunDir; otherwise they keep the working tree
	DeleteBranch bool // delete the branch too, if nothing was committed to it or all of it is merged into HEAD
	DryRun       bool // check whether the working tree can be removed, and change nothing
}

// removeResult says what Remove did.
type removeResult struct {
	Registration
	Removed       bool   `json:"removed"`         // the directory was there; a dry run leaves it
	Saved         string `json:"saved,omitempty"` // patch with the uncommitted changes, absolute
	BranchDeleted bool   `json:"branch_deleted"`
}

// Remove removes the working tree of a run's result and its registration. The branch stays unless the options say
// otherwise, so commits are never lost. A working tree with uncommitted changes is removed only if the options ask for
// saving them, and after that. A working tree in use stays, with the error worktree_in_use and the reason: another
// program locked it, a merge is in progress, commits are on no branch, or a submodule is checked out in it. Ignored
// files are removed with the working tree. Without a registration the result is nil.
//
// The command and garbage collection follow the same rules. Remove runs no program that the user's or the
// working tree's configuration names.
func Remove(ctx context.Context, options RemoveOptions) (*removeResult, error) {
	result, err := remove(ctx, options)
	return result, git.WithCode("remove the working tree", err)
}

func remove(ctx context.Context, o RemoveOptions) (*removeResult, error) {
	if known, err := readRegistration(o.RunDir); known == nil || err != nil {
		return nil, err
	}
	unlock, err := lockRun(ctx, o.RunDir)
	if err != nil {
		return nil, err
	}
	defer unlock()
	known, err := readRegistration(o.RunDir)
	if known == nil || err != nil {
		return nil, err
	}
	r := &removal{options: o, known: known, result: &removeResult{Registration: *known}}
	if err := r.remove(ctx); err != nil {
		return nil, err
	}
	if o.DryRun {
		return r.result, nil
	}
	return r.result, os.Remove(registrationPath(o.RunDir))
}

type removal struct {
	options    RemoveOptions
	known      *Registration
	result     *removeResult
	repository git.View // of the shared git directory
	gitDir     string   // of the working tree
	scratch    string
}

// remove removes the working tree and, if that is wanted, its branch. Without a repository nothing is left to remove.
func (r *removal) remove(ctx context.Context) (err error) {
	there, o := git.Exists(r.known.Path), r.options
	if !git.Exists(r.known.Repository) {
		if there {
			return r.inUse("its repository "+r.known.Repository+" is gone", "save what is needed and remove the directory")
		}
		return nil
	}
	if r.scratch, err = os.MkdirTemp(o.RunDir, checkoutPrefix); err != nil {
		return err
	}
	defer os.RemoveAll(r.scratch)
	if err := r.openRepository(ctx); err != nil {
		return err
	}
	r.gitDir = r.known.gitDirOf()
	switch {
	case r.gitDir != "":
		err = r.removeTree(ctx)
	case there:
		err = r.inUse("the repository doesn't know it as a working tree", "save what is needed and remove the directory")
	}
	if err != nil || o.DryRun || !o.DeleteBranch {
		return err
	}
	return r.deleteBranch(ctx)
}

// openRepository opens the recorded git directory; it does not trust a working tree to name it.
func (r *removal) openRepository(ctx context.Context) error {
	layout, err := git.LayoutOfGitDir(r.known.Repository, r.options.Borrowing)
	if err != nil {
		return err
	}
	user, err := git.OpenUser(ctx, layout, r.options.Borrowing)
	if err != nil {
		return err
	}
	r.repository, err = user.View(filepath.Join(r.scratch, "repository"))
	return err
}

func (r *removal) inUse(why, hint string) *git.Error {
	return &git.Error{Code: CodeWorktreeInUse, Param: "RUN",
		Message: "the working tree " + r.known.Path + " stays: " + why,
		Hint:    hint}
}

func (r *removal) removeTree(ctx context.Context) error {
	if lock := filepath.Join(r.gitDir, "locked"); git.Exists(lock) {
		if reason := strings.TrimSpace(git.ReadSmall(lock)); reason != r.known.reason() {
			return r.inUse(fmt.Sprintf("it is locked: %.200q", reason), "git worktree unlock it")
		}
	}
	if git.Exists(r.known.Path) {
		if err := r.checkUnused(ctx); err != nil {
			return err
		}
		if err := r.checkClean(ctx); err != nil {
			return err
		}
		r.result.Removed = true
	}
	if r.options.DryRun {
		return nil
	}
	return forget(r.known.Path, r.gitDir)
}

// checkUnused refuses to remove a working tree with state other than files that would be lost.
func (r *removal) checkUnused(ctx context.Context) error {
	for _, state := range []string{"MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "rebase-merge", "rebase-apply",
		"BISECT_LOG"} {
		if git.Exists(filepath.Join(r.gitDir, state)) {
			return r.inUse("a merge, rebase or the like is under way in it", "finish it first")
		}
	}
	if git.Exists(filepath.Join(r.gitDir, "modules")) {
		return r.inUse("a submodule is checked out in it", "git worktree remove --force it")
	}
	head, _ := git.ReadIn(r.gitDir, "HEAD")
	head = strings.TrimSpace(head)
	if strings.HasPrefix(head, "ref: ") {
		return nil
	}
	if !git.ObjectID().MatchString(head) {
		return r.inUse("its HEAD can't be read", "look at it with git status")
	}
	if err := r.repository.User.LoadReferences(ctx); err != nil {
		return err
	}
	packed := filepath.Join(r.repository.Dir, "packed-refs")
	if err := os.WriteFile(packed, r.repository.User.References, 0o600); err != nil {
		return err
	}
	holder, err := r.repository.Git().Line(ctx, "for-each-ref", "--count=1", "--format=%(refname)", "--contains="+head)
	if err != nil {
		return err
	}
	if holder == "" {
		return r.inUse("its HEAD is on no branch", "make a branch of it first")
	}
	return nil
}

// checkClean refuses a working tree with uncommitted changes, or saves them.
func (r *removal) checkClean(ctx context.Context) error {
	layout := r.repository.User.Layout
	layout.Top, layout.GitDir = r.known.Path, r.gitDir
	tree, err := git.OpenUser(ctx, &layout, r.options.Borrowing)
	if err != nil {
		return err
	}
	v, err := tree.View(filepath.Join(r.scratch, "tree"))
	if err != nil {
		return err
	}
	if err := tree.LoadStatus(ctx, v); err != nil {
		return err
	}
	if tree.Status.WithoutUntracked {
		return r.inUse("its ignore rules take git too long to tell what is in it",
			"look at it and remove the directory")
	}
	for _, path := range tree.Status.Gitlinks {
		if git.Exists(filepath.Join(r.known.Path, path, ".git")) {
			return r.inUse("a submodule is checked out in it", "git worktree remove --force it")
		}
	}
	lines, err := git.ReadIndex(ctx, v.InTree(tree.Index()))
	if err != nil {
		return err
	}
	for _, e := range lines {
		if e.Marked && !e.Unmerged && git.Exists(filepath.Join(r.known.Path, e.Path)) {
			return r.inUse(fmt.Sprintf("%.200q is marked so that git does not see its changes", e.Path),
				"git update-index --no-skip-worktree --no-assume-unchanged it")
		}
	}
	if !tree.Status.Dirty {
		return nil
	}
	if !r.options.Save {
		return r.inUse("it has uncommitted changes", "commit them there, or save them as a patch with --save")
	}
	if nested := tree.Status.Nested; len(nested) > 0 {
		return r.inUse(fmt.Sprintf("there is another repository in it, at %.200q", nested[0]), "move it away first")
	}
	return r.save(ctx, tree)
}

// save writes the uncommitted and untracked files as a patch to the run's directory.
func (r *removal) save(ctx context.Context, tree *git.UserRepository) error {
	repo := git.Repository{Dir: filepath.Join(r.scratch, "saved"), Format: tree.Format,
		Alternates: []string{tree.Objects}}
	if err := repo.Create(); err != nil {
		return err
	}
	saved, err := tree.Snapshot(ctx, repo, r.scratch)
	if err != nil {
		return fmt.Errorf("save changes: %w", err)
	}
	base := cmp.Or(tree.HeadCommit, tree.Format.EmptyTree())
	for n := 1; ; n++ {
		path := filepath.Join(r.options.RunDir, "worktree-"+strconv.Itoa(n)+".patch")
		if git.Exists(path) {
			continue
		}
		r.result.Saved = path
		return git.ReplaceFile(path, func(w io.Writer) error {
			return repo.Git().Stream(ctx, nil, w, "diff-tree", "-r", "--patch", "--binary", "--full-index",
				"--no-ext-diff",
				"--no-textconv", "--no-color", "--no-renames", "--src-prefix=a/", "--dst-prefix=b/", base, saved)
		})
	}
}

// deleteBranch deletes the branch when the run's directory or HEAD still have what is on it.
func (r *removal) deleteBranch(ctx context.Context) error {
	user := r.repository.User
	tip, err := user.Resolve("refs/heads/" + r.known.Branch)
	if err != nil || tip == "" {
		return err
	}
	if tip != r.known.Commit && (user.HeadCommit == "" || !r.repository.Contains(ctx, user.HeadCommit, tip)) {
		return &git.Error{Code: CodeBranchExists, Param: "--delete-branch",
			Message: fmt.Sprintf("the branch %q has commits that HEAD lacks", r.known.Branch),
			Hint:    "merge it, or delete it with git branch -D"}
	}
	if err := r.repository.DeleteBranch(ctx, r.known.Branch, tip); err != nil {
		return err
	}
	r.result.BranchDeleted = true
	return nil
}
