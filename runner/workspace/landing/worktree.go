package landing

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"holon/internal/folder"
	"holon/runner/workspace"
	"holon/runner/workspace/git"
)

// worktrees are the linked working trees and branches of a user's repository.
// They are changed through a view, or as files where git would load the repository's configuration.
type worktrees struct {
	user *git.UserRepository
	view git.View
}

// resume continues what an earlier checkout of the run made. A nil result means that nothing of it is left,
// so that it has to be made again.
func (w *worktrees) resume(ctx context.Context, o CheckoutOptions, known *Registration) (*CheckoutResult, error) {
	if known.Repository != w.user.CommonDir {
		return nil, &git.Error{Code: CodeCheckedOut, Param: "--workspace",
			Message: fmt.Sprintf("%s is checked out in another repository, at %s", o.Run, known.Path),
			Hint:    "holon checkout --remove " + o.Run + " removes that working tree"}
	}
	gitDir, otherBranch := known.gitDirOf(), o.Branch != "" && o.Branch != known.Branch || o.From != known.From
	if gitDir != "" {
		if git.Exists(filepath.Join(known.Path, ".git")) && known.filled() {
			return o.existing(known, otherBranch)
		}
		// a person removed the files, or the checkout was interrupted before it wrote them
		if err := forget(known.Path, gitDir); err != nil {
			return nil, err
		}
	}
	tip, err := w.user.Resolve("refs/heads/" + known.Branch)
	if err != nil || tip == "" || otherBranch || !w.view.Contains(ctx, tip, known.Commit) {
		return nil, err
	}
	return w.addAgain(ctx, o, *known)
}

// existing returns the working tree that an earlier checkout made, unless another was asked for.
func (o CheckoutOptions) existing(known *Registration, otherBranch bool) (*CheckoutResult, error) {
	if otherBranch || o.Path != "" && !samePath(o.Path, known.Path) {
		return nil, &git.Error{Code: CodeCheckedOut, Param: "RUN",
			Message: fmt.Sprintf("%s is checked out at %s, on branch %s", o.Run, known.Path, known.Branch),
			Hint:    "holon checkout --remove " + o.Run + " removes that working tree and keeps the branch"}
	}
	return &CheckoutResult{Registration: *known, Existing: true, Warnings: o.Diff.Warnings}, nil
}

// addAgain makes a new working tree for the branch of an earlier checkout.
func (w *worktrees) addAgain(ctx context.Context, o CheckoutOptions, r Registration) (_ *CheckoutResult, err error) {
	if err := o.Confirm.ask(o.Diff.Warnings); err != nil {
		return nil, err
	}
	if r.Path, err = freePath(o); err != nil {
		return nil, err
	}
	if err := r.write(o.RunDir); err != nil {
		return nil, err
	}
	if err := w.add(ctx, r); err != nil {
		return nil, err
	}
	return w.made(ctx, o, r)
}

func samePath(a, b string) bool {
	if real, err := filepath.EvalSymlinks(a); err == nil {
		a = real
	}
	return filepath.Clean(a) == b
}

// clashes reports whether another branch's name is a directory of this one's,
// or this one's of another's: git can't hold both.
func (w *worktrees) clashes(branch string) (bool, error) {
	for parent, _ := folder.Split(branch); parent != ""; parent, _ = folder.Split(parent) {
		if tip, err := w.user.Resolve("refs/heads/" + parent); err != nil || tip != "" {
			return true, err
		}
	}
	return bytes.Contains(w.user.References, []byte(" refs/heads/"+branch+"/")), nil
}

// takeIn adds a checked pack to the user's repository, with the permissions that the repository asks for.
// Nothing refers to its objects yet.
func (w *worktrees) takeIn(ctx context.Context, pack string) error {
	file, err := os.Open(pack)
	if err != nil {
		return err
	}
	defer file.Close()
	g := w.view.Git().With("GIT_OBJECT_DIRECTORY=" + w.user.Objects).WithConfig(w.user.Sharing()).
		WithCPUTime(git.PackTime)
	if _, err := g.Run(ctx, file, "index-pack", "--stdin"); err != nil {
		return fmt.Errorf("take in objects: %w", err)
	}
	return nil
}

// createBranch makes a branch that must not exist.
func (w *worktrees) createBranch(ctx context.Context, branch, commit, run string) error {
	g, remove, err := w.view.References(branch)
	if err != nil {
		return err
	}
	defer remove()
	none := strings.Repeat("0", len(commit))
	name, email := w.user.Identity()
	_, err = g.With("GIT_COMMITTER_NAME="+name, "GIT_COMMITTER_EMAIL="+email).Run(ctx, nil, "update-ref", "--no-deref",
		"--create-reflog",
		"-m", "holon: result of "+run, "refs/heads/"+branch, commit, none)
	if failed, ok := git.AsExitError(err); ok && failed.Cause == nil &&
		strings.Contains(failed.Stderr, "cannot lock ref") {
		e := branchExists(branch)
		e.Err = err
		return e
	}
	if err != nil {
		return fmt.Errorf("create branch: %w", err)
	}
	return nil
}

// add makes a linked, locked working tree of a branch and fills it, as `git
// worktree add` does. Files are as git stores them, but for line endings.
func (w *worktrees) add(ctx context.Context, r Registration) error {
	if at := w.checkedOutAt(r.Branch); at != "" {
		return &git.Error{Code: CodeBranchExists, Param: "--branch",
			Message: fmt.Sprintf("the branch %q is checked out in another working tree, %s", r.Branch, at),
			Hint:    "name another with --branch"}
	}
	tip, err := w.user.Resolve("refs/heads/" + r.Branch) // which may have gone on since the first checkout
	if err != nil {
		return fmt.Errorf("add working tree: %w", err)
	}
	gitDir, err := w.register(r)
	if err != nil {
		return fmt.Errorf("add working tree: %w", err)
	}
	g := w.view.Git().With("GIT_WORK_TREE="+r.Path, "GIT_INDEX_FILE="+filepath.Join(gitDir, "index")).
		WithConfig(w.user.Sharing(), "core.sparseCheckout=false")
	g.Dir = r.Path
	if _, err := g.Run(ctx, nil, "read-tree", "--reset", "-u", tip); err != nil {
		return errors.Join(fmt.Errorf("fill working tree: %w", err), forget(r.Path, gitDir))
	}
	return nil
}

// checkedOutAt returns the git directory of the working tree in which a branch is checked out, "" for none.
func (w *worktrees) checkedOutAt(branch string) string {
	dirs := []string{w.user.CommonDir}
	entries, _ := os.ReadDir(filepath.Join(w.user.CommonDir, "worktrees"))
	for _, e := range entries {
		dirs = append(dirs, filepath.Join(w.user.CommonDir, "worktrees", e.Name()))
	}
	for _, dir := range dirs {
		if head, err := git.ReadIn(dir, "HEAD"); err == nil && strings.TrimSpace(head) == "ref: refs/heads/"+branch {
			return dir
		}
	}
	return ""
}

// register makes the files of a linked working tree: its entry in the repository, locked before it is complete so that
// no `git worktree prune` takes it, and the directory with the .git that leads there.
func (w *worktrees) register(r Registration) (gitDir string, err error) {
	all := filepath.Join(w.user.CommonDir, "worktrees")
	if err := os.Mkdir(all, 0o777); err != nil && !errors.Is(err, os.ErrExist) {
		return "", err
	}
	dir, err := folder.Open(all) // not through a link
	if err != nil {
		return "", err
	}
	dir.Close()
	for n := 0; ; n++ {
		gitDir = filepath.Join(all, filepath.Base(r.Path))
		if n > 0 {
			gitDir += strconv.Itoa(n)
		}
		if err = os.Mkdir(gitDir, 0o777); !errors.Is(err, os.ErrExist) {
			break
		}
	}
	if err == nil {
		err = os.MkdirAll(r.Path, 0o777)
	}
	for _, file := range [][2]string{
		{filepath.Join(gitDir, "locked"), r.reason()},
		{filepath.Join(gitDir, "gitdir"), filepath.Join(r.Path, ".git")},
		{filepath.Join(gitDir, "commondir"), "../.."},
		{filepath.Join(gitDir, "HEAD"), "ref: refs/heads/" + r.Branch},
		{filepath.Join(r.Path, ".git"), "gitdir: " + gitDir},
	} {
		if err == nil {
			err = os.WriteFile(file[0], []byte(file[1]+"\n"), 0o666)
		}
	}
	if err != nil {
		err = errors.Join(err, forget(r.Path, gitDir))
	}
	return gitDir, err
}

// WarnUnfiltered says that files of a checked-out working tree are as git stores them.
const WarnUnfiltered = "not_filtered"

// unfiltered returns a warning with the number of files that Git LFS would have fetched.
func (w *worktrees) unfiltered(ctx context.Context, r Registration) ([]workspace.Warning, error) {
	g := w.view.Git().With("GIT_WORK_TREE="+r.Path, "GIT_INDEX_FILE="+filepath.Join(r.gitDirOf(), "index"))
	g.Dir = r.Path
	out, err := g.Run(ctx, nil, "ls-files", "-z", "--", ":(top,attr:filter=lfs)")
	if err != nil {
		return nil, fmt.Errorf("look for filtered files: %w", err)
	}
	n := bytes.Count(out, []byte{0})
	if n == 0 {
		return nil, nil
	}
	return []workspace.Warning{{Code: WarnUnfiltered, Path: r.Path,
		Message: fmt.Sprintf("%d files are as git stores them, "+
			"since Git LFS was not run on them; `git read-tree --empty && git reset --hard` there runs it", n)}}, nil
}

// forget removes a working tree in any state and its entry in the repository. The entry goes last, so that an
// interrupted removal can be found and finished.
func forget(path, gitDir string) error {
	if err := errors.Join(os.RemoveAll(path), os.RemoveAll(gitDir)); err != nil {
		return fmt.Errorf("remove working tree: %w", err)
	}
	_ = os.Remove(filepath.Dir(gitDir)) // where it was the last one
	return nil
}
