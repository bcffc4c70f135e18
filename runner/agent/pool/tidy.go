package pool

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"holon/internal/durable"
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
// sockets that no record names.
func (k *Pool) tidy() error {
	agents, err := list(k.opts.Home.AgentsDir())
	if err != nil {
		return err
	}
	var errs []error
	named := make(map[string]bool)
	for _, id := range agents {
		if state.CheckAgentID(id) != nil {
			continue
		}
		errs = append(errs, durable.Sweep(k.opts.Home.AgentPrivateDir(id)))
		if rec := k.readRecord(&agent{id: id}); rec != nil {
			named[rec.Sockets] = true
		}
	}
	parent := filepath.Dir(k.opts.Home.IPCDir("x"))
	sockets, err := list(parent)
	errs = append(errs, err)
	for _, name := range sockets {
		if dir := filepath.Join(parent, name); state.IsAgentIPC(name) && !named[dir] {
			errs = append(errs, os.RemoveAll(dir))
		}
	}
	return errors.Join(errs...)
}

// list returns the names in a directory, none when it is not there.
func list(dir string) (names []string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("look for what was left half made: %w", err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, nil
}
