package pool

import (
	"context"
	"errors"
	"fmt"

	"holon/internal/durable"
	"holon/runner/sessions"
)

// tidyOnce removes what a process left that was killed while it made a container.
// It is called before this process makes any.
func (k *Pool) tidyOnce() {
	k.tidied.Do(func() {
		if err := k.tidy(); err != nil {
			k.opts.Log.Warn("what a killed process left half made could not all be removed", "err", err)
		}
	})
}

// Inherit notes what other processes left of agents of which this one has taken the leases.
func (k *Pool) Inherit(is func(agentID string) bool) error {
	k.tidyOnce()
	agents, err := k.sessions.IDs(k.kind())
	if err != nil {
		return fmt.Errorf("look for what another process left: %w", err)
	}
	return k.inherit(agents, is)
}

func (k *Pool) inherit(agents []string, is func(agentID string) bool) error {
	var errs []error
	for _, id := range agents {
		if !is(id) {
			continue
		}
		if k.kind() == sessions.Agents { // a session of a client is written to meanwhile: conversation.Open sweeps it
			errs = append(errs, durable.Sweep(k.sessions.Dir(k.opts.Key(id))))
		}
		if rec, err := k.readRecord(&agent{id: id, key: k.opts.Key(id)}); rec != nil || err != nil {
			a := k.agent(id)
			a.lock <- struct{}{}
			a.left = true
			<-a.lock
		}
	}
	return errors.Join(errs...)
}

// tidy removes records that were not written to their end, and directories of
// sockets that no record names. It notes the agents that have a record.
func (k *Pool) tidy() error {
	agents, err := k.sessions.IDs(k.kind())
	if err != nil {
		return fmt.Errorf("look for what was left half made: %w", err)
	}
	var errs []error
	var damaged error
	named := make(map[string]bool)
	for _, id := range agents {
		rec, err := k.readRecord(&agent{id: id, key: k.opts.Key(id)})
		if rec != nil {
			named[rec.Sockets] = true
		}
		damaged = errors.Join(damaged, err)
	}
	errs = append(errs, k.inherit(agents, k.ours))
	if damaged != nil || k.opts.Leases != nil { // it, or what others make now, may name any of the sockets
		return errors.Join(append(errs, damaged)...)
	}
	errs = append(errs, k.leftovers(func(_ context.Context, l sessions.Leftover, remove func() error) (bool, error) {
		if named[l.Name] {
			return false, nil
		}
		return true, remove()
	}).Sockets(context.Background())) // which asks no engine
	return errors.Join(errs...)
}
