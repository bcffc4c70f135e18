package conversation

import (
	"context"
	"errors"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

// Files are those of the sessions where each host has its own, so that another one can go on. Methods are safe for
// concurrent use.
type Files interface {
	// Save saves what a session has. What was saved before an error is not saved again.
	Save(ctx context.Context, id string) error
	// Remove removes what was saved of a session. One of which nothing was saved is success.
	Remove(ctx context.Context, id string) error
}

// OfHost reports whether a path in the directory of a session is this host's own: the tree, what is about the tree, and
// what belongs to the files that the change is being brought to.
func OfHost(name string) bool {
	dir, base := path.Split(name)
	switch dir {
	case "":
		return base == treeDir || base == emptyDir || strings.HasPrefix(base, changeDir+".")
	case changeDir + "/":
		return base != patchFile && base != bundleFile && base != objectsDir
	}
	return false
}

// How long an answer waits until the session is saved; how long one try to save a session may take, which goes on from
// there; after how long a failed one is repeated; and how many sessions are saved at a time.
const (
	tellAfter   = 5 * time.Second
	saveWithin  = 10 * time.Minute
	saveRetry   = time.Second
	savedAtOnce = 8
)

// touch has Run save sessions.
func (s *Sessions) touch(list ...*Session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range list {
		if s.opts.Files != nil && s.all[x.id] == x {
			s.unsaved[x] = true
		}
	}
	select {
	case s.touched <- struct{}{}:
	default:
	}
}

// save saves a session before an answer about it ends. After tellAfter it leaves that to Run; a process that has lost
// the sessions has ended by then.
func (x *Session) save() {
	s := x.sessions
	if s.opts.Files == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), tellAfter)
	defer cancel()
	for s.opts.Files.Save(ctx, x.id) != nil {
		select {
		case <-ctx.Done():
			s.touch(x)
			return
		case <-time.After(saveRetry):
		}
	}
}

// keepSaving saves the sessions that were touched, until ctx ends. It tries again what cannot be
// saved.
func (s *Sessions) keepSaving(ctx context.Context) {
	failed := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.touched:
		}
		err := s.saveTouched(ctx)
		if err != nil && !failed && ctx.Err() == nil {
			s.opts.Log.Error("sessions cannot be saved for other hosts; trying again", "err", err)
		}
		if failed = err != nil; failed {
			select {
			case <-ctx.Done():
			case <-time.After(saveRetry):
			}
		}
	}
}

// Save saves all sessions, for a caller that leaves them to another host. Run and all containers have ended.
func (s *Sessions) Save(ctx context.Context) error {
	s.touch(slices.Collect(maps.Values(s.all))...)
	return s.saveTouched(ctx)
}

func (s *Sessions) saveTouched(ctx context.Context) error {
	s.mu.Lock()
	list := slices.Collect(maps.Keys(s.unsaved))
	clear(s.unsaved)
	s.mu.Unlock()
	errs := make([]error, len(list))
	var group errgroup.Group
	group.SetLimit(savedAtOnce)
	for i, x := range list {
		group.Go(func() error {
			within, cancel := context.WithTimeout(ctx, saveWithin)
			defer cancel()
			if errs[i] = s.opts.Files.Save(within, x.id); errs[i] != nil {
				s.touch(x)
			}
			return nil
		})
	}
	_ = group.Wait() // errs has them
	return errors.Join(errs...)
}

// leaveTree goes on without a tree that another host has. The next turn makes another one, as the session began.
func (x *Session) leaveTree() error {
	s, r := x.sessions, x.record
	if r.Tree == nil || r.Finished || r.Host == s.host {
		return nil
	}
	s.opts.Log.Warn("the files of a session stayed on another host: it goes on with new ones", "session", x.id)
	x.writing.Lock()
	err := x.append(line{TreeLost: true})
	x.writing.Unlock()
	if err == nil {
		err = x.amend(func(r *record) error {
			r.WorkDir, r.Tree, r.Host = r.workDir(s.opts.Local), nil, ""
			return nil
		})
	}
	x.note(event{What: "tree_lost", By: byTime})
	return err
}
