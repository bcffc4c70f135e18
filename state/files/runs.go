// Package files keeps the runs of the host in files, one directory a run:
//
//	<home>/runs/<run_id>/
//	  lease          locked by the process that holds the run; dies with it
//	  run.json       state.Start, written before anything is started
//	  session.json   what the run holds outside this directory, until it is given up
//	  model-usage.json  what its turn took of models so far, as long as session.json
//	  manifest.json  state.Manifest, written when the run is over
//	  …              results, unless the user chose another directory for them
//
// The invariant: a run's directory appears whole, with its lease taken and its
// run.json durable, under an id that no other run has; and it is running
// exactly while some process holds the lease. A run that is neither held nor
// has a manifest was interrupted; another process may take its lease to settle it. Reading takes no lock,
// writes nothing and follows no symbolic link: results may have been written by a container.
//
// It does not promise that two runs given the same output directory at the
// same instant notice each other. A crash while a run is made or removed leaves
// a directory whose name begins with a dot, until Sweep.
package files

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

	"holon/internal/durable"
	"holon/responses/turns"
	"holon/state"
)

const newPrefix = ".new-"

// Runs is the store of a home. It keeps nothing open; all methods are safe for
// concurrent use, by several processes too.
type Runs struct{ home state.Home }

// New returns the store of home.
func New(home state.Home) *Runs { return &Runs{home} }

// NewRun says what is known before a run begins.
type NewRun struct {
	ID        string    // of state.NewRunID
	Name      string    // given by the user, may be empty
	Source    string    // absolute path of what is worked on, may be empty
	OutputDir string    // absolute; missing or empty. "": the run's own directory
	CreatedAt time.Time // required
}

// Create makes the run and takes its lease. On error nothing is left behind.
// Errors about the input are *state.Error (CodeInvalidRunID, CodeRunExists,
// CodeOutputUnusable). The home must have been made by state.MakeHome.
func (r *Runs) Create(ctx context.Context, n NewRun) (*Run, error) {
	if err := ctx.Err(); err != nil { // what follows is quick and is not broken off
		return nil, fmt.Errorf("create the run: %w", err)
	}
	if err := state.CheckRunID(n.ID); err != nil {
		return nil, err
	}
	dir := r.home.RunDir(n.ID)
	output, undo, err := makeOutput(n.OutputDir, dir)
	if err != nil {
		return nil, err
	}
	start := state.Start{
		Schema: state.StartSchema, RunID: n.ID, Name: n.Name, CreatedAt: turns.At(n.CreatedAt),
		OutputDir: output, Source: n.Source, PID: os.Getpid(),
	}
	lease, err := r.place(start, dir)
	if err != nil {
		return nil, errors.Join(err, undo())
	}
	return &Run{start: start, dir: dir, lease: lease}, nil
}

// place makes the run's directory whole under a temporary name, and renames it to dir.
func (r *Runs) place(start state.Start, dir string) (lease *os.File, err error) {
	text, err := start.Encode()
	if err != nil {
		return nil, err
	}
	temp, err := os.MkdirTemp(r.home.RunsDir(), newPrefix)
	if err == nil && filepath.Dir(dir) != r.home.RunsDir() { // of a part of a run
		err = os.MkdirAll(filepath.Dir(dir), 0o700)
	}
	if err != nil {
		return nil, fmt.Errorf("make the run's directory: %w", err)
	}
	defer func() {
		if err == nil {
			return
		}
		if lease != nil {
			err = errors.Join(err, lease.Close())
		}
		lease, err = nil, errors.Join(err, os.RemoveAll(temp))
	}()
	if lease, err = takeLease(filepath.Join(temp, state.LeaseFile)); err != nil {
		return lease, err
	}
	if err = durable.WriteFile(filepath.Join(temp, state.StartFile), text, 0o600); err != nil {
		return lease, err
	}
	if err = os.Rename(temp, dir); err != nil {
		if errors.Is(err, fs.ErrExist) || errors.Is(err, syscall.ENOTEMPTY) {
			err = &state.Error{Code: state.CodeRunExists, Param: "run",
				Message: start.RunID + " is there already", Hint: "use another id"}
		}
		return lease, err
	}
	temp = dir // what an error from here on must remove
	return lease, durable.SyncDir(filepath.Dir(dir))
}

// makeOutput makes or checks the directory that the user chose. undo removes
// what was made. Results mixed with other files would be listed as results.
func makeOutput(output, dir string) (path string, undo func() error, err error) {
	if output == "" {
		return dir, func() error { return nil }, nil
	}
	bad := func(hint, format string, args ...any) error {
		return &state.Error{Code: state.CodeOutputUnusable, Param: "--output", Hint: hint,
			Message: fmt.Sprintf(format, args...)}
	}
	const remedy = "choose a directory that is empty or does not exist"
	if !filepath.IsAbs(output) {
		return "", nil, bad("give an absolute path", "the output directory %.200q is not an absolute path", output)
	}
	made := false
	err = os.Mkdir(output, 0o755)
	switch {
	case err == nil:
		made = true
	case errors.Is(err, fs.ErrNotExist):
		return "", nil, bad("make its parent first", "the parent of the output directory %.200q does not exist", output)
	case !errors.Is(err, fs.ErrExist):
		return "", nil, bad(remedy, "the output directory can't be made: %v", err)
	}
	entries, err := os.ReadDir(output)
	if err != nil {
		return "", nil, bad(remedy, "the output directory can't be read: %v", err)
	}
	if len(entries) > 0 {
		return "", nil, bad(remedy, "the output directory %.200q holds %q", output, entries[0].Name())
	}
	resolved, err := filepath.EvalSymlinks(output) // engines mount no links
	if err != nil {
		return "", nil, bad(remedy, "the output directory can't be read: %v", err)
	}
	return resolved, func() error {
		if !made {
			return nil
		}
		return os.Remove(resolved)
	}, nil
}

// ids returns the ids of all runs. No home means no runs.
func (r *Runs) ids() ([]string, error) {
	entries, err := os.ReadDir(r.home.RunsDir())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list the runs: %w", err)
	}
	var ids []string
	for _, entry := range entries {
		if entry.IsDir() && state.CheckRunID(entry.Name()) == nil {
			ids = append(ids, entry.Name())
		}
	}
	return ids, nil
}

// List returns the runs, the newest first. A run that can't be read is in the list, with its Problem.
func (r *Runs) List(ctx context.Context) ([]*Entry, error) { return r.each(ctx, readEntry) }

// each returns what read makes of the runs, the newest first.
func (r *Runs) each(ctx context.Context, read func(id, dir string) (*Entry, error)) ([]*Entry, error) {
	ids, err := r.ids()
	if err != nil {
		return nil, err
	}
	entries := make([]*Entry, 0, len(ids))
	for _, id := range ids {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("list the runs: %w", err)
		}
		entry, err := read(id, r.home.RunDir(id))
		if errors.Is(err, fs.ErrNotExist) { // removed meanwhile
			continue
		}
		if err != nil {
			return nil, err
		}
		entries = append(entries, entry)
	}
	slices.SortStableFunc(entries, func(a, b *Entry) int { return b.created().Compare(a.created()) })
	return entries, nil
}

// created is when the run began, as well as it is known.
func (e *Entry) created() time.Time {
	if e.Start != nil {
		return e.Start.CreatedAt.Time()
	}
	return e.Seen
}

// Open returns the run with an id. Errors are *state.Error (CodeInvalidRunID, CodeRunNotFound).
func (r *Runs) Open(_ context.Context, id string) (*Entry, error) {
	if err := state.CheckRunID(id); err != nil {
		return nil, err
	}
	entry, err := readEntry(id, r.home.RunDir(id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, notFound(id, listRuns)
	}
	return entry, err
}
