package agentd

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"holon/agentd/worktree"
	"holon/internal/durable"
	"holon/internal/roots"
	"holon/responses"
	"holon/responses/turns"
)

// An isolated turn works in a private tree, which exists from the turn's admission to its end, and then waits for the
// turn that continues its response, if that is stored. Before the end is recorded, the difference is written as
// turns.PatchFile.

// changeTime bounds how long a change is looked for.
const changeTime = 2 * time.Minute

// treeOptions say which private tree a turn wants.
func (s *Server) treeOptions(p *plan) (o worktree.Options, err error) {
	o = worktree.Options{SessionID: p.sessionID, TurnID: p.turnID, Continues: p.req.PreviousResponseID,
		Kind:   p.req.Holon.Isolation,
		Except: []string{s.cfg.Dirs.Output, s.cfg.Dirs.State}}
	if o.Root, err = filepath.EvalSymlinks(s.cfg.Dirs.Workspace); err == nil {
		o.Origin, err = filepath.EvalSymlinks(p.workDir)
	}
	return o, err
}

// foresee puts into a plan where its turn would work, without making the tree. Instructions and skills of the workspace
// are read where the tree would come from. It returns the warning that the turn would begin with, "" for none.
func (s *Server) foresee(p *plan) (warning string, err error) {
	if !p.req.Holon.Isolates() {
		return "", nil
	}
	o, err := s.treeOptions(p)
	var from string
	if err == nil {
		s.parts.Users.Do(func() { p.workDir, from, err = worktree.Foresee(o) })
	}
	if err != nil {
		return "", recordError(err)
	}
	if p.origin = o.Origin; from == o.Origin && o.Continues != "" {
		warning = p.branches()
	}
	p.directories.anchor = cmp.Or(p.directories.anchor, from)
	p.telling, err = s.telling(p.req, p.toolset, p.thread, p.directories)
	return warning, err
}

// isolate makes the private tree of a turn that wants one, and the part of its prompt that describes it.
func (s *Server) isolate(p *plan) (err error) {
	if !p.req.Holon.Isolates() {
		return nil
	}
	o, err := s.treeOptions(p)
	if err == nil {
		s.parts.Users.Do(func() { p.private, err = worktree.Make(s.lifetime, o) })
	}
	if err != nil && s.lifetime.Err() != nil {
		return draining()
	}
	p.origin = o.Origin
	if err != nil {
		return recordError(err)
	}
	p.workDir = p.private.WorkDir()
	p.telling, err = s.telling(p.req, p.toolset, p.thread, p.directories)
	return err
}

// branched warns of a tree that does not have what the conversation says of it; nil where it goes on.
func (j *job) branched() []turns.RuntimeEvent {
	if j.private == nil || j.private.Continues() || j.req.PreviousResponseID == "" {
		return nil
	}
	return []turns.RuntimeEvent{j.scope.Warning(turns.Notice{Code: "tree_not_continued", Component: "worktree",
		Recoverable: true, Message: j.branches()})}
}

// branches says that a turn does not go on with the tree of its conversation.
func (p *plan) branches() string {
	return fmt.Sprintf("no tree of %s waits for this turn, which works in a new one, made from %s as it is now: the "+
		"tree is gone, or another turn went on with it", p.req.PreviousResponseID, p.origin)
}

// settleTree writes what the turn changed in its private tree, and keeps or removes the tree. Tasks that the turn
// started work in the tree, so they end first.
func (s *Server) settleTree(j *job) error {
	if j.private == nil {
		return nil
	}
	if !j.rec.Ran() { // nothing can have changed
		s.leaveTree(j.plan, j.private.Release)
		return nil
	}
	err := s.keepChange(j)
	leave := j.private.Remove
	if err == nil && j.goesOn {
		leave = func() error { return j.private.Keep(j.emitter.Response().ID) }
	}
	s.leaveTree(j.plan, leave)
	return err
}

// keepChange writes what the turn changed in its private tree.
func (s *Server) keepChange(j *job) error {
	// Not the turn's context: the change of a cancelled turn is kept too.
	ctx, cancel := context.WithTimeout(context.Background(), changeTime)
	defer cancel()
	s.parts.Tasks.EndTurn(ctx, j.turnID)
	summary, err := s.writeChange(ctx, j.turnDir, j.private)
	if err != nil {
		return fmt.Errorf("keep the change of an isolated turn: %w", err)
	}
	if err := s.warnOfSecrets(j); err != nil {
		return err
	}
	for _, o := range summary.Omitted {
		if err := j.rec.Event(j.scope.Warning(turns.Notice{Code: o.Code, Component: "worktree", Recoverable: true,
			Message: fmt.Sprintf("%s leaves out %.200q", turns.PatchFile, o.Path)})); err != nil {
			return err
		}
	}
	if summary.Unlisted == 0 {
		return nil
	}
	return j.rec.Event(j.scope.Warning(turns.Notice{Code: "more_left_out", Component: "worktree", Recoverable: true,
		Message: fmt.Sprintf("%s leaves out %d further files", turns.PatchFile, summary.Unlisted)}))
}

// warnOfSecrets says which secrets are in the change, which stays as it is: it is the user's work.
func (s *Server) warnOfSecrets(j *job) error {
	root, err := roots.Open(j.turnDir)
	if err != nil {
		return err
	}
	defer root.Close()
	patch, err := root.Open(turns.PatchFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // nothing changed
	}
	if err != nil {
		return err
	}
	defer patch.Close()
	names, err := s.parts.Secrets.Names(patch)
	if err != nil || len(names) == 0 {
		return err
	}
	return j.rec.Event(j.scope.Warning(turns.Notice{Code: "secret_in_patch", Component: "worktree", Recoverable: true,
		Message: fmt.Sprintf("%s holds the value of %s", turns.PatchFile, strings.Join(names, ", "))}))
}

// leaveTree ends the turn's work in its private tree. leave is a method of the tree.
func (s *Server) leaveTree(p *plan, leave func() error) {
	var err error
	if s.parts.Users.Do(func() { err = leave() }); err != nil {
		s.log.Warn("a private tree is left until the next start", "turn", p.turnID, "err", err)
	}
	p.private = nil
}

// recoverTrees removes the private trees that a crash left. Their changes are kept for the turns that are settled next.
func (s *Server) recoverTrees() {
	root, err := filepath.EvalSymlinks(s.cfg.Dirs.Workspace)
	if err != nil {
		return // without a working tree no turn was isolated
	}
	keep := func(turnID string, t *worktree.Tree) (own bool) {
		ctx, cancel := context.WithTimeout(s.lifetime, changeTime)
		defer cancel()
		dir, err := s.interruptedDir(turnID)
		if err == nil {
			_, err = os.Lstat(dir)
		}
		if err != nil { // a server with other directories may have made it, and settles it at its next start
			s.log.Warn("a private tree is left, since its turn is not known here", "turn", turnID, "err", err)
			return false
		}
		if _, err = s.writeChange(ctx, dir, t); err != nil {
			s.log.Warn("the change of an interrupted turn is lost", "turn", turnID, "err", err)
		}
		return true
	}
	s.parts.Users.Do(func() {
		err = worktree.Recover(root, func(turnID string, t *worktree.Tree) (own bool) {
			done := make(chan struct{})
			go func() { // the turn's files are not those of commands
				defer close(done)
				own = keep(turnID, t)
			}()
			<-done
			return own
		})
	})
	if err != nil {
		s.log.Warn("private trees of an earlier process are left", "err", err)
	}
}

// interruptedDir returns the directory of a turn whose record may be incomplete.
func (s *Server) interruptedDir(turnID string) (string, error) {
	if err := responses.CheckID("turn_id", turnID); err != nil {
		return "", err
	}
	dir := s.defaultDir(turnID)
	if noted, ok := s.noted(turnID); ok {
		dir = noted
	}
	return confine("turn directory", s.cfg.Dirs.Output, dir)
}

// writeChange writes the change of a tree into a turn's directory, where commands may have put anything. There is no
// file when nothing changed.
func (s *Server) writeChange(ctx context.Context, dir string, t *worktree.Tree) (summary worktree.Summary, err error) {
	root, err := roots.Open(dir)
	if err != nil {
		return summary, err
	}
	defer root.Close()
	const temp = durable.TempPrefix + "d1ff"
	if err := errors.Join(clear(root, temp), clear(root, turns.PatchFile)); err != nil {
		return summary, err
	}
	f, err := root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o664)
	if err != nil {
		return summary, err
	}
	w := bufio.NewWriter(f)
	s.parts.Users.Do(func() { summary, err = t.Diff(ctx, w) })
	if err = errors.Join(err, w.Flush()); err == nil && summary.Files > 0 {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil || summary.Files == 0 {
		return summary, errors.Join(err, root.Remove(temp))
	}
	if err := root.Rename(temp, turns.PatchFile); err != nil {
		return summary, err
	}
	return summary, durable.SyncDir(dir)
}

// clear makes room for a file of ours.
func clear(root *os.Root, name string) error {
	if _, err := root.Lstat(name); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return roots.RemoveAll(root, name)
}
