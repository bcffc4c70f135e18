package trees

import (
	"context"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"holon/runner"
	"holon/runner/agent/scheduler"
	"holon/runner/workspace"
	"holon/runner/workspace/git"
	"holon/state"
	"holon/state/ledger"
)

// place is what a path of the operator's leads to.
type place struct {
	workspace ledger.Workspace
	source    string // a linked working tree of the workspace; "": its anchor
	cwd       string // beneath anchor or source, slash-separated
}

func invalid(hint, message string) error {
	return &state.Error{Code: scheduler.CodeInvalidWorkspace, Param: "path", Message: message, Hint: hint}
}

// ofKernel reports whether what a directory holds is made by the kernel.
func ofKernel(dir string) bool {
	return !git.Within("/dev/shm", dir) && slices.ContainsFunc([]string{"/proc", "/sys", "/dev"},
		func(top string) bool { return git.Within(top, dir) })
}

// CheckPath refuses a path that no agent could have attached.
func (t *Trees) CheckPath(ctx context.Context, name string) error {
	_, err := t.locate(ctx, name)
	return typed(err)
}

// directory is what a path leads to, links resolved. It refuses what is no directory of the operator's.
func (t *Trees) directory(name string) (string, error) {
	if !filepath.IsAbs(name) || strings.ContainsRune(name, 0) {
		return "", invalid("give an absolute path", "the path is relative, or no path")
	}
	dir, err := git.RealDirectory(name)
	if err != nil {
		return "", git.WithCode("find the directory", err)
	}
	home := t.opts.Home.Dir()
	switch {
	case ofKernel(dir):
		return "", invalid("name a project", dir+" holds files of the kernel, which cannot be copied")
	case dir == "/":
		return "", invalid("name a project", "the whole file system cannot be a workspace")
	case git.Within(home, dir):
		return "", invalid("name a directory of yours", dir+" lies in the state home "+home)
	}
	return dir, nil
}

// locate finds the workspace of a path on the host, which may be beneath its anchor, and refuses what agents must not
// have copies of.
func (t *Trees) locate(ctx context.Context, name string) (p place, err error) {
	dir, err := t.directory(name)
	if err != nil {
		return p, err
	}
	options := workspace.Options{Dir: dir, CacheDir: t.opts.Home.CacheDir(), Borrowing: t.opts.Borrowing()}
	if err := workspace.Check(ctx, options); err != nil {
		return p, err
	}
	user, err := git.Locate(ctx, dir, options.Borrowing)
	if err != nil {
		return p, err
	}
	p.workspace = ledger.Workspace{Kind: ledger.WorkspaceDirectory, Anchor: dir}
	if user == nil {
		err = git.CheckBare(dir)
	} else {
		p.workspace.Kind, p.workspace.Anchor, p.cwd = ledger.WorkspaceGit, user.Top, user.Prefix
		if main := filepath.Dir(user.CommonDir); user.CommonDir != user.GitDir && filepath.Base(user.CommonDir) == ".git" {
			p.workspace.Anchor, p.source = main, user.Top
		}
		p.workspace.RepoName = filepath.Base(p.workspace.Anchor)
	}
	if err != nil {
		return p, err
	}
	if p.workspace.Anchor == "/" || git.Within(t.opts.Home.Dir(), p.workspace.Anchor) {
		return p, invalid("name a project", p.workspace.Anchor+" cannot be a workspace")
	}
	p.workspace.Alias = alias(filepath.Base(p.workspace.Anchor))
	return p, nil
}

const maxAlias = 40

// alias makes the name of a directory one that is short, and the same on every file system.
func alias(name string) string {
	text := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || strings.ContainsRune("._-", r) {
			return r
		}
		return '-'
	}, strings.ToLower(name))
	text = strings.Trim(text[:min(len(text), maxAlias)], ".-_")
	if text == "" || text == ledger.HomeWorkspace {
		return "workspace"
	}
	return text
}

// attachedTo are the workspaces that an agent has attached.
func attachedTo(v ledger.View, agentID string) (stored ledger.AgentState, all []ledger.Workspace, err error) {
	if stored, err = v.AgentState(agentID); err != nil {
		return stored, nil, err
	}
	for _, a := range stored.Workspaces {
		w, err := v.Workspace(a.WorkspaceID)
		if err != nil {
			return stored, nil, err
		}
		all = append(all, w)
	}
	return stored, all, nil
}

// attached is attachedTo by itself.
func (t *Trees) attached(ctx context.Context, agentID string) (stored ledger.AgentState, all []ledger.Workspace,
	err error) {
	err = t.opts.Store.View(ctx, func(v ledger.View) (err error) {
		stored, all, err = attachedTo(v, agentID)
		return err
	})
	return stored, all, err
}

// find finds what a path leads to for an agent: a workspace that it has attached, a linked working tree of one, or
// another directory. An agent itself finds the latter beneath the roots that the operator allowed, and cannot
// find out whether anything else exists.
func (t *Trees) find(ctx context.Context, attached []ledger.Workspace, name string, operator bool) (p place,
	err error) {
	for _, w := range attached {
		if rel, ok := beneath(w.Anchor, name); ok && w.Kind == ledger.WorkspaceDirectory {
			return place{workspace: w, cwd: rel}, nil
		}
	}
	beneathRoot := func(root string) bool { return git.Within(root, name) }
	allowed := operator || slices.ContainsFunc(t.opts.Roots, beneathRoot) ||
		slices.ContainsFunc(attached, func(w ledger.Workspace) bool {
			return git.Within(w.Anchor, name) || isLinked(w, name)
		})
	if !allowed {
		return p, notAllowed()
	}
	if p, err = t.locate(ctx, name); err != nil || operator {
		return p, err
	}
	has := slices.ContainsFunc(attached, func(w ledger.Workspace) bool { return w.Anchor == p.workspace.Anchor })
	within := slices.ContainsFunc(t.opts.Roots, func(root string) bool { return git.Within(root, p.workspace.Anchor) })
	if !has && !within {
		return p, notAllowed()
	}
	return p, nil
}

func notAllowed() error {
	return &state.Error{Code: CodeNotAllowed, Param: "path",
		Message: "the path is in no workspace of yours, and not below a directory that your operator allowed",
		Hint:    "use a workspace that is attached, or ask your operator to attach it"}
}

// beneath is the rest of a path, links resolved, beneath a directory.
func beneath(dir, name string) (rest string, ok bool) {
	real, err := filepath.EvalSymlinks(name)
	if err != nil {
		return "", false
	}
	rest, err = filepath.Rel(dir, real)
	if err != nil || !filepath.IsLocal(rest) {
		return "", false
	}
	if rest == "." {
		rest = ""
	}
	return filepath.ToSlash(rest), true
}

// isLinked reports whether a path is in a linked working tree of a repository, as that says.
func isLinked(w ledger.Workspace, name string) bool {
	links, err := filepath.Glob(filepath.Join(w.Anchor, ".git", "worktrees", "*", "gitdir"))
	return err == nil && slices.ContainsFunc(links, func(link string) bool {
		info, err := os.Lstat(link)
		if err != nil || !info.Mode().IsRegular() || info.Size() > 8<<10 {
			return false
		}
		text, err := os.ReadFile(link)
		return err == nil && git.Within(filepath.Dir(strings.TrimSpace(string(text))), name)
	})
}

// inContainer is the tree and the rest of a path that an agent sees, as it names a tree of its own.
func inContainer(name string) (tree, rest string, ok bool) {
	below, ok := strings.CutPrefix(path.Clean(name), runner.WorkspacesPath+"/")
	if !ok {
		return "", "", false
	}
	tree, rest, _ = strings.Cut(below, "/")
	return tree, rest, true
}
