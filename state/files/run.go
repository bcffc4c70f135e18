package files

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"holon/internal/durable"
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

// openRun opens the directory of a run; fs.ErrNotExist if there is none.
func openRun(id, dir string) (*os.File, error) {
	d, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if errors.Is(err, unix.ENOTDIR) { // a file or a link, which is no run
		err = fs.ErrNotExist
	}
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", id, err)
	}
	return d, nil
}

// readEntry reads the run in dir; fs.ErrNotExist if there is none.
func readEntry(id, dir string) (*Entry, error) {
	d, err := openRun(id, dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	e := &Entry{ID: id, Dir: dir}

	// The lease first: a run that is found released has written its manifest.
	var problems []error
	if e.Live, e.Seen, err = leaseHeld(d); err != nil {
		problems = append(problems, fmt.Errorf("look at the lease of %s: %w", id, err))
	}
	text, err := readFile(d, state.StartFile, maxStart)
	if err == nil {
		e.Start, err = state.DecodeStart(text)
	}
	if err != nil {
		problems = append(problems, fmt.Errorf("read %s of %s: %w", state.StartFile, id, err))
	}
	text, err = readFile(d, state.ManifestFile, state.MaxManifest)
	if err == nil {
		e.Manifest, err = state.DecodeManifest(text)
	}
	if err == nil && e.Manifest.RunID != id {
		err = fmt.Errorf("it is of %s", e.Manifest.RunID)
		e.Manifest = nil
	}
	if e.Damaged = err != nil && !errors.Is(err, fs.ErrNotExist); e.Damaged {
		problems = append(problems, fmt.Errorf("read %s of %s: %w", state.ManifestFile, id, err))
	}
	e.Problem = errors.Join(problems...)
	return e, nil
}

const maxStart = 64 << 10

// readFile reads the regular file name of dir, at most limit bytes. It follows
// no link and does not wait for a writer.
func readFile(dir *os.File, name string, limit int64) ([]byte, error) {
	f, info, err := openRegular(dir, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info.Size() > limit {
		return nil, fmt.Errorf("it has %d bytes, at most %d are allowed", info.Size(), limit)
	}
	return io.ReadAll(io.LimitReader(f, limit))
}

var errNotRegular = errors.New("it is not a regular file")

// openRegular opens name, which is one element of a path, for reading if it is
// a regular file. os.Root would follow links within dir.
func openRegular(dir *os.File, name string) (*os.File, fs.FileInfo, error) {
	f, err := openAt(dir, name, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errNotRegular
	}
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return f, info, nil
}

// openAt opens name, one element of a path, for reading unless flags say more.
func openAt(dir *os.File, name string, flags int) (*os.File, error) {
	for {
		fd, err := unix.Openat(int(dir.Fd()), name, unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC|flags, 0)
		switch err {
		case nil:
			return os.NewFile(uintptr(fd), filepath.Join(dir.Name(), name)), nil
		case unix.EINTR:
			continue
		case unix.ELOOP, unix.ENXIO: // a link; a socket
			return nil, errNotRegular
		}
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
}
