// Package trees keeps the private copies of workspaces in which agents work, and brings what agents change there to
// the operator.
//
//	Attach ─▶ Enter: reserve ─▶ copy ─▶ record ─▶ use        Diff, Apply, Checkout, Sync
//	                                                            │ container held still
//	ledger.Tree ◀─ what is held of it ─▶ runner/workspace ◀─────┘
//
// The invariants: an agent writes in copies alone, and each copy has one agent, which follows from where it is; the
// operator's files change by Apply and Checkout only; a record stands before a copy is made and until it is gone, and
// nothing that is not in the operator's files or kept as a patch is removed. The host runs nothing that is in a copy.
//
// Not promised: what Diff, Apply and Sync find while the local engine, which holds nothing still, runs a program.
package trees

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"holon/internal/folder"
	"holon/runner"
	"holon/runner/agent/scheduler"
	"holon/runner/sessions"
	"holon/runner/workspace"
	"holon/runner/workspace/git"
	"holon/state"
	"holon/state/ledger"
)

// steps are those of *scheduler.Scheduler that this package takes.
type steps interface {
	Attach(ctx context.Context, agentID string, w ledger.Workspace, by string) (_ ledger.Workspace, made bool, err error)
	Use(ctx context.Context, e scheduler.Enter) (ledger.ActiveWorkspace, error)
	ExitWorkspace(ctx context.Context, agentID, by string) (left bool, err error)
	Detach(ctx context.Context, agentID, workspaceID, by string) error
	ReserveTree(ctx context.Context, t ledger.Tree) (ledger.Tree, error)
	TreeMade(ctx context.Context, made ledger.Tree) error
	TreeChanged(ctx context.Context, c scheduler.TreeChange) error
	KeepTree(ctx context.Context, agentID, name, why string) error
	EndTree(ctx context.Context, agentID, name string, status ledger.TreeStatus, why string, missing bool) error
}

// containers are those in which agents write their trees: *pool.Pool.
type containers interface {
	// Still runs fn while nothing in the agent's container runs.
	Still(ctx context.Context, agentID string, fn func(ctx context.Context, owner *folder.Owner) error) error
}

// Options say what Trees work with. All but Roots are required.
type Options struct {
	Home         state.Home
	Store        ledger.Store
	Steps        steps
	Leases       ledger.Leases // which agents this process runs; nil: all
	Containers   containers
	Borrowing    func() git.Borrowing
	IncludeDirty bool     // copies begin with what is not committed
	Roots        []string // directories of which agents may use what lies beneath, absolute
	Local        bool     // agents see the host's paths
	Log          *slog.Logger
}

// Trees are the copies of all agents of a home. Its methods are safe for concurrent use.
type Trees struct {
	opts Options

	mu    sync.Mutex
	locks map[string]chan struct{} // of agents whose trees are in use

	interrupt func(landed int) // of a test: is called before each change is written and after the last; nil
}

// New returns the trees of a home. It touches nothing.
func New(o Options) *Trees { return &Trees{opts: o, locks: make(map[string]chan struct{})} }

// Isolates reports whether agents can have trees for a task, which every engine lets them.
func (t *Trees) Isolates() bool { return true }

// Codes of errors in addition to those of package workspace that clients know.
const (
	CodeConflict   state.Code = "merge_conflict" // of Sync and Merge; nothing was changed
	CodeNotAllowed state.Code = "workspace_not_allowed"
)

// typed makes an error of package workspace one that control plane and tools report.
func typed(err error) error {
	err = workspace.Typed(err, "path")
	if e, ok := errors.AsType[*state.Error](err); ok && e.Code == "invalid_value" && e.Param == "path" {
		e.Code = scheduler.CodeInvalidWorkspace
	}
	return err
}

// lockFiles takes the operator's files in directories, to write to them or to copy them, for a caller that may hold the
// lock of an agent: no copy has what an apply is about to move.
func (t *Trees) lockFiles(ctx context.Context, write bool, dirs ...string) (unlock func(), err error) {
	return workspace.LockFiles(ctx, t.opts.Home.CacheDir(), write, dirs...)
}

// lock takes the trees of an agent for the caller alone.
func (t *Trees) lock(ctx context.Context, agentID string) (unlock func(), err error) {
	if t.opts.Leases != nil {
		if err := t.opts.Leases.Check(ctx, agentID); err != nil {
			return nil, err
		}
	}
	t.mu.Lock()
	lock := t.locks[agentID]
	if lock == nil {
		lock = make(chan struct{}, 1)
		t.locks[agentID] = lock
	}
	t.mu.Unlock()
	select {
	case lock <- struct{}{}:
		return func() { <-lock }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Places within the host's own part of an agent's home.

func (t *Trees) private(agentID string, names ...string) string {
	return filepath.Join(append([]string{t.opts.Home.AgentPrivateDir(agentID)}, names...)...)
}

// Dir is where the trees of an agent are on the host.
func (t *Trees) Dir(agentID string) string { return t.private(agentID, "workspaces") }

func (t *Trees) treeDir(tree ledger.Tree) string {
	return filepath.Join(t.Dir(tree.AgentID), tree.Name)
}

// changesDir is where changes of trees are kept, each in a directory of its own.
func (t *Trees) changesDir(agentID string) string { return t.private(agentID, "changes") }

// claimOf is how a slot of package workspace names the tree that is in it.
func claimOf(tree ledger.Tree) string { return sessions.AgentClaim + tree.AgentID + "/" + tree.Name }

// options are those with which a tree is made and found.
func (t *Trees) options(w ledger.Workspace, tree ledger.Tree) workspace.Options {
	o := workspace.Options{Dir: cmp.Or(tree.Source, w.Anchor), IncludeDirty: t.opts.IncludeDirty,
		Borrowing: t.opts.Borrowing(), CacheDir: t.opts.Home.CacheDir(), Claim: claimOf(tree), TreeDir: t.treeDir(tree),
		ObjectsDir: t.private(tree.AgentID, "objects", w.ID), Owner: t.ownerOf(tree)}
	if !t.opts.Local {
		o.ContainerObjects = runner.ObjectsPath + "/" + w.ID
	}
	return o
}

// ownerOf is whose a tree is: that of the home of its agent, which the container's user has.
func (t *Trees) ownerOf(tree ledger.Tree) *folder.Owner {
	return ownerOf(t.treeDir(tree), t.opts.Home.AgentDir(tree.AgentID))
}

// ownerOf is whose the first directory is that is there; nil for the user of this process.
func ownerOf(dirs ...string) *folder.Owner {
	if os.Geteuid() != 0 {
		return nil
	}
	for _, dir := range dirs {
		if info, err := os.Lstat(dir); err == nil {
			if st, ok := info.Sys().(*syscall.Stat_t); ok {
				return &folder.Owner{UID: int(st.Uid), GID: int(st.Gid)}
			}
		}
	}
	return nil
}

// make makes a tree that was reserved, and records how it is found. The caller holds the agent's lock.
func (t *Trees) make(ctx context.Context, w ledger.Workspace, tree ledger.Tree) (_ ledger.Tree, err error) {
	return t.makeBy(ctx, w, tree, func(o workspace.Options) (*workspace.Tree, error) {
		unlock, err := t.lockFiles(ctx, false, o.Dir)
		if err != nil {
			return nil, err
		}
		defer unlock()
		source, err := workspace.Open(ctx, o)
		if err != nil {
			return nil, err
		}
		return source.Acquire(ctx)
	})
}

// makeBy is make in a way of its own. A container that starts meanwhile gives its user the home first and then the
// trees that it finds: a tree of which the home has another owner now is made again.
func (t *Trees) makeBy(ctx context.Context, w ledger.Workspace, tree ledger.Tree,
	acquire func(workspace.Options) (*workspace.Tree, error)) (ledger.Tree, error) {
	if err := t.prepare(ctx, tree); err != nil {
		return tree, err
	}
	for {
		o := t.options(w, tree)
		made, err := acquire(o)
		if err != nil {
			return tree, err
		}
		home := ownerOf(t.opts.Home.AgentDir(tree.AgentID))
		if o.Owner == nil || home == nil || *home == *o.Owner {
			return t.record(ctx, w, tree, made)
		}
		if err := made.Release(ctx); err != nil {
			return tree, err
		}
	}
}

// prepare makes the directories of a tree, and gives up what a process that was killed made of it.
func (t *Trees) prepare(ctx context.Context, tree ledger.Tree) error {
	if err := t.disclaim(ctx, tree); err != nil {
		return err
	}
	for _, dir := range []string{t.Dir(tree.AgentID), t.private(tree.AgentID, "objects")} {
		if err := errors.Join(os.MkdirAll(dir, 0o755), os.Chmod(dir, 0o755)); err != nil { // despite the umask
			return fmt.Errorf("make the directory of trees: %w", err)
		}
	}
	return nil
}

// record records a tree that was made, and lets go of it.
func (t *Trees) record(ctx context.Context, w ledger.Workspace, tree ledger.Tree, made *workspace.Tree) (_ ledger.Tree,
	err error) {
	tree.Base, tree.Branch = made.Info().BaseCommit, made.Info().Branch
	if tree.Held, err = json.Marshal(made.Held()); err == nil {
		err = t.writeAnchor(ctx, tree.AgentID, w.ID, made)
	}
	if err == nil {
		err = t.opts.Steps.TreeMade(ctx, tree)
	}
	return tree, errors.Join(err, made.Leave())
}

// disclaim gives up what holds a tree that nothing is lost with.
func (t *Trees) disclaim(ctx context.Context, tree ledger.Tree) error {
	claims, err := workspace.Claims(ctx, t.opts.Home.CacheDir())
	for _, c := range claims {
		if err == nil && c.By == claimOf(tree) {
			err = workspace.Disclaim(ctx, t.opts.Home.CacheDir(), c)
		}
	}
	return err
}

// open finds a tree, for the holder of the agent's lock, which lets go of it with Leave or Release.
func (t *Trees) open(ctx context.Context, tree ledger.Tree) (*workspace.Tree, error) {
	var held workspace.Held
	if err := json.Unmarshal(tree.Held, &held); err != nil {
		return nil, fmt.Errorf("read how the tree %s is found: %w", tree.Name, err)
	}
	held.Owner, held.IncludeDirty, held.Borrowing = t.ownerOf(tree), t.opts.IncludeDirty, t.opts.Borrowing()
	return workspace.Resume(ctx, workspace.Options{CacheDir: t.opts.Home.CacheDir()}, held)
}

// treesOf are the trees of an agent that were not removed.
func (t *Trees) treesOf(ctx context.Context, agentID string) ([]ledger.Tree, error) {
	return ledger.Read(ctx, t.opts.Store, func(v ledger.View) ([]ledger.Tree, error) { return v.Trees(agentID) })
}

// there reports whether a tree is where it was put.
func (t *Trees) there(tree ledger.Tree) bool {
	info, err := os.Lstat(t.treeDir(tree))
	return err == nil && info.IsDir()
}
