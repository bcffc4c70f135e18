package workspace

import (
	"context"
	"errors"
	"slices"
	"strings"

	"holon/internal/folder"
	"holon/runner/workspace/git"
)

// errOwnRepository says that an agent has made a repository where it was given none.
var errOwnRepository = errors.New("its agent made a repository of its own in it")

// CheckedOut returns the branch that the agent has checked out, "" for none, and the branches and tags that it made,
// whether or not they have commits of their own. A repository that cannot be read is an error. As with Diff git does
// not work in it, and no process may write the tree.
func (t *Tree) CheckedOut(ctx context.Context) (branch string, made []string, err error) {
	err = t.withRoot(ctx, func(ctx context.Context, root folder.Dir) error {
		gitDir, err := root.Sub(".git")
		if t.info.Kind != KindGit {
			if err == nil {
				gitDir.Close()
				return errOwnRepository
			}
			return nil
		}
		if err != nil {
			return err
		}
		defer gitDir.Close()
		branch, made, err = t.checkedOut(ctx, gitDir)
		return err
	})
	return branch, made, git.WithCode("read the agent's repository", err)
}

func (t *Tree) checkedOut(ctx context.Context, gitDir folder.Dir) (branch string, made []string, err error) {
	target, err := git.AgentBranch(gitDir)
	if err != nil {
		return "", nil, err
	}
	branch, _ = strings.CutPrefix(target, "refs/heads/")
	if target == "HEAD" {
		branch = ""
	}
	tips, err := git.ReadAgentTips(ctx, gitDir)
	if err != nil {
		return branch, nil, err
	}
	user := &t.source.user
	if err := user.LoadReferences(ctx); err != nil {
		return branch, nil, err
	}
	given := map[string]bool{"refs/stash": true, "refs/heads/" + t.info.Branch: true}
	for line := range strings.Lines(string(user.References)) {
		if _, name, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			given[name] = true
		}
	}
	for name := range tips.References {
		if branch := strings.HasPrefix(name, "refs/heads/") || strings.HasPrefix(name, "refs/tags/"); branch && !given[name] {
			made = append(made, strings.TrimPrefix(name, "refs/heads/"))
		}
	}
	slices.Sort(made)
	return branch, made, nil
}
