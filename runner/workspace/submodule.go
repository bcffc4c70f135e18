package workspace

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"holon/internal/folder"
	"holon/runner/workspace/git"
)

// A diff that includes submodules compares two git trees in which those that changed are directories. Its patch is one:
// it is shown, merged and applied as a whole, all of it or nothing. The result of the run, which a branch can have,
// keeps every submodule at its commit.

const warnSubmoduleCommits = "submodule_commits" // commits of the agent within a submodule, which are not kept

// moduleTree is what a git tree has in the place of a submodule.
type moduleTree struct{ path, mode, id string }

const modeTree = "040000"

// baseTrees returns the trees of submodules whose uncommitted changes are part of the base.
func baseTrees(modules []submodule) map[string]string {
	trees := map[string]string{}
	for _, s := range modules {
		if s.BaseTree != "" {
			trees[s.Path] = s.BaseTree
		}
	}
	return trees
}

// populated lists the submodules whose files are in the tree, each before those within it.
func (t *Tree) populated() (paths []string) {
	for _, s := range t.info.Submodules {
		if s.Populated {
			paths = append(paths, s.Path)
		}
	}
	return paths
}

// moduleOf returns the submodule that a path lies in, "" for none.
func (c *capture) moduleOf(path string) string {
	for c.layout.modules && path != "" && !c.layout.dirs[path] {
		path, _ = folder.Split(path)
	}
	if !c.layout.modules {
		return ""
	}
	return path
}

// split separates the changes within submodules from the others.
func (c *capture) split(deleted []string, files []found) (own, inner changeSet) {
	for _, path := range deleted {
		to := &own
		if c.moduleOf(path) != "" {
			to = &inner
		}
		to.deleted = append(to.deleted, path)
	}
	for _, f := range files {
		to := &own
		if c.moduleOf(f.path) != "" {
			to = &inner
		}
		to.files = append(to.files, f)
	}
	return own, inner
}

// changeSet is what a capture has to import.
type changeSet struct {
	deleted []string
	files   []found
}

func (s changeSet) paths() []string {
	paths := slices.Clone(s.deleted)
	for _, f := range s.files {
		paths = append(paths, f.path)
	}
	return paths
}

// includeModules makes the diff compare the trees with the submodules that changed as directories.
func (t *Tree) includeModules(ctx context.Context, d *comparison, c *capture, repo git.Repository) (err error) {
	changed := map[string]bool{}
	for _, path := range c.inner.paths() {
		changed[c.moduleOf(path)] = true
	}
	for path := range t.begun {
		changed[path] = c.modules[path]
	}
	modules := t.changedModules(func(path string) bool { return changed[path] })
	if len(modules) == 0 {
		return nil
	}
	before, err := t.moduleTrees(ctx, modules, nil)
	if err != nil {
		return fmt.Errorf("compare submodules: %w", err)
	}
	begun, err := t.moduleTrees(ctx, modules, t.begun)
	if err != nil {
		return fmt.Errorf("compare submodules: %w", err)
	}
	if d.from, err = c.importChanges(ctx, repo, d.BaseTree, before, nil, nil); err != nil {
		return fmt.Errorf("compare submodules: %w", err)
	}
	if d.start != "" {
		if d.start, err = c.importChanges(ctx, repo, d.start, begun, nil, nil); err != nil {
			return fmt.Errorf("compare submodules: %w", err)
		}
	}
	if d.to, err = c.importChanges(ctx, repo, d.ResultTree, begun, c.inner.deleted, c.inner.files); err != nil {
		return fmt.Errorf("compare submodules: %w", err)
	}
	for _, s := range modules {
		if !changed[s.Path] {
			continue // it only has one that changed
		}
		out, err := repo.Git().Run(ctx, nil, "rev-parse", d.from+":"+s.Path, d.to+":"+s.Path)
		trees := strings.Fields(string(out))
		if err == nil && len(trees) != 2 {
			err = fmt.Errorf("git names %d trees of %q", len(trees), s.Path)
		}
		if err != nil {
			return fmt.Errorf("compare submodules: %w", err)
		}
		if trees[0] != trees[1] { // the user may have applied what the earlier run changed
			d.Submodules = append(d.Submodules, SubmoduleChange{Path: s.Path, BaseCommit: s.Commit, ResultTree: trees[1]})
		}
	}
	return nil
}

// writeModules writes the patch of each submodule that changed, with paths of its own, for who works in it alone.
func (d *comparison) writeModules(ctx context.Context, repo git.Repository) error {
	for i := range d.Submodules {
		s := &d.Submodules[i]
		path := fmt.Sprintf("%s.submodule-%d.patch", strings.TrimSuffix(d.Patch, ".patch"), i+1)
		arguments := slices.Concat(diffArguments, patchArguments, []string{"--no-renames", "--relative=" + s.Path + "/",
			d.from, d.to, "--", ":(top,literal)" + s.Path})
		for _, inner := range d.Submodules {
			if strings.HasPrefix(inner.Path, s.Path+"/") {
				arguments = append(arguments, ":(top,literal,exclude)"+inner.Path)
			}
		}
		err := git.ReplaceFile(path, func(w io.Writer) error { return repo.Git().Stream(ctx, nil, w, arguments...) })
		if err != nil {
			return fmt.Errorf("write the patch of submodule %q: %w", s.Path, err)
		}
		s.Patch = filepath.Base(path)
	}
	return nil
}

// changedModules lists the submodules that changed and those that they lie in, by path: these first.
func (t *Tree) changedModules(changed func(path string) bool) (modules []submodule) {
	within := map[string]bool{}
	for _, s := range t.info.Submodules {
		for path := s.Path; changed(s.Path) && path != ""; path, _ = folder.Split(path) {
			within[path] = true
		}
	}
	for _, s := range t.info.Submodules {
		if within[s.Path] {
			modules = append(modules, s)
		}
	}
	slices.SortFunc(modules, func(a, b submodule) int { return strings.Compare(a.Path, b.Path) })
	return modules
}

// moduleTrees returns the trees of submodules: the ones that they have in begun, else those of the base.
func (t *Tree) moduleTrees(ctx context.Context, modules []submodule, begun map[string]string) ([]moduleTree, error) {
	arguments := []string{"rev-parse"}
	for _, s := range modules {
		arguments = append(arguments, cmp.Or(begun[s.Path], s.BaseTree, s.Commit)+"^{tree}")
	}
	out, err := t.base.Git().Run(ctx, nil, arguments...)
	ids := strings.Fields(string(out))
	if err == nil && len(ids) != len(modules) {
		err = fmt.Errorf("git names %d trees of %d submodules", len(ids), len(modules))
	}
	if err != nil {
		return nil, err
	}
	trees := make([]moduleTree, len(modules))
	for i, s := range modules {
		trees[i] = moduleTree{s.Path, modeTree, ids[i]}
	}
	return trees, nil
}

// withSubmodules returns the base tree with the submodules that a change to be continued has as directories.
func (t *Tree) withSubmodules(ctx context.Context, from Continuation) (string, error) {
	if len(from.Submodules) == 0 {
		return t.info.BaseTree, nil
	}
	if err := t.loadEntries(ctx, t.info.BaseTree); err != nil {
		return "", err
	}
	modules := t.changedModules(from.changes)
	trees, err := t.moduleTrees(ctx, modules, nil)
	if err != nil {
		return "", err
	}
	t.begun = map[string]string{}
	for _, s := range modules {
		t.begun[s.Path] = "" // until keepSubmodules
	}
	return (&capture{record: t.record}).importChanges(ctx, t.base, t.info.BaseTree, trees, nil, nil)
}

func (c Continuation) changes(path string) bool {
	return slices.ContainsFunc(c.Submodules, func(s SubmoduleChange) bool { return s.Path == path })
}

// keepSubmodules takes the trees of submodules out of a tree that has them as directories, and returns that tree with
// the submodules at their commits.
func (t *Tree) keepSubmodules(ctx context.Context, tree string) (string, error) {
	modules := t.changedModules(func(path string) bool { _, has := t.begun[path]; return has })
	links := func(top string) (within []moduleTree) {
		last := ""
		for _, s := range modules {
			path, below := strings.CutPrefix(s.Path, top)
			if !below || path == "" || last != "" && strings.HasPrefix(path, last+"/") {
				continue
			}
			last = path
			within = append(within, moduleTree{path, modeModule, s.Commit})
		}
		return within
	}
	c := &capture{record: t.record}
	for _, s := range modules {
		id, err := t.base.Git().Line(ctx, "rev-parse", tree+":"+s.Path)
		if err == nil {
			id, err = c.importChanges(ctx, t.base, id, links(s.Path+"/"), nil, nil)
		}
		if err != nil {
			return "", err
		}
		t.begun[s.Path] = id
	}
	return c.importChanges(ctx, t.base, tree, links(""), nil, nil)
}

// present returns the git tree of the files as they are now, and a repository of ours that has it.
func (t *Tree) present(ctx context.Context, root folder.Dir) (c *capture, repo git.Repository, tree string, err error) {
	return t.presentWith(ctx, root, nil)
}

// presentWith is present that also collects what changed within submodules.
func (t *Tree) presentWith(ctx context.Context, root folder.Dir, modules []string) (c *capture, repo git.Repository,
	tree string, err error) {
	if c, err = compareTree(ctx, root, t.record, t.source.options.Limits, t.taken(), modules); err != nil {
		return nil, repo, "", err
	}
	if repo, err = t.resultRepository(ctx); err != nil {
		return nil, repo, "", err
	}
	fresh, err := t.freshFiles(ctx, c, repo)
	if err != nil {
		return nil, repo, "", err
	}
	files := c.admit(append(c.changed, fresh...))
	own, inner := c.split(c.deleted(), files)
	c.inner = inner
	if tree, err = c.importChanges(ctx, repo, t.start, nil, own.deleted, own.files); err == nil {
		err = c.writeAttributes(repo)
	}
	return c, repo, tree, err
}

// warnModuleCommits names the submodules whose HEAD the agent moved: its commits there are not kept, the files are.
func (t *Tree) warnModuleCommits(root folder.Dir, c *capture) {
	at := folder.NewCursor(root, false)
	defer at.Close()
	for _, s := range t.info.Submodules {
		if !c.modules[s.Path] {
			continue
		}
		dir, name, err := at.Parent(folder.Join(s.Path, ".git"))
		if err != nil {
			continue // it is not there any more
		}
		repository, err := dir.Sub(name)
		if err != nil {
			continue // nothing that git takes for one of the host's making
		}
		tip, err := git.AgentHead(repository)
		repository.Close()
		if err != nil || tip != s.Commit {
			c.warn(warnSubmoduleCommits, s.Path, "the agent moved HEAD of the submodule; its files are in the diff, its "+
				"commits and the new commit of the submodule are not")
		}
	}
}

// maxModuleRepositories bounds the submodules that get a .git in the tree: each needs an object directory of its own.
const maxModuleRepositories = 16

// moduleRepositories lists the submodules that are repositories of their own in the tree.
func (t *Tree) moduleRepositories() (modules []submodule) {
	if t.source.options.ObjectsDir != "" || t.source.user.Top == "" {
		return nil
	}
	for _, s := range t.info.Submodules {
		if s.Populated && len(modules) < maxModuleRepositories && t.source.user.Submodule(s.Path) != nil {
			modules = append(modules, s)
		}
	}
	return modules
}

// moduleFiles are the files of a submodule's .git.
func (t *Tree) moduleFiles(ctx context.Context, s submodule) map[string][]byte {
	inner := map[string]bool{}
	for _, other := range t.info.Submodules {
		inner[other.Path] = strings.HasPrefix(other.Path, s.Path+"/")
	}
	var entries []git.Entry
	for _, e := range t.record.entries {
		path, within := strings.CutPrefix(e.Path, s.Path+"/")
		if dir, _ := folder.Split(path); within && !anyAbove(inner, folder.Join(s.Path, dir)) {
			e.Path = path
			entries = append(entries, e)
		}
	}
	files := map[string][]byte{
		"HEAD":                    []byte(s.Commit + "\n"),
		"config":                  []byte(t.agentConfig()),
		"index":                   git.EncodeIndex(t.source.format, entries),
		"objects/info/alternates": t.agentAlternates(),
		"info/exclude":            nil,
		"shallow":                 nil,
	}
	if sub, err := t.source.user.OpenSubmodule(ctx, s.Path); err == nil && sub != nil {
		files["info/exclude"], files["shallow"] = []byte(sub.Excludes), []byte(sub.Shallow)
	}
	return files
}

// excludes are the patterns of ignored files that lie outside the tree, of the repository or of the submodule top.
func (t *Tree) excludes(ctx context.Context, top string) string {
	user := &t.source.user
	if top == "" || user.Top == "" {
		return user.Excludes
	}
	if sub, err := user.OpenSubmodule(ctx, top); err == nil && sub != nil {
		return sub.Excludes
	}
	return ""
}

// configured returns what settings of git name in the user's tree, and those of the submodules in these.
func (s *Source) configured(ctx context.Context, modules []SubmoduleChange) []git.Configured {
	if s.user.Top == "" {
		return nil
	}
	paths := make([]string, len(modules))
	for i, m := range modules {
		paths[i] = m.Path
	}
	return s.user.ConfiguredWith(ctx, paths)
}
