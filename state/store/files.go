package store

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"holon/internal/durable"
	"holon/state"
)

// Unit is a directory that is kept as a whole.
type Unit struct {
	Key     string // "agents/ID" or "sessions/ID"; a part of names of objects and of files
	Dir     string // absolute
	Private string // the path within Dir of a directory that no container sees; "." is all of it
	// Skip leaves out a path within Dir, with what is beneath it.
	Skip func(path string) bool
}

// Options of Files. All are needed.
type Options struct {
	Bucket Bucket
	// Notes is a directory of this host's own, in which it keeps what it has saved last.
	Notes string
	// Fence is that of this process's lease of a unit, 0 when it has none.
	Fence func(key string) int64
	Log   *slog.Logger
	Now   func() time.Time
}

// Files keeps the files of units in a bucket. Its methods are safe for concurrent use; those about one unit wait for
// each other.
type Files struct {
	opts Options

	mu       sync.Mutex
	units    map[string]*held
	problems map[string]error // why units could not be saved or loaded when that was tried last
}

// held is what is known of a unit.
type held struct {
	mu     sync.Mutex // held by what loads, saves or sweeps
	loaded bool       // the directory goes on from base
	base   *manifest  // in the bucket; nil: none
	etag   string
	note   note
}

// note is what this host has of a unit: a file below Options.Notes.
type note struct {
	// Revisions are those of manifests of which the directory is the continuation: the one in the bucket, and one that
	// was about to be written.
	Revisions []string `json:"revisions"`
	// Files are those whose content is in the bucket.
	Files map[fileName]seen `json:"files"`
}

// New returns Files that know nothing yet.
func New(o Options) *Files {
	return &Files{opts: o, units: make(map[string]*held), problems: make(map[string]error)}
}

func (f *Files) unit(key string) *held {
	f.mu.Lock()
	defer f.mu.Unlock()
	h := f.units[key]
	if h == nil {
		h = new(held)
		f.units[key] = h
	}
	return h
}

// Problem is why files of a unit could not be saved or loaded when that was tried last, nil when all could. What is
// about one unit alone comes last.
func (f *Files) Problem() (err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, problem := range f.problems {
		if err == nil || !OfUnit(problem) {
			err = problem
		}
	}
	return err
}

// OfUnit reports whether an error is about one unit alone: others can be saved and loaded.
func OfUnit(err error) bool { return state.IsCode(err, CodeTooMuch) || state.IsCode(err, CodeDamaged) }

// report notes how it went with a unit, and returns err.
func (f *Files) report(key string, err error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err == nil {
		delete(f.problems, key)
		return nil
	}
	if !errors.Is(err, context.Canceled) {
		f.problems[key] = err
	}
	return err
}

// fence is that of this process's lease of a unit.
func (f *Files) fence(key string) (int64, error) {
	if n := f.opts.Fence(key); n > 0 {
		return n, nil
	}
	return 0, lost(key)
}

func lost(key string) error {
	return &state.Error{Code: CodeLost, Param: "store", Message: "another holon serve has the files of " + key,
		Hint: "start this holon serve again"}
}

// manifest reads what the bucket has of a unit, nil when it has nothing.
func (f *Files) manifest(ctx context.Context, key string) (m *manifest, etag string, err error) {
	ctx, cancel := context.WithTimeout(ctx, within(maxManifest))
	defer cancel()
	body, etag, err := f.opts.Bucket.Get(ctx, key+"/manifest")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, "", nil
	}
	if err != nil {
		return nil, "", err
	}
	defer body.Close()
	m, err = decode(key, body)
	if _, typed := errors.AsType[*state.Error](err); err != nil && !typed {
		err = damaged("the manifest of "+key, err)
	}
	return m, etag, err
}

// write writes a manifest of this process, unless a later holder wrote one. That of an earlier one is replaced: its
// lease was lost, and nothing that it settled is in the ledger. The note is written first.
func (f *Files) write(ctx context.Context, u Unit, h *held, m *manifest, n note) error {
	m.Schema, m.Unit, m.Revision, m.SavedAt = schema, u.Key, rand.Text(), f.opts.Now().UTC()
	data, err := m.encode()
	if err != nil {
		return err
	}
	if n.Revisions != nil {
		n.Revisions = append(n.Revisions, m.Revision)
		if err := f.writeNote(u.Key, n); err != nil {
			return err
		}
	}
	for {
		etag, err := f.opts.Bucket.PutIf(ctx, u.Key+"/manifest", data, h.etag)
		if err == nil {
			h.base, h.etag, h.note = m, etag, n
			return nil
		}
		if !errors.Is(err, errChanged) {
			return err
		}
		there, etag, err := f.manifest(ctx, u.Key)
		switch {
		case err != nil:
			return err
		case there != nil && there.Fence > m.Fence:
			return lost(u.Key)
		case there != nil && there.Revision == m.Revision: // the answer was lost
			h.base, h.etag, h.note = m, etag, n
			return nil
		case etag == h.etag:
			return damaged("the manifest of "+u.Key+" cannot be replaced, although it is as it was", nil)
		}
		h.etag = etag
	}
}

func (f *Files) notePath(key string) string { return filepath.Join(f.opts.Notes, key+".json") }

func (f *Files) writeNote(key string, n note) error {
	data, err := json.Marshal(n)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(f.notePath(key)), 0o700)
	}
	if err == nil {
		err = durable.WriteFile(f.notePath(key), data, 0o600)
	}
	if err != nil {
		return fmt.Errorf("note what is saved of %s: %w", key, err)
	}
	return nil
}

// readNote reads what this host has of a unit. One that cannot be read says nothing.
func (f *Files) readNote(key string) (n note) {
	data, err := durable.ReadFile(f.notePath(key), maxManifest)
	if err == nil {
		err = json.Unmarshal(data, &n)
	}
	if err != nil {
		return note{}
	}
	return n
}

// Open opens a file of a unit that another process has, as it was saved last: a copy without a name. fs.ErrNotExist
// when it is not there.
func (f *Files) Open(ctx context.Context, key, name string) (*os.File, error) {
	m, _, err := f.manifest(ctx, key)
	if err != nil {
		return nil, err
	}
	if m != nil {
		i := slices.IndexFunc(m.Entries, func(e entry) bool { return string(e.Path) == name && e.Kind == kindFile })
		if i >= 0 {
			return f.copyOf(ctx, key, &m.Entries[i])
		}
	}
	return nil, missing(name)
}

func (f *Files) copyOf(ctx context.Context, key string, e *entry) (*os.File, error) {
	if err := os.MkdirAll(f.opts.Notes, 0o700); err != nil {
		return nil, fmt.Errorf("make a copy of a file: %w", err)
	}
	file, err := os.CreateTemp(f.opts.Notes, durable.TempPrefix)
	if err != nil {
		return nil, fmt.Errorf("make a copy of a file: %w", err)
	}
	err = os.Remove(file.Name())
	if err == nil {
		err = f.fetch(ctx, key, e, file)
	}
	if err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// Leave forgets units whose leases go to another process: they are loaded anew when they come back.
func (f *Files) Leave(is func(key string) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	maps.DeleteFunc(f.units, func(key string, _ *held) bool { return is(key) })
}

// Units lists the units in the bucket whose keys begin with prefix.
func (f *Files) Units(ctx context.Context, prefix string) (keys []string, err error) {
	for o, err := range f.opts.Bucket.List(ctx, prefix) {
		if err != nil {
			return nil, err
		}
		if key, ok := strings.CutSuffix(o.Name, "/manifest"); ok {
			keys = append(keys, key)
		}
	}
	return keys, nil
}

// Remove removes all that the bucket has of a unit of this process.
func (f *Files) Remove(ctx context.Context, key string) error {
	h := f.unit(key)
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, err := f.fence(key); err != nil {
		return err
	}
	err := f.opts.Bucket.Delete(ctx, key+"/manifest")
	if err == nil {
		err = f.removeObjects(ctx, key, func(Object, string, int64) bool { return true })
	}
	if err == nil {
		h.loaded, h.base, h.etag, h.note = false, nil, "", note{}
		err = os.Remove(f.notePath(key))
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return f.report(key, err)
}

// keepFor is how long an object stays that no manifest names any more.
const keepFor = 24 * time.Hour

// Sweep removes objects that the units of this process do not need any more.
func (f *Files) Sweep(ctx context.Context) error {
	f.mu.Lock()
	var keys []string
	for key, h := range f.units {
		if h != nil {
			keys = append(keys, key)
		}
	}
	f.mu.Unlock()
	var errs []error
	for _, key := range keys {
		errs = append(errs, f.sweep(ctx, key))
	}
	return errors.Join(errs...)
}

func (f *Files) sweep(ctx context.Context, key string) error {
	h := f.unit(key)
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.loaded {
		return nil
	}
	fence, err := f.fence(key)
	if err != nil {
		return err
	}
	there, _, err := f.manifest(ctx, key)
	if err != nil || there == nil || h.base == nil {
		return err
	}
	if there.Fence != fence {
		return lost(key)
	}
	needed := make(map[string]bool)
	for _, m := range []*manifest{there, h.base} { // two where the answer to a write was lost
		for i := range m.Entries {
			needed[m.Entries[i].object()] = true
		}
	}
	for _, s := range h.note.Files { // also what the next manifest will name
		needed[(&entry{SHA256: s.SHA256, Fence: s.Fence}).object()] = true
	}
	old := f.opts.Now().Add(-keepFor)
	return f.removeObjects(ctx, key, func(o Object, name string, by int64) bool {
		return by <= fence && !needed[name] && o.Changed.Before(old)
	})
}

// removeObjects removes the objects of a unit for which is reports true; by is the fence under which one was written.
func (f *Files) removeObjects(ctx context.Context, key string, is func(o Object, name string, by int64) bool) error {
	for o, err := range f.opts.Bucket.List(ctx, key+"/objects/") {
		if err != nil {
			return err
		}
		name := strings.TrimPrefix(o.Name, key+"/")
		_, number, _ := strings.Cut(name, "-")
		by, err := strconv.ParseInt(number, 10, 64)
		if err != nil || !is(o, name, by) {
			continue
		}
		if err := f.opts.Bucket.Delete(ctx, o.Name); err != nil {
			return err
		}
	}
	return nil
}
