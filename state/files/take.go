package files

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"holon/internal/durable"
	"holon/internal/folder"
	"holon/state"
)

const removedPrefix = ".removed-"

// Take takes the lease of a run whose holder is gone. Of several callers, one
// gets it; the others, and every caller while a holder lives, get a *state.Error
// with CodeRunLive. A run that does not exist is CodeRunNotFound. The caller
// must Close or Remove the run.
func (r *Runs) Take(ctx context.Context, id string) (*Run, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("take the run: %w", err)
	}
	if err := state.CheckRunID(id); err != nil {
		return nil, err
	}
	dir := r.home.RunDir(id)
	d, err := openRun(id, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, notFound(id, listRuns)
	}
	if err != nil {
		return nil, err
	}
	defer d.Close()
	lease, err := retakeLease(filepath.Join(dir, state.LeaseFile))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", id, err)
	}
	if lease == nil {
		return nil, &state.Error{Code: state.CodeRunLive, Param: "run",
			Message: id + " belongs to a holon that is alive",
			Hint:    "wait for its end, or stop it with holon stop"}
	}
	run, err := held(dir, d, lease, id)
	if err != nil {
		return nil, errors.Join(err, lease.Close())
	}
	return run, nil
}

// held makes a Run of a lease that was just taken. Its previous holder may have
// removed the run between the two steps.
func held(dir string, d folder.Dir, lease *os.File, id string) (*Run, error) {
	taken, err := lease.Stat()
	if err != nil {
		return nil, fmt.Errorf("look at %s: %w", id, err)
	}
	if named, err := os.Lstat(filepath.Join(dir, state.LeaseFile)); err != nil || !os.SameFile(taken, named) {
		return nil, notFound(id, listRuns)
	}
	start, err := readStart(d)
	if err != nil {
		return nil, fmt.Errorf("read %s of %s: %w", state.StartFile, id, err)
	}
	if start.RunID != id || !filepath.IsAbs(start.OutputDir) {
		return nil, &state.Error{Code: state.CodeManifestInvalid, Param: "run_id",
			Message: fmt.Sprintf("%s of %s is that of another", state.StartFile, id)}
	}
	for _, dir := range []string{dir, start.OutputDir} { // the process that wrote there was killed
		if err := durable.Sweep(dir); err != nil {
			return nil, fmt.Errorf("%s: %w", id, err)
		}
	}
	return &Run{start: *start, dir: dir, lease: lease}, nil
}

// Start returns what was known of the run before it began.
func (r *Run) Start() state.Start { return r.start }

// Leftover is what a crash left among the runs and belongs to no run.
type Leftover struct {
	Path string
	Why  string
}

// Leftovers finds what a crash left in the runs' directory: runs that were being
// made or removed, and temporary files, at least age old. A directory whose lease
// is held is being made by a live process and is none.
func (r *Runs) Leftovers(ctx context.Context, now time.Time, age time.Duration) ([]Leftover, error) {
	entries, err := os.ReadDir(r.home.RunsDir())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list the runs: %w", err)
	}
	var found []Leftover
	for _, e := range entries {
		why := leftover(e.Name())
		if why == "" {
			continue
		}
		info, err := e.Info()
		if err != nil || !strings.HasPrefix(e.Name(), removedPrefix) && now.Sub(info.ModTime()) < age {
			continue
		}
		path := filepath.Join(r.home.RunsDir(), e.Name())
		if live, err := leaseIn(path); err != nil || live {
			continue
		}
		found = append(found, Leftover{path, why})
	}
	return found, ctx.Err()
}

func leftover(name string) string {
	switch {
	case strings.HasPrefix(name, newPrefix):
		return "a run that was not made to the end"
	case strings.HasPrefix(name, removedPrefix):
		return "a run that was not removed to the end"
	case strings.HasPrefix(name, ".probe-"), strings.HasPrefix(name, durable.TempPrefix):
		return "a temporary file"
	}
	return ""
}

func leaseIn(path string) (bool, error) {
	d, err := folder.Open(path)
	if errors.Is(err, unix.ENOTDIR) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer d.Close()
	live, _, err := leaseHeld(d)
	return live, err
}

// Sweep deletes what Leftovers found.
func (r *Runs) Sweep(found Leftover) error {
	if err := RemoveAll(found.Path); err != nil {
		return fmt.Errorf("remove %s: %w", found.Path, err)
	}
	return nil
}
