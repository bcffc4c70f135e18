package workspace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// RemoveOptions say what to do with a working tree that Checkout made.
type RemoveOptions struct {
	RunDir       string // the run's own directory, absolute
	Borrowing    Borrowing
	Save         bool // keep uncommitted changes as a patch in RunDir; otherwise they keep the working tree
	DeleteBranch bool // delete the branch too, if nothing was committed to it or all of it is merged into HEAD
}

// RemoveResult says what Remove did.
type RemoveResult struct {
	Registration
	Saved         string `json:"saved,omitempty"` // patch with the uncommitted changes, absolute
	BranchDeleted bool   `json:"branch_deleted"`
}

// Remove removes the working tree of a run's result and its registration. The
// branch stays unless told otherwise, so nothing that was committed is lost. A
// working tree with uncommitted changes goes only after they were saved, when
// the options ask for it. One that is in use, because somebody else locked
// it, a merge is under way, commits are on no branch, or a submodule is checked
// out in it, is left: the error is worktree_in_use and says why. Ignored files
// go with the working tree. Without a registration the result is nil.
//
// The same rules serve a person and the collection of garbage. It runs nothing
// of the user's or the working tree's configuration.
func Remove(ctx context.Context, options RemoveOptions) (*RemoveResult, error) {
	result, err := remove(ctx, options)
	return result, typed("remove the working tree", err)
}

func remove(ctx context.Context, o RemoveOptions) (*RemoveResult, error) {
	if known, err := ReadRegistration(o.RunDir); known == nil || err != nil {
		return nil, err
	}
	unlock, err := lockRun(ctx, o.RunDir)
	if err != nil {
		return nil, err
	}
	defer unlock()
	known, err := ReadRegistration(o.RunDir)
	if known == nil || err != nil {
		return nil, err
	}
	r := &removal{options: o, known: known, result: &RemoveResult{Registration: *known}}
	if !exists(known.Repository) {
		if exists(known.Path) {
			return nil, r.inUse("its repository "+known.Repository+" is gone", "save what is needed and remove the directory")
		}
		return r.result, os.Remove(registrationPath(o.RunDir))
	}
	// The shared git directory is the user's; no working tree is asked where it is.
	r.repository = userGit(known.Repository).with("GIT_DIR=" + known.Repository)
	if r.gitDir = known.gitDirOf(); r.gitDir != "" {
		if err := r.removeTree(ctx); err != nil {
			return nil, err
		}
	} else if exists(known.Path) {
		return nil, r.inUse("the repository doesn't know it as a working tree", "save what is needed and remove the directory")
	}
	if o.DeleteBranch {
		if err := r.deleteBranch(ctx); err != nil {
			return nil, err
		}
	}
	return r.result, os.Remove(registrationPath(o.RunDir))
}

type removal struct {
	options    RemoveOptions
	known      *Registration
	result     *RemoveResult
	repository git    // in the shared git directory
	gitDir     string // of the working tree
}

func (r *removal) inUse(why, hint string) *Error {
	return &Error{Code: CodeWorktreeInUse, Param: "RUN", Message: "the working tree " + r.known.Path + " stays: " + why, Hint: hint}
}

func (r *removal) removeTree(ctx context.Context) error {
	if lock := filepath.Join(r.gitDir, "locked"); exists(lock) {
		if reason := strings.TrimSpace(readSmall(lock)); reason != r.known.reason() {
			return r.inUse(fmt.Sprintf("it is locked: %.200q", reason), "git worktree unlock it")
		}
	}
	if exists(r.known.Path) {
		if err := r.checkUnused(ctx); err != nil {
			return err
		}
		if err := r.checkClean(ctx); err != nil {
			return err
		}
	}
	if _, err := r.repository.run(ctx, nil, "worktree", "remove", "--force", "--force", r.known.Path); err != nil {
		return fmt.Errorf("remove working tree: %w", err)
	}
	return nil
}

// checkUnused refuses what removal would lose besides files.
func (r *removal) checkUnused(ctx context.Context) error {
	for _, state := range []string{"MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "rebase-merge", "rebase-apply", "BISECT_LOG"} {
		if exists(filepath.Join(r.gitDir, state)) {
			return r.inUse("a merge, rebase or the like is under way in it", "finish it first")
		}
	}
	if exists(filepath.Join(r.gitDir, "modules")) {
		return r.inUse("a submodule is checked out in it", "git worktree remove --force it")
	}
	head := strings.TrimSpace(readSmall(filepath.Join(r.gitDir, "HEAD")))
	if strings.HasPrefix(head, "ref: ") {
		return nil
	}
	if !objectID.MatchString(head) {
		return r.inUse("its HEAD can't be read", "look at it with git status")
	}
	holder, err := r.repository.line(ctx, "for-each-ref", "--count=1", "--format=%(refname)", "--contains="+head)
	if err != nil {
		return err
	}
	if holder == "" {
		return r.inUse("its HEAD is on no branch", "make a branch of it first")
	}
	return nil
}

// inTree runs git on the working tree without asking it for its repository.
func (r *removal) inTree(ctx context.Context) (git, error) {
	g := userGit(r.known.Path).with("GIT_DIR="+r.gitDir, "GIT_WORK_TREE="+r.known.Path)
	return withoutFilters(ctx, g)
}

// checkClean refuses a working tree with uncommitted changes, or saves them.
func (r *removal) checkClean(ctx context.Context) error {
	g, err := r.inTree(ctx)
	if err != nil {
		return err
	}
	out, err := g.run(ctx, nil, "status", "--porcelain=v2", "-z", "--untracked-files=all", "--no-renames", "--ignore-submodules=dirty")
	if err != nil {
		return fmt.Errorf("read status: %w", err)
	}
	if len(out) == 0 {
		return nil
	}
	if !r.options.Save {
		return r.inUse("it has uncommitted changes", "commit them there, or save them as a patch with --save")
	}
	if nested := parseStatus(out).nested; len(nested) > 0 {
		return r.inUse(fmt.Sprintf("there is another repository in it, at %.200q", nested[0]), "move it away first")
	}
	return r.save(ctx, g)
}

// save writes the uncommitted and untracked files as a patch beside the run's.
func (r *removal) save(ctx context.Context, g git) error {
	scratch, err := os.MkdirTemp(r.options.RunDir, ".checkout-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	index := filepath.Join(scratch, "index")
	if err := copyFile(filepath.Join(r.gitDir, "index"), index); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := os.Mkdir(filepath.Join(scratch, "pack"), 0o700); err != nil {
		return err
	}
	g = g.with("GIT_INDEX_FILE="+index, "GIT_OBJECT_DIRECTORY="+scratch, alternatesVariable([]string{filepath.Join(r.known.Repository, "objects")}))
	if _, err := g.run(ctx, nil, "add", "--all", "--", ":/"); err != nil {
		return fmt.Errorf("save changes: %w", err)
	}
	for n := 1; ; n++ {
		path := filepath.Join(r.options.RunDir, "worktree-"+strconv.Itoa(n)+".patch")
		if exists(path) {
			continue
		}
		r.result.Saved = path
		return replaceFile(path, func(w io.Writer) error {
			return g.stream(ctx, nil, w, "diff-index", "--cached", "--patch", "--binary", "--full-index", "--no-ext-diff", "--no-textconv",
				"--no-color", "--no-renames", "--src-prefix=a/", "--dst-prefix=b/", "HEAD")
		})
	}
}

// deleteBranch deletes the branch when the run's directory or HEAD still have
// what is on it.
func (r *removal) deleteBranch(ctx context.Context) error {
	w := &worktrees{user: &userRepository{top: r.known.Repository}}
	tip, err := w.tip(ctx, r.known.Branch)
	if err != nil || tip == "" {
		return err
	}
	if tip != r.known.Commit && !w.contains(ctx, "HEAD", tip) {
		return &Error{Code: CodeBranchExists, Param: "--delete-branch", Message: fmt.Sprintf("the branch %q has commits that HEAD lacks", r.known.Branch),
			Hint: "merge it, or delete it with git branch -D"}
	}
	if err := w.deleteBranch(ctx, r.known.Branch, tip); err != nil {
		return err
	}
	r.result.BranchDeleted = true
	return nil
}
