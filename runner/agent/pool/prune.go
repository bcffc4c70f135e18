package pool

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"holon/internal/roots"
	"holon/responses"
	"holon/runner/turnfiles"
	"holon/runner/workspace"
)

// keepNewest turns stay however large they are: of the newest one the end may not have
// been read.
const keepNewest = 2

// prune removes the directories of the oldest turns of an agent, beyond what is
// kept. No command works in its container. The conversation is not in these directories and stays.
func (k *Pool) prune(ctx context.Context, a *agent) error {
	if !a.dirty && a.session != nil {
		return nil
	}
	a.dirty = false
	output, err := turnfiles.OpenOutput(k.private(a, sessionDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it has not made a turn yet
	}
	if err != nil {
		return fmt.Errorf("open the agent's output: %w", err)
	}
	defer output.Close()
	if info, err := output.Lstat("turns"); errors.Is(err, fs.ErrNotExist) || err == nil && !info.IsDir() {
		return nil // what a command put there has no turns
	}
	dir, err := roots.OpenOwn(output, "turns")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open the agent's turns: %w", err)
	}
	defer dir.Close()
	entries, err := fs.ReadDir(dir.FS(), ".")
	if err != nil {
		return fmt.Errorf("list the agent's turns: %w", err)
	}
	ids := make([]string, 0, len(entries))
	for _, e := range entries {
		if responses.CheckID("turn_id", e.Name()) == nil { // other names are the agent's own files
			ids = append(ids, e.Name())
		}
	}
	slices.Sort(ids) // ids grow with time
	var errs []error
	for _, id := range k.surplus(ctx, a, ids) {
		errs = append(errs, roots.RemoveAll(dir, id))
	}
	return errors.Join(errs...)
}

// surplus returns which of the turns are to go, the oldest first.
func (k *Pool) surplus(ctx context.Context, a *agent, ids []string) []string {
	most := max(len(ids)-keepNewest, 0)
	gone := min(max(len(ids)-k.opts.KeepTurns, 0), most)
	var bytes int64
	for i := len(ids) - 1; i >= gone; i-- {
		// A container may be writing there; what cannot be measured counts as nothing.
		n, err := workspace.Usage(ctx, filepath.Join(k.private(a, sessionDir), "output", "turns", ids[i]))
		if err != nil {
			continue
		}
		if bytes += n; bytes > k.opts.KeepBytes {
			gone = min(i+1, most)
			break
		}
	}
	return ids[:gone]
}
