package landing

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"holon/internal/visible"
	"holon/runner/workspace"
	"holon/runner/workspace/git"

	"github.com/gofrs/flock"
)

// CheckoutOptions name the result of a run and where it goes.
type CheckoutOptions struct {
	Run     string         // id of the run
	RunDir  string         // the run's own directory, which gets the registration; absolute
	Objects string         // what Diff wrote to DiffOptions.Objects
	Info    workspace.Info // what the run started from
	Diff    workspace.Diff // what it changed

	Dir       string // as Options.Dir of the run, or a directory of another clone
	Borrowing git.Borrowing
	Name      string    // what a person called the run, for the branch; may be empty
	Title     string    // first line of the commit's message
	At        time.Time // author and commit date
	History   bool      // keep the agent's own commits below, as far as the run has them
	From      string    // "": the result; else one of Diff.Branches, by its name

	Confirm Confirm // is asked about files that programs execute

	Branch  string // "": holon/ and the name or id of the run
	Path    string // of the working tree, absolute; "": a directory of that id in Default
	Default string // directory for working trees that have no path of their own, absolute
}

// CheckoutResult says where the result of a run is.
type CheckoutResult struct {
	Registration
	Existing bool                `json:"existing"` // it was there before
	Warnings []workspace.Warning `json:"warnings,omitempty"`
}

// WarnSubmoduleLeft says that a branch does not have the changes within a submodule.
const WarnSubmoduleLeft = "submodule_left"

// maxCheckouts bounds the branches that are made of one tree.
const maxCheckouts = 1000

// CheckoutDir is where the checkout of a change is registered of which a tree may have several, and the name that its
// branch gets: that of the same change if there is one. dir is the directory of the tree's change.
func CheckoutDir(dir, name string, diff workspace.Diff) (id, of string, err error) {
	result := diff.BaseTree + " " + diff.ResultTree
	for n := 1; n <= maxCheckouts; n++ {
		id, of = fmt.Sprintf("%s-%d", name, n), fmt.Sprintf("%s.checkout-%d", dir, n)
		has, err := os.ReadFile(filepath.Join(of, "result"))
		if err == nil && string(has) == result {
			return id, of, nil
		}
		if err == nil {
			continue
		}
		if err = os.MkdirAll(of, 0o700); err == nil {
			err = os.WriteFile(filepath.Join(of, "result"), []byte(result), 0o600)
		}
		return id, of, err
	}
	return "", "", &git.Error{Code: CodeBranchExists, Hint: "remove " + dir + ".checkout-*",
		Message: fmt.Sprintf("%d branches were made of %s", maxCheckouts, name)}
}

// Checkout makes the result of a run a branch of the user's repository and a linked working tree of that branch, locked
// and registered in the run's directory. In the user's repository objects, the branch and the entry of the working tree
// are added; index, HEAD, configuration and files stay as they are. Objects become visible only when all of them have
// passed the checks of `git fsck --strict` in a quarantine of ours. No hook, filter or program of any configuration
// runs.
//
// It may be called again, also after a crash, and then says where the result is. Errors are *Error: not_a_repository,
// branch_exists, path_exists, checked_out (elsewhere than asked for), missing_objects, unsafe_objects, nothing_changed.
func Checkout(ctx context.Context, options CheckoutOptions) (*CheckoutResult, error) {
	result, err := checkOut(ctx, options)
	return result, git.WithCode("check out the result", err)
}

func checkOut(ctx context.Context, o CheckoutOptions) (*CheckoutResult, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	dir, err := git.RealDirectory(o.Dir)
	if err != nil {
		return nil, err
	}
	user, err := git.Locate(ctx, dir, o.Borrowing)
	if err != nil {
		return nil, err
	}
	if user == nil {
		return nil, &git.Error{Code: CodeNotARepository, Param: "RUN",
			Message: dir + " is not a git repository, and a branch needs one",
			Hint:    "holon apply " + o.Run + " changes the files there"}
	}
	unlock, err := lockRun(ctx, o.RunDir)
	if err != nil {
		return nil, err
	}
	defer unlock()
	known, err := readRegistration(o.RunDir)
	if err != nil {
		return nil, err
	}
	scratch, err := os.MkdirTemp(o.RunDir, checkoutPrefix)
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(scratch)
	if o.From != "" {
		if err := o.takeBranch(ctx, user, scratch); err != nil {
			return nil, err
		}
	}
	w := &worktrees{user: user}
	if w.view, err = user.View(filepath.Join(scratch, "view")); err != nil {
		return nil, err
	}
	if known != nil {
		result, err := w.resume(ctx, o, known)
		if result != nil || err != nil {
			return result, err
		}
	}
	return w.make(ctx, o, scratch)
}

func (o *CheckoutOptions) check() error {
	if !filepath.IsAbs(o.RunDir) || o.Path != "" && !filepath.IsAbs(o.Path) || !filepath.IsAbs(o.Default) ||
		!git.ObjectID().MatchString(o.Diff.ResultTree) {
		return git.InvalidOption("RUN", "the record of the run can't be used")
	}
	if o.From == "" && o.Diff.ResultTree == o.Diff.BaseTree {
		what, hint := " changed no file", "there is nothing to check out"
		if len(o.Diff.Submodules) > 0 {
			what = " changed files within submodules alone, which a branch of the repository does not have"
			hint = "holon apply " + o.Run + " has them"
		}
		return &git.Error{Code: CodeNothingChanged, Param: "RUN", Message: o.Run + what, Hint: hint}
	}
	if o.Branch == "" {
		return nil
	}
	return git.CheckBranch(o.Branch)
}

// lockRun makes a second checkout, removal or apply of the same run wait.
func lockRun(ctx context.Context, runDir string) (unlock func(), err error) {
	lock := flock.New(filepath.Join(runDir, checkoutLock), flock.SetPermissions(0o600))
	if _, err := lock.TryLockContext(ctx, 20*time.Millisecond); err != nil {
		return nil, fmt.Errorf("lock the run: %w", err)
	}
	return func() { _ = lock.Unlock() }, nil // the process's end does the same
}

// make assembles the commits, adds them to the user's repository and creates a branch and a working tree for
// them. On error it removes the branch, the working tree and the registration again.
func (w *worktrees) make(ctx context.Context, o CheckoutOptions, scratch string) (_ *CheckoutResult, err error) {
	if err := o.Confirm.ask(executedIn(ctx, o, w.user)); err != nil {
		return nil, err
	}
	path, err := freePath(o)
	if err != nil {
		return nil, err
	}
	if err := w.user.LoadReferences(ctx); err != nil {
		return nil, err
	}
	a := &assembly{user: w.user, options: o, scratch: scratch}
	commit, commits, err := a.build(ctx)
	if err != nil {
		return nil, err
	}
	branch, present, err := w.chooseBranch(ctx, o, commit)
	if err != nil {
		return nil, err
	}
	r := Registration{Schema: registrationSchema, Run: o.Run, Repository: w.user.CommonDir, Branch: branch,
		Base:   o.Info.BaseCommit,
		From:   o.From,
		Commit: commit, Commits: commits, Path: path, CreatedAt: time.Now().UTC().Truncate(time.Second)}
	pack, err := a.quarantine(ctx, commit)
	if err != nil {
		return nil, err
	}
	// Recorded before it is done, so that Checkout or Remove can finish it after a crash.
	if err := r.write(o.RunDir); err != nil {
		return nil, err
	}
	undo := func(err error) error { return errors.Join(err, os.Remove(registrationPath(o.RunDir))) }
	if !present {
		if err := w.takeIn(ctx, pack); err != nil {
			return nil, undo(err)
		}
		if err := w.createBranch(ctx, branch, commit, o.Run); err != nil {
			return nil, undo(err)
		}
	}
	if err := w.add(ctx, r); err != nil {
		if !present { // must not end with the caller's context
			err = errors.Join(err, w.view.DeleteBranch(context.WithoutCancel(ctx), branch, commit))
		}
		return nil, undo(err)
	}
	return w.made(ctx, o, r)
}

// made returns the result of a checkout that made a working tree.
func (w *worktrees) made(ctx context.Context, o CheckoutOptions, r Registration) (*CheckoutResult, error) {
	warnings, err := w.unfiltered(ctx, r)
	for _, s := range o.Diff.Submodules {
		warnings = append(warnings, workspace.Warning{Code: WarnSubmoduleLeft, Path: s.Path,
			Message: "the branch keeps the submodule " + visible.Quoted(s.Path) + " at its commit, without the changes in " +
				"it: holon apply " + o.Run + " has them"})
	}
	return &CheckoutResult{Registration: r, Warnings: append(warnings, o.Diff.Warnings...)}, err
}

// freePath returns the path of the new working tree, which is absent or an empty directory.
func freePath(o CheckoutOptions) (string, error) {
	path := o.Path
	if path == "" {
		path = filepath.Join(o.Default, o.Run)
	}
	parent := filepath.Dir(path)
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return "", err
	}
	parent, err := filepath.EvalSymlinks(parent) // as git will name it
	if err != nil {
		return "", err
	}
	path = filepath.Join(parent, filepath.Base(path))
	entries, err := os.ReadDir(path)
	if errors.Is(err, os.ErrNotExist) || err == nil && len(entries) == 0 {
		if strings.ContainsAny(path, "\n\x00") {
			return "", git.InvalidOption("--path", "a newline in a path is not supported")
		}
		return path, nil
	}
	return "", &git.Error{Code: CodePathExists, Param: "--path",
		Message: path + " exists and is not an empty directory",
		Hint:    "name another with --path"}
}

// chooseBranch returns the branch for the commit, and whether an earlier checkout made it: the same run gives the same
// commit. If another branch has a name that a person chose, that is an error; if it has the name made of the
// run's name, the run's id is used instead.
func (w *worktrees) chooseBranch(ctx context.Context, o CheckoutOptions, commit string) (branch string, present bool,
	err error) {
	candidates := []string{o.Branch}
	if o.Branch == "" {
		candidates = []string{branchName(o.Name, o.Run), branchName("", o.Run)}
	}
	for _, branch = range candidates {
		tip, err := w.user.Resolve("refs/heads/" + branch)
		switch {
		case err != nil:
			return "", false, err
		case tip != "" && w.view.Contains(ctx, tip, commit):
			return branch, true, nil
		case tip == "":
			if clash, err := w.clashes(branch); err != nil || !clash {
				return branch, false, err
			}
		}
	}
	return "", false, branchExists(branch)
}

func branchExists(branch string) *git.Error {
	return &git.Error{Code: CodeBranchExists, Param: "--branch",
		Message: fmt.Sprintf("the branch %q exists, or one that its name begins with", branch),
		Hint:    "name another with --branch"}
}

// branchName makes the name of a run's branch of what a person called the run,
// or of its id where nothing of that is left.
func branchName(name, run string) string {
	slug := strings.Map(func(r rune) rune {
		switch {
		case r == '-' || r == '_' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z':
			return r
		}
		return '-'
	}, name)
	for strings.Contains(slug, "--") {
		slug = strings.ReplaceAll(slug, "--", "-")
	}
	if slug = strings.Trim(slug, "-"); len(slug) > 60 {
		slug = strings.TrimRight(slug[:60], "-")
	}
	if slug == "" || git.CheckBranch("holon/"+slug) != nil {
		slug = run
	}
	return "holon/" + slug
}
