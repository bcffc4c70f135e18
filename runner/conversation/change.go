package conversation

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"holon/internal/durable"
	"holon/internal/folder"
	"holon/runner"
	"holon/runner/sessions"
	"holon/runner/workspace"
	"holon/runner/workspace/git"
	"holon/runner/workspace/landing"
	"holon/state"
)

// treeName is the name of the tree in a container.
const treeName = "session"

// treeObjects is where a container sees the git objects of its tree.
const treeObjects = runner.ObjectsPath + "/" + treeName

// WorkDir is the directory in which turns work, as agentd sees it, once the session had a container:
// holon.workspace_dir. A session that was closed has it still: a request that repeats one of its turns is the same to
// agentd then.
func (x *Session) WorkDir() string {
	r := x.snapshot()
	return r.workDir(x.sessions.opts.Local)
}

// Configure puts into the configuration of a session's container what this package knows of it: the private tree, made
// if there is none yet, and the name of the conversation. The pool may call it with the session's container locked.
func (s *Sessions) Configure(ctx context.Context, id string, c *runner.Config) (err error) {
	x, err := s.Find("", id)
	if err != nil {
		return err
	}
	c.SessionID, c.TreeName = x.AgentSession(), treeName
	if c.Resume, err = x.tree(ctx); err != nil {
		return err
	}
	return x.makeKey()
}

// makeKey gives agentd the key of the session's owner for compaction items, so that each of the owner's sessions reads
// those of the others. Package compaction says what the file is.
func (x *Session) makeKey() error {
	path := x.dir(sessionDir, "state", "compaction.key")
	if _, err := os.Lstat(path); err == nil || x.sessions.opts.Key == nil {
		return nil
	}
	key := hmac.New(sha256.New, x.sessions.opts.Key)
	_, _ = io.WriteString(key, "compaction\n"+x.snapshot().Owner) // a hash takes all
	err := os.MkdirAll(filepath.Dir(path), 0o700)
	if err == nil {
		err = durable.Sweep(filepath.Dir(path)) // no container had it yet
	}
	if err == nil {
		err = durable.WriteFile(path, key.Sum(nil), 0o600)
	}
	if err != nil {
		return fmt.Errorf("make the key of the session's compaction items: %w", err)
	}
	return nil
}

// tree is the private tree of a session, nil of one that is closed. The container's user is given it.
func (x *Session) tree(ctx context.Context) (*workspace.Held, error) {
	unlock, err := x.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	r := x.snapshot()
	switch {
	case !r.open(): // what was changed is being kept
		return nil, nil
	case r.Tree != nil:
		return r.Tree, nil
	}
	held, err := x.makeTree(ctx, r)
	return held, typed(err)
}

// lock takes the tree of a session for the caller alone. It comes after the locks of the pool.
func (x *Session) lock(ctx context.Context) (unlock func(), err error) {
	select {
	case x.busy <- struct{}{}:
		return func() { <-x.busy }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (x *Session) dir(names ...string) string {
	return filepath.Join(append([]string{x.sessions.opts.Home.SessionDir(x.id)}, names...)...)
}

// makeTree makes a tree and records how it is found. What a process that was killed made of it is given up.
func (x *Session) makeTree(ctx context.Context, r record) (_ *workspace.Held, err error) {
	err = errors.Join(x.sessions.stillAllowed(ctx, r.Workspace), x.disclaim(ctx))
	if err != nil {
		return nil, err
	}
	o := workspace.Options{Dir: r.Workspace, IncludeDirty: x.sessions.opts.IncludeDirty,
		Borrowing: x.sessions.opts.Borrowing(), CacheDir: x.sessions.opts.Home.CacheDir(),
		Claim: sessions.ConversationClaim + r.ID, TreeDir: x.dir(treeDir), ObjectsDir: x.dir(objectsDir)}
	if !x.sessions.opts.Local {
		o.ContainerObjects = treeObjects
	}
	if o.Dir == "" {
		if o.Dir, err = x.makeEmpty(); err != nil {
			return nil, err
		}
	}
	// despite the umask
	if err := errors.Join(os.MkdirAll(o.ObjectsDir, 0o755), os.Chmod(o.ObjectsDir, 0o755)); err != nil {
		return nil, fmt.Errorf("make the directory of a tree: %w", err)
	}
	tree, err := x.sessions.acquire(ctx, o)
	if err != nil {
		return nil, err
	}
	held := tree.Held()
	if err := tree.MarkStart(markStart); err != nil {
		return nil, errors.Join(err, tree.Release(context.WithoutCancel(ctx)))
	}
	err = x.amend(func(r *record) error {
		if !r.open() {
			return errClosed(r.ID)
		}
		r.Tree, r.Host = &held, x.sessions.host
		return nil
	})
	if err != nil {
		return nil, errors.Join(err, tree.Release(context.WithoutCancel(ctx)))
	}
	return &held, tree.Leave()
}

// acquire copies a workspace, to which nothing is applied meanwhile.
func (s *Sessions) acquire(ctx context.Context, o workspace.Options) (*workspace.Tree, error) {
	unlock, err := workspace.LockFiles(ctx, o.CacheDir, false, o.Dir)
	if err != nil {
		return nil, err
	}
	defer unlock()
	source, err := workspace.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	return source.Acquire(ctx)
}

// makeEmpty makes what a session without a workspace works on: a repository, so that none above it counts.
func (x *Session) makeEmpty() (string, error) {
	dir := x.dir(emptyDir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("make an empty workspace: %w", err)
	}
	repo := git.Repository{Dir: filepath.Join(dir, ".git"), Format: git.SHA1}
	config := "[core]\n\trepositoryformatversion = " + repo.Format.Version() + "\n\tbare = false\n"
	return dir, errors.Join(os.RemoveAll(repo.Dir), repo.Create(),
		os.WriteFile(filepath.Join(repo.Dir, "config"), []byte(config), 0o600))
}

// disclaim gives up what is claimed for the session.
func (x *Session) disclaim(ctx context.Context) error {
	cache := x.sessions.opts.Home.CacheDir()
	claims, err := workspace.Claims(ctx, cache)
	for _, c := range claims {
		if err == nil && c.By == sessions.ConversationClaim+x.id {
			err = workspace.Disclaim(ctx, cache, c)
		}
	}
	return err
}

// disclaimUnowned gives up trees that no session has, and none that was set aside.
func (s *Sessions) disclaimUnowned(ctx context.Context) error {
	cache := s.opts.Home.CacheDir()
	claims, err := workspace.Claims(ctx, cache)
	for _, c := range claims {
		id, ours := strings.CutPrefix(c.By, sessions.ConversationClaim)
		if !ours || state.CheckConversationID(id) != nil {
			continue
		}
		x := s.all[id]
		if aside, _ := filepath.Glob(s.opts.Home.SessionDir(id) + damagedMark + "*"); x == nil && len(aside) > 0 {
			continue
		}
		if x == nil || x.record.Tree == nil {
			err = errors.Join(err, workspace.Disclaim(ctx, cache, c))
		}
	}
	return err
}

// changed is what a session changed, with its tree unless that was given up.
type changed struct {
	record record
	info   workspace.Info
	diff   *workspace.Diff
	tree   *workspace.Tree
}

// withChange calls fn with what the session changed, while nothing in its container runs.
func (x *Session) withChange(ctx context.Context, fn func(ctx context.Context, c changed) error) error {
	look := func(ctx context.Context, _ *folder.Owner) error {
		unlock, err := x.lock(ctx)
		if err != nil {
			return err
		}
		defer unlock()
		return x.lookAt(ctx, fn)
	}
	if x.snapshot().Finished { // no container has a tree
		return typed(look(ctx, nil))
	}
	return typed(x.sessions.opts.Pool.Still(ctx, x.id, look))
}

// lookAt finds out what was changed: from the tree, and from the manifest when that was given up. The caller has the
// lock.
func (x *Session) lookAt(ctx context.Context, fn func(ctx context.Context, c changed) error) (err error) {
	c := changed{record: x.snapshot()}
	switch r := c.record; {
	case r.Finished:
		m, err := x.manifest()
		if err != nil {
			return err
		}
		if m.Workspace == nil || m.Workspace.Changes == nil {
			c.diff = &state.Diff{Files: []state.FileChange{}}
			return fn(ctx, c)
		}
		c.info, c.diff = m.Workspace.Source, m.Workspace.Changes
		c.diff.Patch = x.dir(changeDir, patchFile)
		return fn(ctx, c)
	case r.Tree == nil: // it had no container
		c.diff = &state.Diff{Files: []state.FileChange{}}
		return fn(ctx, c)
	}
	if c.tree, err = x.resume(ctx, *c.record.Tree); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.tree.Leave()) }()
	if err := x.compare(ctx, &c); err != nil {
		return err
	}
	return fn(ctx, c)
}

// compare finds out what is changed in the tree, and keeps it.
func (x *Session) compare(ctx context.Context, c *changed) (err error) {
	if err := os.MkdirAll(x.dir(changeDir), 0o700); err != nil {
		return fmt.Errorf("keep the change of a session: %w", err)
	}
	c.info = c.tree.Info()
	c.diff, err = c.tree.Diff(ctx, workspace.DiffOptions{Patch: x.dir(changeDir, patchFile),
		Objects: x.dir(changeDir, objectsDir), Bundle: x.dir(changeDir, bundleFile)})
	return err
}

// Diff returns what was changed in the session's tree since it was made or applied last. Patch and Bundle are files of
// the host that stay until the next call.
func (x *Session) Diff(ctx context.Context) (diff *state.Diff, err error) {
	err = x.withChange(ctx, func(_ context.Context, c changed) error {
		diff = c.diff
		return nil
	})
	return diff, err
}

// Applied is what was brought into the files of the operator, with warnings of what could not be.
type Applied struct {
	landing.ApplyResult
	Warnings []state.Warning
}

// Apply brings what was changed into the files of the operator, all of it or nothing, also where the process is killed.
// The tree goes on from there. Files that programs execute are written only with allowExecuted. resultTrees are those
// of the diffs that were read; without them any change is taken.
func (x *Session) Apply(ctx context.Context, allowExecuted bool, resultTrees []string, by string) (done Applied,
	err error) {
	err = x.withChange(ctx, func(ctx context.Context, c changed) error {
		if err := x.landable(ctx, c); err != nil {
			return err
		}
		unlock, err := workspace.LockFiles(ctx, x.sessions.opts.Home.CacheDir(), true, c.record.Workspace)
		if err != nil {
			return err
		}
		defer unlock()
		ctx = context.WithoutCancel(ctx) // what is begun is finished, also for a caller that is gone
		done.Path, done.Written, done.Deleted = c.info.Path, []string{}, []string{}
		if c.diff.PatchBytes == 0 {
			return nil
		}
		if err := landing.AsRead(c.diff, resultTrees); err != nil {
			return err
		}
		result, err := x.land(ctx, c, allowExecuted)
		if err == nil && c.tree != nil {
			err = c.tree.Advance(ctx)
		}
		if err != nil {
			return err
		}
		done = Applied{*result, slices.DeleteFunc(slices.Clone(c.diff.Warnings), func(w state.Warning) bool {
			return w.Code == workspace.WarnExecuted // which was agreed to
		})}
		x.note(event{What: "applied", By: by, Files: len(done.Written) + len(done.Deleted)})
		return nil
	})
	return done, err
}

// land writes a change to the files of the operator.
func (x *Session) land(ctx context.Context, c changed, allowExecuted bool) (*landing.ApplyResult, error) {
	return landing.Apply(ctx, landing.ApplyOptions{Dir: c.record.Workspace, Patch: c.diff.Patch,
		Objects: x.dir(changeDir, objectsDir), Borrowing: x.sessions.opts.Borrowing(), RunDir: x.dir(changeDir),
		Merge:    "holon session checkout " + x.id + " makes a branch of it",
		Warnings: c.diff.Warnings, Confirm: confirm(x.id, allowExecuted)})
}

// landable refuses a change that no files of the operator can have.
func (x *Session) landable(ctx context.Context, c changed) error {
	if c.record.Workspace == "" {
		return &state.Error{Code: CodeNothing, Param: "session", Message: "the session " + x.id +
			" began with an empty tree, and no directory can have its change",
			Hint: "take the patch: holon session diff " + x.id}
	}
	err := x.sessions.stillAllowed(ctx, c.record.Workspace)
	if err == nil && c.tree != nil {
		err = c.tree.CheckOrigin(ctx)
	}
	return err
}

func confirm(id string, allowed bool) landing.Confirm {
	return func(files []workspace.Warning) error {
		if allowed {
			return nil
		}
		e := landing.Unconfirmed(files, "")
		e.Hint, e.Paths = "read them with holon session diff "+id+", then give --allow-executed if you mean it", nil
		return e
	}
}

// Checkout says where the change of a session goes that becomes a branch.
type Checkout struct {
	Branch        string // "": one that is named after the session
	Path          string // of the working tree, absolute; "": below the state home
	AllowExecuted bool
}

// Checkout makes a branch of what was changed, with a working tree. The same change again is where it is.
func (x *Session) Checkout(ctx context.Context, o Checkout, by string) (made *landing.CheckoutResult, err error) {
	err = x.withChange(ctx, func(ctx context.Context, c changed) error {
		if err := x.landable(ctx, c); err != nil {
			return err
		}
		if len(c.diff.Files) == 0 {
			return &git.Error{Code: landing.CodeNothingChanged, Message: "the session " + x.id +
				" changed no file", Hint: "holon session diff " + x.id + " shows its changes since the last apply"}
		}
		id, dir, err := landing.CheckoutDir(x.dir(changeDir), x.id, *c.diff)
		if err != nil {
			return err
		}
		made, err = landing.Checkout(ctx, landing.CheckoutOptions{Run: id, RunDir: dir,
			Objects: x.dir(changeDir, objectsDir), Info: c.info, Diff: *c.diff, Dir: c.record.Workspace,
			Borrowing: x.sessions.opts.Borrowing(), Name: c.record.Name, Title: "Work of the session " + x.id,
			At: time.Now(), Confirm: confirm(x.id, o.AllowExecuted), Branch: o.Branch, Path: o.Path,
			Default: x.sessions.opts.Home.WorktreesDir()})
		if err == nil {
			x.note(event{What: "checked_out", By: by, Branch: made.Branch, Files: len(c.diff.Files)})
		}
		return err
	})
	return made, err
}

// note adds a line about the session to the audit.
func (x *Session) note(e event) {
	r := x.snapshot()
	e.Session, e.Owner = r.ID, r.Owner
	x.sessions.note(e)
}

func typed(err error) error { return workspace.Typed(err, fieldWorkspace) }
