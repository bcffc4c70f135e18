package patch

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"path"
	"strconv"

	"golang.org/x/sys/unix"
)

// The journal is a file at the top of the working tree while files change. It
// gets its second name when all have changed; from then on the change is made
// and only what was replaced has to go. Both have the form of the names of the
// other files of the moment, so that whoever passes over those passes over them.
const (
	journalName  = ".holon-000000000000-0"
	doneName     = ".holon-000000000000-1"
	journalDraft = ".holon-000000000000-2"

	maxJournalBytes = 64 << 20
)

// record says what a commit does: enough to undo it, and to tell what it has
// written from what somebody else has.
type record struct {
	Version int      `json:"version"`
	Prefix  string   `json:"prefix"` // of the names of the moment
	Dirs    []string `json:"dirs"`   // that are made, outermost first
	Steps   []step   `json:"steps"`
}

// step is what happens to one path.
type step struct {
	Path  string    `json:"path"`
	Temp  int       `json:"temp,omitempty"`  // number of the new content's name; 0 for a removal
	Aside int       `json:"aside,omitempty"` // number of the name of what was there; 0 for nothing
	New   *identity `json:"new,omitempty"`   // the new content, once it is written
}

// identity recognises a file that nobody has touched since.
type identity struct {
	Dev   uint64 `json:"dev"`
	Ino   uint64 `json:"ino"`
	Size  int64  `json:"size"`
	Mtime int64  `json:"mtime_ns"`
}

func identify(s *status) *identity {
	return &identity{Dev: s.Dev, Ino: s.Ino, Size: s.Size, Mtime: s.Mtim.Nano()}
}

func (id *identity) is(s *status) bool { return id != nil && *id == *identify(s) }

var momentPrefix = lazy(`^\.holon-[0-9a-f]{12}-$`)

// base is the name of the moment with number n, name its path.
func (r *record) base(n int) string { return r.Prefix + strconv.Itoa(n) }

func (r *record) name(s step, n int) string { return path.Join(path.Dir(s.Path), r.base(n)) }

// save makes r the journal.
func (t *tree) save(r *record) error {
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if err := t.root.remove(journalDraft); err != nil && !missing(err) {
		return err
	}
	f, err := t.root.create(journalDraft, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err == nil {
		err = t.root.replace(journalDraft, journalName)
	}
	if err != nil {
		_ = t.root.remove(journalDraft)
	}
	return err
}

// read returns the record in the file p; nil where there is none that could be
// this tool's.
func (t *tree) read(p string) *record {
	f, err := t.root.open(p)
	if err != nil {
		return nil
	}
	defer f.Close()
	if fi, err := f.Stat(); err != nil || !fi.Mode().IsRegular() {
		return nil
	}
	data, err := io.ReadAll(io.LimitReader(f, maxJournalBytes))
	if err != nil {
		return nil
	}
	var r record
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if dec.Decode(&r) != nil || r.Version != 1 || !momentPrefix().MatchString(r.Prefix) ||
		r.Prefix == journalName[:len(r.Prefix)] {
		return nil
	}
	for _, dir := range r.Dirs {
		if p, bad := t.clean(dir); bad != nil || p != dir {
			return nil
		}
	}
	for _, s := range r.Steps {
		if p, bad := t.clean(s.Path); bad != nil || p != s.Path || s.Temp < 0 || s.Aside < 0 {
			return nil
		}
	}
	return &r
}

// recover settles what a call that was killed has left: a change that was made
// is tidied up after, any other is undone. It returns what to tell the model.
func (t *tree) recover() (notes []Diagnostic, err error) {
	if r := t.read(doneName); r != nil {
		t.finish(r)
	}
	if r := t.read(journalName); r != nil {
		kept, err := t.undo(r)
		if err != nil {
			return nil, err
		}
		notes = append(notes, Diagnostic{Kind: "recovered",
			Message: "an earlier patch was interrupted; it was undone before this one began"})
		for _, s := range kept {
			notes = append(notes, Diagnostic{Path: s.Path, Kind: "recovered",
				Message: "was changed since a patch was interrupted and stays; what it was before is in " +
					r.name(s, s.Aside)})
		}
	}
	for _, name := range []string{journalName, doneName, journalDraft} {
		if _, err := t.root.lstat(name); err == nil {
			if err := t.root.remove(name); err != nil {
				return nil, err
			}
		}
	}
	return notes, nil
}

// undo puts everything back that r says was changed, in whatever state it is.
// What somebody else has changed since is kept, and returned.
func (t *tree) undo(r *record) (kept []step, err error) {
	var errs []error
	try := func(err error) {
		if err != nil && !missing(err) {
			errs = append(errs, err)
		}
	}
	for i := len(r.Steps) - 1; i >= 0; i-- {
		s := r.Steps[i]
		if s.Temp == 0 {
			continue
		}
		try(t.root.remove(r.name(s, s.Temp)))
		now, err := t.root.lstat(s.Path)
		switch {
		case err != nil && !missing(err):
			try(err)
		case s.Aside == 0 && err == nil && s.New.is(now):
			try(t.root.remove(s.Path))
		case s.Aside != 0 && !t.restore(r, s, now, try):
			kept = append(kept, s)
		}
	}
	for i := len(r.Dirs) - 1; i >= 0; i-- {
		if err := t.root.rmdir(r.Dirs[i]); !errors.Is(err, unix.ENOTEMPTY) && !errors.Is(err, unix.EEXIST) {
			try(err)
		}
	}
	for i := len(r.Steps) - 1; i >= 0; i-- {
		s := r.Steps[i]
		if s.Temp != 0 {
			continue
		}
		now, err := t.root.lstat(s.Path)
		if err != nil && !missing(err) {
			try(err)
		} else if !t.restore(r, s, now, try) {
			kept = append(kept, s)
		}
	}
	return kept, errors.Join(errs...)
}

// restore gives what was aside its name back. It reports false where somebody
// else's file, now, has it.
func (t *tree) restore(r *record, s step, now *status, try func(error)) bool {
	aside := r.name(s, s.Aside)
	was, err := t.root.lstat(aside)
	switch {
	case err != nil:
		try(err) // missing: nothing was put aside
	case !was.is(unix.S_IFREG):
	case now == nil:
		try(t.root.rename(r.base(s.Aside), s.Path))
	case was.same(now):
		try(t.root.remove(aside))
	case s.New.is(now):
		try(t.root.replace(r.base(s.Aside), s.Path))
	default:
		return false
	}
	return true
}

// finish takes away what is no longer needed. The change is made, so what cannot
// be taken away is only untidy.
func (t *tree) finish(r *record) {
	for _, s := range r.Steps {
		if s.Aside != 0 {
			_ = t.root.remove(r.name(s, s.Aside))
		}
	}
	for _, s := range r.Steps {
		if s.Temp != 0 {
			continue
		}
		// Like git: a directory goes with its last file.
		for dir := path.Dir(s.Path); dir != "."; dir = path.Dir(dir) {
			if err := t.root.rmdir(dir); err != nil && !missing(err) {
				break
			}
		}
	}
	_ = t.root.remove(doneName)
}

// missing reports that there is nothing at a path, for whatever reason.
func missing(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ENAMETOOLONG)
}
