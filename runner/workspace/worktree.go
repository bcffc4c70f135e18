package workspace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// worktrees are the linked working trees and branches of a user's repository.
type worktrees struct{ user *userRepository }

// listed is one working tree as `git worktree list` tells.
type listed struct {
	path, branch string
	locked       string // the reason, "locked" without one; empty when not locked
	missing      bool   // its directory is gone
}

// list parses `git worktree list --porcelain -z`: "key SP value NUL" lines, an
// empty one after each working tree.
func (w *worktrees) list(ctx context.Context) ([]listed, error) {
	out, err := w.user.git().run(ctx, nil, "worktree", "list", "--porcelain", "-z")
	if err != nil {
		return nil, fmt.Errorf("list working trees: %w", err)
	}
	return parseWorktrees(out), nil
}

func parseWorktrees(out []byte) (all []listed) {
	for line := range bytes.SplitSeq(out, []byte{0}) {
		key, value, _ := strings.Cut(string(line), " ")
		if key == "worktree" {
			all = append(all, listed{path: value})
		}
		if len(all) == 0 {
			continue
		}
		at := &all[len(all)-1]
		switch key {
		case "branch":
			at.branch = strings.TrimPrefix(value, "refs/heads/")
		case "locked":
			at.locked = orText(value, "locked")
		case "prunable":
			at.missing = true
		}
	}
	return all
}

func orText(text, otherwise string) string {
	if text != "" {
		return text
	}
	return otherwise
}

// find returns the working tree at path, nil when the repository knows none.
func (w *worktrees) find(ctx context.Context, path string) (*listed, error) {
	all, err := w.list(ctx)
	if err != nil {
		return nil, err
	}
	for i := range all {
		if all[i].path == path {
			all[i].missing = !exists(filepath.Join(path, ".git"))
			return &all[i], nil
		}
	}
	return nil, nil
}

// resume looks at what an earlier checkout of the run made. A nil result means
// that nothing of it is left and it is to be made anew.
func (w *worktrees) resume(ctx context.Context, o CheckoutOptions, known *Registration) (*CheckoutResult, error) {
	if known.Repository != w.user.commonDir {
		return nil, &Error{Code: CodeCheckedOut, Param: "--workspace", Message: fmt.Sprintf("run %s is checked out in another repository, at %s", o.Run, known.Path),
			Hint: "holon checkout --remove " + o.Run + " removes that working tree"}
	}
	at, err := w.find(ctx, known.Path)
	if err != nil {
		return nil, err
	}
	if at != nil && !at.missing && known.filled() {
		if o.Branch != "" && o.Branch != known.Branch || o.Path != "" && !samePath(o.Path, known.Path) {
			return nil, &Error{Code: CodeCheckedOut, Param: "RUN", Message: fmt.Sprintf("run %s is checked out at %s, on branch %s", o.Run, known.Path, known.Branch),
				Hint: "holon checkout --remove " + o.Run + " removes that working tree and keeps the branch"}
		}
		return &CheckoutResult{Registration: *known, Existing: true, Warnings: o.Diff.Warnings}, nil
	}
	if at != nil { // removed by hand, or the end came before it was filled
		if err := w.forget(ctx, known.Path); err != nil {
			return nil, err
		}
	}
	tip, err := w.tip(ctx, known.Branch)
	if err != nil || tip == "" || o.Branch != "" && o.Branch != known.Branch || !w.contains(ctx, tip, known.Commit) {
		return nil, err
	}
	again := *known
	if again.Path, err = freePath(o); err != nil {
		return nil, err
	}
	if err := again.write(o.RunDir); err != nil {
		return nil, err
	}
	if err := w.add(ctx, again); err != nil {
		return nil, err
	}
	return w.made(ctx, o, again)
}

func samePath(a, b string) bool {
	if real, err := filepath.EvalSymlinks(a); err == nil {
		a = real
	}
	return filepath.Clean(a) == b
}

// tip returns the commit of a branch, empty when there is no such branch.
func (w *worktrees) tip(ctx context.Context, branch string) (string, error) {
	commit, err := w.user.git().line(ctx, "rev-parse", "--verify", "--quiet", "--end-of-options", "refs/heads/"+branch)
	if failed, ok := asGitError(err); ok && failed.exit == 1 {
		return "", nil
	}
	return commit, err
}

// clashes reports whether another branch's name is a directory of this one's,
// or this one's of another's: git can't hold both.
func (w *worktrees) clashes(ctx context.Context, branch string) (bool, error) {
	for parent, _ := splitPath(branch); parent != ""; parent, _ = splitPath(parent) {
		if tip, err := w.tip(ctx, parent); err != nil || tip != "" {
			return true, err
		}
	}
	beneath, err := w.user.git().line(ctx, "for-each-ref", "--count=1", "refs/heads/"+branch+"/")
	return beneath != "", err
}

func (w *worktrees) contains(ctx context.Context, tip, commit string) bool {
	_, err := w.user.git().run(ctx, nil, "merge-base", "--is-ancestor", commit, tip)
	return err == nil
}

// takeIn gives a checked pack to the user's repository. Git places it with the
// permissions that the repository asks for; nothing refers to it yet.
func (w *worktrees) takeIn(ctx context.Context, pack string) error {
	file, err := os.Open(pack)
	if err != nil {
		return err
	}
	defer file.Close()
	if _, err := w.user.git().run(ctx, file, "index-pack", "--stdin"); err != nil {
		return fmt.Errorf("take in objects: %w", err)
	}
	return nil
}

// createBranch makes a branch that must not exist.
func (w *worktrees) createBranch(ctx context.Context, branch, commit, run string) error {
	none := strings.Repeat("0", len(commit))
	_, err := w.user.git().with(whoMoves(w.user)...).run(ctx, nil, "update-ref", "--no-deref", "--create-reflog", "-m", "holon: result of "+run, "refs/heads/"+branch, commit, none)
	if failed, ok := asGitError(err); ok && failed.cause == nil && strings.Contains(failed.stderr, "cannot lock ref") {
		e := branchExists(branch)
		e.Err = err
		return e
	}
	if err != nil {
		return fmt.Errorf("create branch: %w", err)
	}
	return nil
}

// whoMoves names the user in the reflog, where git insists on somebody.
func whoMoves(user *userRepository) []string {
	if user.userName != "" && user.userEmail != "" {
		return nil
	}
	return []string{"GIT_COMMITTER_NAME=" + whoName, "GIT_COMMITTER_EMAIL=" + whoEmail}
}

// deleteBranch deletes a branch that is still at commit.
func (w *worktrees) deleteBranch(ctx context.Context, branch, commit string) error {
	if _, err := w.user.git().run(ctx, nil, "update-ref", "--no-deref", "-d", "refs/heads/"+branch, commit); err != nil {
		return fmt.Errorf("delete branch: %w", err)
	}
	return nil
}

// add makes a linked, locked working tree of a branch and fills it. Filters of
// the user's configuration are not run on what a container wrote: files are
// as git stores them, but for line endings.
func (w *worktrees) add(ctx context.Context, r Registration) error {
	g, err := withoutFilters(ctx, w.user.git().with(whoMoves(w.user)...))
	if err != nil {
		return err
	}
	if _, err := g.run(ctx, nil, "worktree", "add", "--quiet", "--no-checkout", "--lock", "--reason", r.reason(), r.Path, r.Branch); err != nil {
		if failed, ok := asGitError(err); ok && strings.Contains(failed.stderr, "is already checked out at") {
			return &Error{Code: CodeBranchExists, Param: "--branch", Message: fmt.Sprintf("the branch %q is checked out in another working tree", r.Branch), Hint: "name another with --branch"}
		}
		err = fmt.Errorf("add working tree: %w", err)
		if r.gitDirOf() != "" { // git was killed in between
			err = errors.Join(err, w.forget(context.WithoutCancel(ctx), r.Path))
		}
		return err
	}
	fill := g
	fill.dir = r.Path
	if _, err := fill.run(ctx, nil, "reset", "--hard", "--quiet"); err != nil {
		return errors.Join(fmt.Errorf("fill working tree: %w", err), w.forget(context.WithoutCancel(ctx), r.Path))
	}
	return nil
}

// WarnUnfiltered says that files of a checked-out working tree are as git
// stores them, because a filter of the user's was not run.
const WarnUnfiltered = "not_filtered"

// unfiltered counts the files that the user's own filters would have changed.
func (w *worktrees) unfiltered(ctx context.Context, r Registration) ([]Warning, error) {
	settings, err := filterSettings(ctx, w.user.git())
	if err != nil {
		return nil, err
	}
	in := w.user.git()
	in.dir = r.Path
	var warnings []Warning
	for _, key := range settings {
		name, ok := strings.CutSuffix(strings.TrimPrefix(key, "filter."), ".smudge")
		if !ok || !plainName.MatchString(name) {
			continue
		}
		out, err := in.run(ctx, nil, "ls-files", "-z", "--", ":(top,attr:filter="+name+")")
		if err != nil {
			return nil, fmt.Errorf("look for filtered files: %w", err)
		}
		if n := bytes.Count(out, []byte{0}); n > 0 {
			warnings = append(warnings, Warning{Code: WarnUnfiltered, Path: r.Path,
				Message: fmt.Sprintf("%d files are as git stores them, since your filter %s was not run on them; `git read-tree --empty && git reset --hard` there runs it", n, name)})
		}
	}
	return warnings, nil
}

var plainName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,60}$`)

// forget removes a working tree whatever its state, and its entry.
func (w *worktrees) forget(ctx context.Context, path string) error {
	if _, err := w.user.git().run(ctx, nil, "worktree", "remove", "--force", "--force", path); err != nil {
		return fmt.Errorf("remove working tree: %w", err)
	}
	return nil
}
