package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"holon/runner/engine"
	"holon/state"
)

// pollInterval is for programs of other processes: their exit can only be polled.
const pollInterval = 20 * time.Millisecond

// Start implements engine.Engine. Only the process that created a program can
// start it.
func (e *Engine) Start(ctx context.Context, h engine.Handle) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if _, err := e.find(h); err != nil {
		return err
	}
	c, ok := e.own(h)
	if !ok {
		return &engine.Error{Code: engine.CodeConflict,
			Message: "program " + h.Name + " was created by another process",
			Hint:    "remove it and create a new one"}
	}
	return c.start()
}

// Wait implements engine.Engine. The exit of a program whose host process
// ended before it is not known: its code is -1.
func (e *Engine) Wait(ctx context.Context, h engine.Handle) (engine.Exit, error) {
	if _, err := e.find(h); err != nil {
		return engine.Exit{}, err
	}
	if c, ok := e.own(h); ok {
		select {
		case <-c.done:
			return *c.snapshot().Exit, nil
		case <-ctx.Done():
			return engine.Exit{}, fmt.Errorf("wait for program %s: %w", h.Name, ctx.Err())
		}
	}
	for {
		r, err := e.find(h)
		if err != nil {
			return engine.Exit{}, err
		}
		if exit := exitSeen(r); exit != nil {
			return *exit, nil
		}
		if err := pause(ctx); err != nil {
			return engine.Exit{}, fmt.Errorf("wait for program %s: %w", h.Name, err)
		}
	}
}

// exitSeen is the recorded exit, or that of a leader which is gone without one.
func exitSeen(r record) *engine.Exit {
	if r.Exit == nil && r.Leader != nil && !r.Leader.Running() {
		return &engine.Exit{Code: -1, Error: "its host process ended before it"}
	}
	return r.Exit
}

// Stop implements engine.Engine. SIGTERM goes to the leader alone, as it goes
// to process 1 of a container: what the leader started is the leader's to end.
func (e *Engine) Stop(ctx context.Context, h engine.Handle, grace time.Duration) error {
	r, err := e.find(h)
	if state.IsCode(err, engine.CodeNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if r.Leader == nil || exitSeen(r) != nil {
		return nil
	}
	e.signal(h, r, syscall.SIGTERM)
	graceful, cancel := context.WithTimeout(ctx, max(grace, 0))
	defer cancel()
	if _, err = e.Wait(graceful, h); err == nil || state.IsCode(err, engine.CodeNotFound) {
		return nil
	}
	if ctx.Err() != nil {
		return fmt.Errorf("stop program %s: %w", h.Name, ctx.Err())
	}
	e.signal(h, r, syscall.SIGKILL)
	_, err = e.Wait(ctx, h)
	if state.IsCode(err, engine.CodeNotFound) {
		return nil
	}
	return err
}

func (e *Engine) signal(h engine.Handle, r record, sig syscall.Signal) {
	if c, ok := e.own(h); ok {
		c.signal(sig)
		return
	}
	_ = r.Leader.Signal(sig) // it may have ended
}

// Remove implements engine.Engine.
func (e *Engine) Remove(ctx context.Context, h engine.Handle) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	r, err := e.find(h)
	if err != nil && !state.IsCode(err, engine.CodeNotFound) {
		return err
	}
	gone := err != nil
	if c, ok := e.own(h); ok {
		c.abandon()
	} else if r.Leader != nil {
		_ = r.Leader.Signal(syscall.SIGKILL) // it may have ended
	}
	killMarked(h.ID) // also what lost its directory
	if gone {
		return nil
	}
	if err := os.RemoveAll(filepath.Join(e.dir, h.Name)); err != nil {
		return fmt.Errorf("remove program %s: %w", h.Name, err)
	}
	e.mu.Lock()
	delete(e.children, h.ID)
	e.mu.Unlock()
	return nil
}

// List implements engine.Engine: the programs with a record.
func (e *Engine) List(ctx context.Context, labels map[string]string) ([]engine.Summary, error) {
	if err := engine.CheckLabels(labels); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(e.dir)
	if err != nil {
		return nil, fmt.Errorf("list programs: %w", err)
	}
	out := []engine.Summary{}
	for _, entry := range entries {
		r, err := readRecord(filepath.Join(e.dir, entry.Name()))
		if err != nil || r.Handle.Name != entry.Name() {
			continue // being made or removed, or not ours
		}
		if matches(r.Labels, labels) {
			out = append(out, engine.Summary{Handle: r.Handle, Labels: r.Labels, Status: statusOf(r),
				CreatedAt: r.Times.Created})
		}
	}
	slices.SortFunc(out, func(a, b engine.Summary) int { return a.CreatedAt.Compare(b.CreatedAt) })
	return out, nil
}

func matches(have, want map[string]string) bool {
	for key, value := range want {
		if got, ok := have[key]; !ok || got != value {
			return false
		}
	}
	return true
}

func statusOf(r record) engine.Status {
	switch {
	case exitSeen(r) != nil:
		return engine.StatusExited
	case r.Leader != nil:
		return engine.StatusRunning
	}
	return engine.StatusCreated
}

// Inspect implements engine.Engine.
func (e *Engine) Inspect(ctx context.Context, h engine.Handle) (engine.State, error) {
	if err := ctx.Err(); err != nil {
		return engine.State{}, err
	}
	r, err := e.find(h)
	if err != nil {
		return engine.State{}, err
	}
	return engine.State{Handle: h, Status: statusOf(r), Exit: exitSeen(r), Labels: r.Labels,
		Isolation: engine.Unconfined(r.User)}, nil
}

// Logs implements engine.Engine.
func (e *Engine) Logs(ctx context.Context, h engine.Handle, limit int64) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if _, err := e.find(h); err != nil {
		return nil, err
	}
	data, err := readLogs(filepath.Join(e.dir, h.Name), limit)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return data, err
}

func pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(pollInterval):
		return nil
	}
}
