package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"holon/internal/bounded"
	"holon/internal/durable"
	"holon/internal/folder"
	"holon/state"

	"golang.org/x/sys/unix"
)

// Run is a run that this process holds. All methods are safe for concurrent
// use.
type Run struct {
	start state.Start
	dir   string

	mu    sync.Mutex
	lease *os.File // nil when released
}

// ID returns the run's id.
func (r *Run) ID() string { return r.start.RunID }

// Dir returns the run's own directory.
func (r *Run) Dir() string { return r.dir }

// OutputDir returns the directory of its results: Dir, unless the user chose
// another.
func (r *Run) OutputDir() string { return r.start.OutputDir }

// WriteManifest records the end of the run, durably, in the output directory
// and, last, in the run's own. It may be called again to correct the record.
// A manifest that is not valid or of another run is refused with
// state.CodeManifestInvalid, any after Close with state.CodeNotHeld.
func (r *Run) WriteManifest(m *state.Manifest) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lease == nil {
		return notHeld(r.ID())
	}
	if m.RunID != r.ID() {
		return &state.Error{Code: state.CodeManifestInvalid, Param: "run_id",
			Message: fmt.Sprintf("manifest of run %.80q given to %s", m.RunID, r.ID()),
			Hint:    "write it to its own run"}
	}
	text, err := m.Encode()
	if err != nil {
		return err
	}
	if r.OutputDir() != r.dir {
		if err := durable.WriteFile(filepath.Join(r.OutputDir(), state.ManifestFile), text, 0o644); err != nil {
			return err
		}
	}
	return durable.WriteFile(filepath.Join(r.dir, state.ManifestFile), text, 0o600)
}

func notHeld(id string) error {
	return &state.Error{Code: state.CodeNotHeld, Param: "run", Message: id + " is not held any more",
		Hint: "write the record before the run is closed"}
}

// Close releases the lease. A run that has no manifest by then shows as
// interrupted. Further calls do nothing.
func (r *Run) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lease == nil {
		return nil
	}
	err := r.lease.Close()
	r.lease = nil
	return err
}

// Beat notes that the holder lives: Entry.Seen tells when it did last. The time
// is the file system's.
func (r *Run) Beat() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lease == nil {
		return nil
	}
	if err := unix.Futimes(int(r.lease.Fd()), nil); err != nil {
		return fmt.Errorf("touch the run's lease: %w", err)
	}
	return nil
}

// Remove deletes the run's own directory with all that is in it, and closes the
// run. Results in a directory that the user chose stay. The directory vanishes
// from the list at once; a crash meanwhile leaves one that begins with "."
// and that Runs.Sweep deletes.
func (r *Run) Remove() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lease == nil {
		return notHeld(r.start.RunID)
	}
	away := filepath.Join(filepath.Dir(r.dir), removedPrefix+r.start.RunID)
	err := os.Rename(r.dir, away)
	if err == nil {
		err = RemoveAll(away)
	}
	err = errors.Join(err, r.lease.Close())
	r.lease = nil
	if err != nil {
		return fmt.Errorf("remove %s: %w", r.start.RunID, err)
	}
	return nil
}

// Entry is what the files of a run said when they were read.
type Entry struct {
	ID       string
	Dir      string
	Live     bool            // a process holds it
	Seen     time.Time       // when its holder was last known to live
	Start    *state.Start    // nil where run.json can't be read
	Manifest *state.Manifest // nil where there is none or it can't be read
	Damaged  bool            // there is a manifest that can't be read
	Problem  error           // what can't be read, nil if all is well
}

// Status returns the recorded end, running while the run is live without one,
// and interrupted for a run that ended without a record.
func (e *Entry) Status() state.Status {
	switch {
	case e.Manifest != nil:
		return e.Manifest.Status
	case e.Live:
		return state.StatusRunning
	}
	return state.StatusInterrupted
}

// OutputDir returns the directory of the run's results.
func (e *Entry) OutputDir() string {
	if e.Start != nil && filepath.IsAbs(e.Start.OutputDir) {
		return e.Start.OutputDir
	}
	return e.Dir
}

// readEntry reads the run in dir; fs.ErrNotExist if there is none.
func readEntry(id, dir string) (*Entry, error) {
	d, err := openRun(id, dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	e := &Entry{ID: id, Dir: dir}
	problem := func(doing, name string, err error) error {
		if err == nil {
			return nil
		}
		return fmt.Errorf("%s %s of %s: %w", doing, name, id, err)
	}
	// The lease first: a run that is found released has written its manifest.
	e.Live, e.Seen, err = leaseHeld(d)
	leaseErr := problem("look at", "the lease", err)
	e.Start, err = readStart(d)
	startErr := problem("read", state.StartFile, err)
	text, err := readFile(d, state.ManifestFile, state.MaxManifest)
	if err == nil {
		e.Manifest, err = state.DecodeManifest(text)
	}
	if err == nil && e.Manifest.RunID != id {
		err = fmt.Errorf("it is of %s", e.Manifest.RunID)
		e.Manifest = nil
	}
	if errors.Is(err, fs.ErrNotExist) { // it has not ended
		err = nil
	}
	e.Damaged = err != nil
	e.Problem = errors.Join(leaseErr, startErr, problem("read", state.ManifestFile, err))
	return e, nil
}

// openRun opens the directory of a run; fs.ErrNotExist if there is none.
func openRun(id, dir string) (folder.Dir, error) {
	d, err := folder.Open(dir)
	if errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) { // a file or a link, not a run
		err = fs.ErrNotExist
	}
	if err != nil {
		return d, fmt.Errorf("open %s: %w", id, err)
	}
	return d, nil
}

const maxStart = 64 << 10

func readStart(d folder.Dir) (*state.Start, error) {
	text, err := readFile(d, state.StartFile, maxStart)
	if err != nil {
		return nil, err
	}
	return state.DecodeStart(text)
}

// readFile reads a file of a run, at most limit bytes.
func readFile(d folder.Dir, name string, limit int64) ([]byte, error) {
	f, _, err := d.OpenFile(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return bounded.ReadAll(f, limit)
}
