package workspace

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"holon/internal/visible"
	"holon/runner/workspace/git"
	"holon/state"
)

// Branch is commits of the agent that are not part of the result.
type Branch = state.Branch

// Bounds of what is looked at for such commits.
const (
	maxBranches = 100 // that are kept
	maxLost     = 20  // likewise, of those that no reference leads to
)

// references lists what the agent's references hold that the user's repository has not under the same name, then the
// stashes, the newest first, then a HEAD on no branch. left is what else HEAD, references and linked working trees are
// or were at. With an error that is what could be read.
func (h *history) references(ctx context.Context, head string) (list, left []Branch, err error) {
	tips, err := git.ReadAgentTips(ctx, h.gitDir)
	user := &h.tree.source.user
	// or there are others by now
	if list = h.agentBranches(tips.References, user.References); len(list) > 0 && user.Top != "" {
		if err := user.LoadReferences(ctx); err != nil {
			return nil, nil, err
		}
		list = h.agentBranches(tips.References, user.References)
	}
	h.known = append(user.ReferenceIDs(), h.tree.info.BaseCommit)
	for i, id := range tips.Stashes[:min(len(tips.Stashes), maxBranches)] {
		list = append(list, Branch{Name: fmt.Sprintf("stash@{%d}", i), Ref: fmt.Sprintf("refs/stashes/%d", i), Commit: id})
	}
	if head != "" && !slices.Contains(slices.Collect(maps.Values(tips.References)), head) {
		list = append(list, Branch{Name: "HEAD", Ref: "refs/detached", Commit: head})
	}
	left = h.left(tips, slices.AppendSeq(append(h.known, head), maps.Values(tips.References)))
	otherSize := func(b Branch) bool { return len(b.Commit) != 2*h.tree.source.format.Size() }
	return slices.DeleteFunc(list, otherSize), slices.DeleteFunc(left, otherSize), err
}

// agentBranches lists the references but the stash that are not the same in packed references of the user. One whose
// name git
// or a terminal would take for something else gets another.
func (h *history) agentBranches(found map[string]string, references []byte) (list []Branch) {
	users := map[string]string{}
	for line := range strings.Lines(string(references)) {
		if id, name, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			users[name] = id
		}
	}
	h.replaced = map[string]string{}
	for _, ref := range slices.Sorted(maps.Keys(found)) {
		if ref == "refs/stash" || users[ref] == found[ref] {
			continue
		}
		b := Branch{Name: strings.TrimPrefix(ref, "refs/heads/"), Ref: ref, Commit: found[ref]}
		name, branch := strings.CutPrefix(ref, "refs/heads/")
		if !branch {
			name = strings.TrimPrefix(ref, "refs/")
		}
		if git.CheckBranch(name) != nil || ours(ref) {
			for n := len(h.replaced) + 1; found[b.Ref] != "" || h.replaced[b.Name] != ""; n++ {
				b.Name = fmt.Sprintf("unnamed-%d", n)
				b.Ref = "refs/heads/" + b.Name
			}
			h.replaced[b.Name] = strings.TrimPrefix(ref, "refs/heads/")
		}
		list = append(list, b)
	}
	return list
}

// ours reports whether the bundle has a reference of that name for something else.
func ours(ref string) bool {
	first, _, _ := strings.Cut(strings.TrimPrefix(ref, "refs/"), "/")
	return slices.Contains([]string{"stash", "stashes", "left", "detached", "staged"}, first)
}

// shown is the agent's own name of a branch, for people.
func (h *history) shown(b Branch) string {
	if name, ok := h.replaced[b.Name]; ok {
		return visible.Quoted(visible.Clip(name, 200))
	}
	return b.Name
}

// left lists what linked working trees are at, what HEAD was at, and what else is in logs, but for what is reached.
// Those
// that have no other name are called by the beginning of their id.
func (h *history) left(tips git.AgentTips, reached []string) (list []Branch) {
	seen := map[string]bool{}
	for _, id := range reached {
		seen[id] = true
	}
	add := func(name, id string) {
		if !seen[id] && id != "" {
			list = append(list, Branch{Name: name, Ref: fmt.Sprintf("refs/left/%d", len(list)), Commit: id})
		}
		seen[id] = true
	}
	byID := func(ids []string) {
		for _, id := range ids {
			add(id[:min(len(id), 12)], id)
		}
	}
	byID(tips.Linked)
	for i, id := range tips.Head {
		add(fmt.Sprintf("HEAD@{%d}", i), id)
	}
	byID(tips.Others)
	return list
}

// lost returns those of the commits left which nothing contains, neither what is kept nor another of them.
func (h *history) lost(ctx context.Context, left []Branch) ([]Branch, error) {
	var ids []string
	for _, b := range left {
		ids = append(ids, b.Commit)
	}
	present, err := h.staging.Commits(ctx, ids)
	if err != nil || len(present) == 0 {
		return nil, err
	}
	out, err := h.staging.Git().With("GIT_ALLOC_LIMIT="+historyAlloc).Run(ctx,
		strings.NewReader(git.Beyond(strings.Join(present, "\n"), h.withKept())), "rev-list", "--parents",
		"--max-count="+strconv.Itoa(maxHistoryObjects), "--stdin")
	if err != nil {
		return nil, err
	}
	beyond, parents := map[string]bool{}, map[string]bool{}
	for line := range strings.Lines(string(out)) {
		for i, id := range strings.Fields(line) {
			if i == 0 {
				beyond[id] = true
			} else {
				parents[id] = true
			}
		}
	}
	left = slices.DeleteFunc(left, func(b Branch) bool { return !beyond[b.Commit] || parents[b.Commit] })
	if len(left) > maxLost {
		h.leftOut(fmt.Errorf("more than %d were left that no reference leads to", maxLost))
		left = left[:maxLost]
	}
	return left, nil
}

// withKept lists the commits that are not lost, with those of the branches so far.
func (h *history) withKept() []string {
	list := slices.Clone(h.known)
	for _, b := range h.diff.Branches {
		list = append(list, b.Commit)
	}
	return list
}

// named is an error that says which branches were left out; nil for none.
func named(list []Branch) error {
	if len(list) == 0 {
		return nil
	}
	var names []string
	for _, b := range list[:min(len(list), 20)] {
		names = append(names, b.Name)
	}
	return fmt.Errorf("there are commits elsewhere than in the result: %s", strings.Join(names, ", "))
}

// branches keeps the commits that are not part of the result.
func (h *history) branches(ctx context.Context, list, left []Branch) (err error) {
	if h.known, err = h.staging.Commits(ctx, slices.Compact(slices.Sorted(slices.Values(h.known)))); err != nil {
		return err
	}
	if err := h.keep(ctx, list); err != nil {
		return err
	}
	lost, err := h.lost(ctx, left)
	if err == nil {
		err = h.keep(ctx, lost)
	}
	if err != nil {
		if ctx.Err() != nil || git.IsDiskFull(err) {
			return err
		}
		h.leftOut(fmt.Errorf("what no reference leads to: %w", err))
	}
	if len(h.diff.Branches) == 0 || h.options.Bundle == "" {
		return nil
	}
	return h.bundle(ctx)
}

// keep keeps the commits of branches. One that cannot be kept is a warning that names it.
func (h *history) keep(ctx context.Context, list []Branch) error {
	for _, b := range list {
		if len(h.diff.Branches) == maxBranches {
			h.leftOut(fmt.Errorf("there are more than %d branches with them", maxBranches))
			break
		}
		kept, err := h.branch(ctx, b)
		if err != nil {
			if ctx.Err() != nil || git.IsDiskFull(err) {
				return errors.Join(err, named(list))
			}
			h.leftOut(fmt.Errorf("%s: %w", h.shown(b), err))
		}
		if kept != nil {
			h.diff.Branches = append(h.diff.Branches, *kept)
			if h.replaced[b.Name] != "" {
				h.diff.Warnings = append(h.diff.Warnings, Warning{Code: warnReplaced, Path: ".git",
					Message: fmt.Sprintf("the agent's branch %s is called %s here", h.shown(b), b.Name)})
			}
		}
	}
	return nil
}

// branch counts and keeps the commits of one branch; nil when there are none that would be lost.
func (h *history) branch(ctx context.Context, b Branch) (*Branch, error) {
	g := h.staging.Git().With("GIT_ALLOC_LIMIT=" + historyAlloc)
	commit, err := g.Line(ctx, "rev-parse", "--verify", "--end-of-options", b.Commit+"^{commit}")
	if err != nil {
		return nil, err
	}
	b.Commit = commit
	withKept := h.withKept()
	bases := withKept // a tag and HEAD often name what a branch has too
	if strings.HasPrefix(b.Ref, "refs/heads/") || strings.HasPrefix(b.Ref, "refs/stashes/") {
		bases = h.known
	}
	out, err := g.Run(ctx, strings.NewReader(git.Beyond(commit, bases)), "rev-list", "--count",
		"--max-count="+strconv.Itoa(maxHistoryCommits+1), "--stdin")
	if err != nil {
		return nil, err
	}
	switch b.Commits, err = strconv.Atoi(strings.TrimSpace(string(out))); {
	case err != nil || b.Commits > maxHistoryCommits:
		return nil, fmt.Errorf("there are more than %d", maxHistoryCommits)
	case b.Commits == 0:
		return nil, nil
	}
	if err := checkTree(ctx, h.staging, commit); err != nil {
		return nil, err
	}
	if b.Files, err = h.changed(ctx, g, b); err != nil {
		return nil, err
	}
	if err := h.transfer(ctx, commit, withKept); err != nil {
		return nil, err
	}
	return &b, nil
}

// changed counts the files that the commits of a branch change.
func (h *history) changed(ctx context.Context, g git.Runner, b Branch) (int, error) {
	from := h.tree.source.format.EmptyTree()
	if strings.HasPrefix(b.Name, "stash@") {
		from = b.Commit + "^1"
	} else if base := h.tree.info.BaseCommit; base != "" {
		out, err := g.Run(ctx, nil, "merge-base", base, b.Commit)
		if failed, ok := git.AsExitError(err); err != nil && (!ok || failed.Exit != 1) { // 1: they have none
			return 0, err
		}
		from, _, _ = strings.Cut(cmp.Or(strings.TrimSpace(string(out)), from), "\n")
	}
	names, err := g.WithOutput(maxHistoryTree).Run(ctx, nil, "diff-tree", "-r", "--no-renames", "--name-only", "-z", from,
		b.Commit)
	return bytes.Count(names, []byte{0}), err
}

// bundle writes the bundle, from the quarantine, whose references have names that were checked. It needs commits of the
// user's repository alone, not those of the result.
func (h *history) bundle(ctx context.Context) error {
	g := h.quarantine.Git().With("GIT_ALLOC_LIMIT=" + historyAlloc).WithCPUTime(git.PackTime)
	var create strings.Builder
	var refs []string
	for _, b := range h.diff.Branches {
		create.WriteString("create " + b.Ref + " " + b.Commit + "\n")
		refs = append(refs, b.Ref)
	}
	if _, err := g.Run(ctx, strings.NewReader(create.String()), "update-ref", "--stdin"); err != nil {
		return err
	}
	users := slices.DeleteFunc(slices.Clone(h.known), func(id string) bool {
		return h.diff.History != nil && id == h.diff.History.Commit
	})
	_, err := g.Run(ctx, strings.NewReader(git.Beyond(strings.Join(refs, "\n"), users)), "bundle", "create", "--quiet",
		h.options.Bundle, "--stdin")
	if err == nil {
		h.diff.Bundle = h.options.Bundle
	}
	return err
}
