package conversation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"holon/internal/durable"
	"holon/internal/visible"
	"holon/responses"
	"holon/runner/workspace"
	"holon/runner/workspace/git"
	"holon/state"
	"holon/state/files"
)

// byTime is who closes sessions that are idle.
const byTime = "holon"

// Close ends a session: its turns are cancelled, its container goes, what it changed is kept, and its manifest, which
// is like that of a run, is written. What was said in it can be read on. It may be called again, also after a crash.
func (x *Session) Close(ctx context.Context, by string) (*state.Manifest, error) {
	return x.close(ctx, by, func() bool { return true })
}

var errInUse = errors.New("the session is in use")

// expire closes a session that is idle for too long, and finishes one whose closing was cut off.
func (x *Session) expire(ctx context.Context) error {
	_, err := x.close(ctx, byTime, func() bool {
		s := x.sessions
		return len(x.calls) == 0 && len(x.log.going) == 0 && !x.expiry().After(s.opts.Now())
	})
	if errors.Is(err, errInUse) {
		return nil
	}
	return err
}

// close is Close. An open session is left alone, with errInUse, unless may, called under mu, lets it be closed.
func (x *Session) close(ctx context.Context, by string, may func() bool) (*state.Manifest, error) {
	s := x.sessions
	if err := x.amend(func(r *record) error {
		switch {
		case !r.open():
		case !may():
			return errInUse
		default:
			r.ClosedAt, r.ClosedBy = s.now(), by
		}
		return nil
	}); err != nil {
		return nil, err
	}
	s.wake()
	ctx = context.WithoutCancel(ctx) // what is begun is finished, also for a caller that is gone
	s.mu.Lock()
	for _, c := range x.calls {
		c.cancel(errClosing)
	}
	s.mu.Unlock()
	if err := s.opts.Pool.Stop(ctx, x.id); err != nil { // waits for its turns
		return nil, fmt.Errorf("end the container of the session %s: %w", x.id, err)
	}
	unlock, err := x.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if x.snapshot().Finished {
		return x.manifest()
	}
	m, err := x.finish(ctx)
	if err == nil {
		x.save()
	}
	return m, typed(err)
}

// finish writes the manifest of a session that has no container any more, and gives up its tree. Of a tree with what
// cannot be kept elsewhere the manifest says where that is.
func (x *Session) finish(ctx context.Context) (*state.Manifest, error) {
	r := x.snapshot()
	m := x.describe(r)
	keep, err := x.describeChange(ctx, m)
	if err != nil {
		return nil, err
	}
	if err := x.writeManifest(ctx, m); err != nil {
		return nil, err
	}
	if err := x.amend(func(r *record) error {
		r.Finished = true
		if !keep {
			r.WorkDir, r.Tree = r.workDir(x.sessions.opts.Local), nil
		}
		return nil
	}); err != nil {
		return nil, err
	}
	x.note(event{What: "closed", By: r.ClosedBy})
	if keep {
		return m, nil
	}
	return m, x.disclaim(ctx) // after a kill before it, Open does that
}

// describeChange puts into the manifest what was changed, and reports whether the tree has to stay for some of it.
func (x *Session) describeChange(ctx context.Context, m *state.Manifest) (keep bool, err error) {
	err = x.lookAt(ctx, func(_ context.Context, c changed) error {
		if c.record.Tree == nil {
			return nil
		}
		diff := *c.diff
		diff.Patch = filepath.Join(changeDir, patchFile)
		if diff.Bundle != "" {
			diff.Bundle = filepath.Join(changeDir, bundleFile)
		}
		m.Workspace = &state.Workspace{Source: c.info, Changes: &diff}
		for _, what := range workspace.Lost(c.diff) {
			m.Warnings = append(m.Warnings, visible.OneLine(what, 300))
			keep = true
		}
		if keep {
			m.Warnings = append(m.Warnings, "the tree stays: "+visible.OneLine(c.tree.Dir(), 300))
		}
		return nil
	})
	if isGone(err) {
		m.Warnings = append(m.Warnings, "its tree is gone: "+visible.OneLine(err.Error(), 300))
		return false, nil
	}
	return keep, err
}

// isGone reports whether a tree, or what it was made from, is not there any more.
func isGone(err error) bool {
	e, ok := errors.AsType[*git.Error](err)
	return ok && (e.Code == workspace.CodeTreeGone || e.Code == workspace.CodeReleased)
}

// runID is what the manifest calls a session.
func runID(id string) string { return responses.PrefixRun + strings.TrimPrefix(id, "ses_") }

// describe is the manifest of a session but for its workspace and its artifacts.
func (x *Session) describe(r record) *state.Manifest {
	s := x.sessions
	m := &state.Manifest{Schema: state.ManifestSchema, RunID: runID(r.ID), Name: r.Name, Task: "session " + r.ID,
		Status: state.StatusCompleted, Outcome: state.OutcomeSuccess, StartedAt: r.CreatedAt, CompletedAt: r.ClosedAt,
		Model: r.Model, Image: cmp.Or(r.Image, s.opts.Image), HolonVersion: s.opts.Version,
		Engine: state.Engine{Name: s.opts.Engine}}
	if s.opts.Local {
		m.Image = "" // it was not used
	}
	m.Timings.TotalMS = r.ClosedAt.Sub(r.CreatedAt).Milliseconds()
	s.mu.Lock()
	defer s.mu.Unlock()
	account := x.log.account
	m.ModelUsage = &account
	if lost := x.log.lost; !lost.IsZero() {
		m.Warnings = append(m.Warnings, "what was changed until "+lost.Time().Format(time.DateTime)+" stayed on another host")
	}
	if turn := x.log.lastTurn; turn.TurnID != "" {
		turn.SessionID = r.ID
		m.Turn = &turn
	}
	return m
}

// writeManifest makes the manifest durable, with a list of what is kept of the change.
func (x *Session) writeManifest(ctx context.Context, m *state.Manifest) error {
	if err := os.MkdirAll(x.dir(changeDir), 0o700); err != nil {
		return fmt.Errorf("keep the change of a session: %w", err)
	}
	artifacts, warnings, err := files.Artifacts(ctx, x.dir(changeDir), objectsDir)
	if err != nil {
		return err
	}
	for i := range artifacts {
		artifacts[i].Path = changeDir + "/" + artifacts[i].Path
	}
	m.Artifacts, m.Warnings = artifacts, append(m.Warnings, warnings...)
	text, err := m.Encode()
	if err == nil {
		err = durable.WriteFile(x.dir(state.ManifestFile), text, 0o600)
	}
	if err != nil {
		return fmt.Errorf("write the manifest of the session %s: %w", x.id, err)
	}
	return nil
}

// manifest reads the manifest of a session that was closed.
func (x *Session) manifest() (*state.Manifest, error) {
	data, err := durable.ReadFile(x.dir(state.ManifestFile), state.MaxManifest)
	if err != nil {
		return nil, fmt.Errorf("read the manifest of the session %s: %w", x.id, err)
	}
	return state.DecodeManifest(data)
}

// remove removes a session that was closed, unless its tree has what is nowhere else.
func (x *Session) remove(ctx context.Context) error {
	s := x.sessions
	if err := s.opts.Pool.Stop(ctx, x.id); err != nil { // that of a read
		return err
	}
	unlock, err := x.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if s.opts.Files != nil {
		if err := s.opts.Files.Remove(ctx, x.id); err != nil { // it is tried again
			return err
		}
	}
	s.mu.Lock()
	delete(s.all, x.id)
	delete(s.unsaved, x)
	for id := range x.log.known {
		s.unlist(id, x)
	}
	s.mu.Unlock()
	gone := filepath.Join(s.opts.Home.SessionsDir(), removedPrefix+x.id)
	if err := os.Rename(x.dir(), gone); err != nil { // from here on it is not found again
		return fmt.Errorf("remove the session %s: %w", x.id, err)
	}
	x.note(event{What: "removed", By: byTime})
	return files.RemoveAll(gone)
}
