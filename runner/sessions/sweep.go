package sessions

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"holon/runner"
	"holon/runner/engine"
	"holon/runner/workspace"
	"holon/state"
	"holon/state/files"
)

// Leftover is what a session of a home made and may have left behind: its container, the directory of its
// sockets, or the claim on its tree.
type Leftover struct {
	Kind    string // container, sockets, tree
	Name    string // of the container, else a path
	Session string // Config.ID; of sockets but a run's, the name of their directory; of a tree, its claim
	Owner   string // id of the agent or the conversation of a container; "" for a run's, for sockets and for trees
	ID      string // of a container, the engine's
}

// Sweeper removes what the sessions of one kind left behind in a home. It alone decides whose a container, a directory
// or a claim is; Unowned says whether that owner is alive. Containers of other homes are never looked at.
type Sweeper struct {
	Home state.Home
	Kind Kind
	// Unowned calls remove and reports true, unless l is in use or can be taken up again. It prevents that any process
	// takes l up meanwhile.
	Unowned func(ctx context.Context, l Leftover, remove func() error) (bool, error)
	// Found, if not nil, is told of everything that was removed or could not be, instead of the caller.
	Found func(l Leftover, err error)
}

// Containers sweeps those of an engine.
func (s Sweeper) Containers(ctx context.Context, eng engine.Engine) error {
	list, err := eng.List(ctx, map[string]string{runner.LabelHome: s.Home.Dir()})
	errs := []error{err}
	for _, c := range list {
		kind, owner := ofLabels(c.Labels)
		l := Leftover{"container", c.Handle.Name, c.Labels[runner.LabelRun], owner, c.Handle.ID}
		if kind == s.Kind {
			errs = append(errs, s.sweep(ctx, l, func() error { return eng.Remove(ctx, c.Handle) }))
		}
	}
	return errors.Join(errs...)
}

// Sockets sweeps the directories of sockets.
func (s Sweeper) Sockets(ctx context.Context) error {
	parent := filepath.Dir(s.Home.IPCDir("x"))
	entries, err := os.ReadDir(parent)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("list the socket directories: %w", err)
	}
	var errs []error
	for _, e := range entries {
		dir := filepath.Join(parent, e.Name())
		if ofSockets(e.Name()) == s.Kind {
			errs = append(errs, s.sweep(ctx, Leftover{"sockets", dir, e.Name(), "", ""}, func() error {
				return files.RemoveAll(dir)
			}))
		}
	}
	return errors.Join(errs...)
}

// Claims sweeps the claims on trees.
func (s Sweeper) Claims(ctx context.Context) error {
	claims, err := workspace.Claims(ctx, s.Home.CacheDir())
	errs := []error{err}
	for _, c := range claims {
		if ofClaim(c.By) != s.Kind {
			continue
		}
		errs = append(errs, s.sweep(ctx, Leftover{"tree", c.Slot, c.By, "", ""}, func() error {
			return workspace.Disclaim(ctx, s.Home.CacheDir(), c)
		}))
	}
	return errors.Join(errs...)
}

func (s Sweeper) sweep(ctx context.Context, l Leftover, remove func() error) error {
	gone, err := s.Unowned(ctx, l, remove)
	if s.Found == nil || !gone && err == nil {
		return err
	}
	s.Found(l, err)
	return nil
}

// Clear removes what a run holds from which nothing is left to be saved, its record last. A run without a container
// needs no engine. With keep the session's directory stays.
func (m *Manager) Clear(ctx context.Context, key Key, eng engine.Engine, keep bool) error {
	sweeper := Sweeper{Home: m.Home, Unowned: func(_ context.Context, l Leftover, remove func() error) (bool, error) {
		if l.Session != key.id {
			return false, nil
		}
		return true, remove()
	}}
	var errs []error
	if eng != nil {
		errs = append(errs, sweeper.Containers(ctx, eng))
	}
	proper := m.Home.IPCDir(key.id)
	errs = append(errs, sweeper.Claims(ctx), files.RemoveAll(proper), files.RemoveAll(runner.OtherSocketDir(proper)))
	if !keep {
		errs = append(errs, files.RemoveAll(m.SessionDir(key)))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return m.RemoveRecord(key)
}
