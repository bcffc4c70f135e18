package pool

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"holon/internal/durable"
	"holon/runner"
	"holon/state"
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

// tidy removes records that were not written to their end, and directories of
// sockets that no record names. It notes the agents that have a record.
func (k *Pool) tidy() error {
	agents, err := os.ReadDir(k.opts.Home.AgentsDir())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("look for what was left half made: %w", err)
	}
	var errs []error
	named := make(map[string]bool)
	for _, entry := range agents {
		id := entry.Name()
		if state.CheckAgentID(id) != nil {
			continue
		}
		errs = append(errs, durable.Sweep(k.opts.Home.AgentPrivateDir(id)))
		if rec := k.readRecord(&agent{id: id}); rec != nil {
			named[rec.Sockets], k.agent(id).left = true, true
		}
	}
	errs = append(errs, k.leftovers(func(_ context.Context, l runner.Leftover, remove func() error) (bool, error) {
		if named[l.Name] {
			return false, nil
		}
		return true, remove()
	}).Sockets(context.Background())) // which asks no engine
	return errors.Join(errs...)
}
