package agent

import (
	"context"
	"slices"
	"sync"
	"time"

	"holon/state"
	"holon/state/ledger"
)

// Checks makes the checks of children: *childcheck.Checks.
type Checks interface {
	// Admit refuses patterns that no check can have.
	Admit(patterns []string) error
	// Check checks what the tree of a task holds, in a container of the image. How that ends is no error. It may be
	// called again, and ends with ctx, leaving no container.
	Check(ctx context.Context, t ledger.Task, image string) state.Check
	// Clear ends what a killed process left of checks.
	Clear(ctx context.Context) error
}

// attendChecks makes the checks that tasks of children wait for, one at a time for each public agent and those below
// it. A check that is cut off, with its process too, is made again.
func (r *Runtime) attendChecks(ctx context.Context) {
	if err := r.cfg.Checks.Clear(ctx); err != nil {
		r.log.Warn("what is left of checks cannot be cleaned up", "err", err)
	}
	var running sync.WaitGroup
	defer running.Wait()
	busy, ended := make(map[string]bool), make(chan string)
	for {
		waiting, err := ledger.Read(ctx, r.store, checking)
		if err != nil && ctx.Err() == nil {
			r.log.Warn("the tasks that wait for a check cannot be read; trying again", "err", err)
		}
		for _, t := range waiting {
			root := state.RootAgent(t.AgentID)
			if busy[root] || !r.cfg.Leases.Held(root) {
				continue
			}
			busy[root] = true
			running.Go(func() {
				r.check(ctx, t)
				select {
				case ended <- root:
				case <-ctx.Done():
				}
			})
		}
		select {
		case <-ctx.Done():
			return
		case root := <-ended:
			delete(busy, root)
		case <-r.checkable:
		case <-time.After(attendEvery):
		}
	}
}

// checking are the tasks that wait for the check of their child, which is not stopped.
func checking(v ledger.View) ([]ledger.Task, error) {
	begun, err := v.CheckingTasks()
	return slices.DeleteFunc(begun, func(t ledger.Task) bool { return !awaits(v, t) }), err
}

func awaits(v ledger.View, t ledger.Task) bool {
	if !t.Checking() {
		return false
	}
	child, err := v.AgentState(t.Child().AgentID)
	return err == nil && !child.Stopped
}

// check makes the check of a child that has ended, and ends its task. It is given up when the task ends otherwise, or
// the child is stopped.
func (r *Runtime) check(ctx context.Context, t ledger.Task) {
	ctx, stop := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() {
		defer stop()
		r.whileChecking(ctx, t)
	})
	defer watching.Wait()
	defer stop()
	child := t.Child().AgentID
	container, err := r.containerOf(ctx, child)
	if err == nil && r.cfg.Containers != nil { // its place is that of the check
		err = r.cfg.Containers.Stop(ctx, child)
	}
	if err != nil {
		r.log.Info("the container of a child that is checked cannot be stopped", "agent", child, "err", err)
	}
	verdict := r.cfg.Checks.Check(ctx, t, container.Image)
	tree := r.worktreeOf(child)
	for ctx.Err() == nil {
		err := r.scheduler.Checked(ctx, t.AgentID, t.ID, verdict, tree)
		if err == nil {
			r.childEnded(child)
			return
		}
		r.log.Error("the verdict on a child cannot be recorded; trying again", "agent", child, "err", err)
		select {
		case <-ctx.Done():
		case <-time.After(storeRetry):
		}
	}
}

// whileChecking returns when a task does not wait for its check any more.
func (r *Runtime) whileChecking(ctx context.Context, t ledger.Task) {
	for ctx.Err() == nil {
		changed := r.store.Changed(t.Child().AgentID)
		waits, err := ledger.Read(ctx, r.store, func(v ledger.View) (bool, error) {
			now, err := v.Task(t.AgentID, t.ID)
			return err == nil && awaits(v, now), err
		})
		if err == nil && !waits {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
		case <-time.After(attendEvery): // also after an error of the store
		}
	}
}
