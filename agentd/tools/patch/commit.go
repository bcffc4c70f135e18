package patch

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"holon/agentd/tools"
)

// commit makes the staged state real. A journal says what is going to happen;
// then files that go are renamed aside, new content is written beside its place,
// and only then does anything change under its own name. The last step is one
// rename, of the journal. The first failure undoes everything; so does the next
// call where this one is killed.
func (t *tree) commit() *tools.Error {
	r, bad := t.plan()
	if bad != nil {
		return bad
	}
	journaled, err := t.begin(r)
	if err != nil {
		bad = writeError(journalName, err)
		bad.Message += "; nothing was changed"
		return bad
	}
	bad = t.carryOut(r, journaled)
	if bad == nil && journaled {
		if err := t.root.replace(journalName, doneName); err != nil {
			bad = writeError(doneName, err)
		}
	}
	if bad == nil {
		t.finish(r)
		return nil
	}
	kept, err := t.undo(r)
	switch {
	case err != nil:
		bad.Message += "; the tree could not be put back in order: " + tools.Clip(err.Error(), 500)
		bad.RecoveryHint = "look at git status before going on"
	case len(kept) > 0:
		bad.Message += fmt.Sprintf("; something else has changed %s at the same moment, so that what it was before is in %s", visible(kept[0].Path), r.name(kept[0], kept[0].Aside))
		bad.RecoveryHint = "look at both files before going on"
	default:
		bad.Message += "; nothing was changed"
	}
	if err == nil && journaled {
		_ = t.root.remove(journalName)
	}
	return bad
}

// plan says what is to be done, and checks that every file is still what was
// read.
func (t *tree) plan() (*record, *tools.Error) {
	var id [6]byte
	rand.Read(id[:]) // never fails
	id[0] |= 1       // not the journal's name
	r := &record{Version: 1, Prefix: ".holon-" + hex.EncodeToString(id[:]) + "-"}
	n := 0
	next := func() int { n++; return n }
	known := make(map[string]bool)
	for _, e := range t.order {
		if !e.differs() {
			continue
		}
		if bad := t.unchanged(e); bad != nil {
			return nil, bad
		}
		s := step{Path: e.path}
		if e.before != nil {
			s.Aside = next()
		}
		if e.exists {
			s.Temp = next()
			if err := t.missingDirs(r, e.path, known); err != nil {
				return nil, unreadable(e.path, err)
			}
		}
		r.Steps = append(r.Steps, s)
	}
	return r, nil
}

// missingDirs adds the directories to r that p needs and that are not there, or
// whose name a file has that goes.
func (t *tree) missingDirs(r *record, p string, known map[string]bool) error {
	for i, c := range p {
		if c != '/' || known[p[:i]] {
			continue
		}
		dir := p[:i]
		known[dir] = true
		if fi, err := t.root.lstat(dir); err != nil && !missing(err) {
			return err
		} else if err != nil || !fi.is(unix.S_IFDIR) {
			r.Dirs = append(r.Dirs, dir)
		}
	}
	return nil
}

// begin writes the journal. A tree whose top cannot be written to goes without.
func (t *tree) begin(r *record) (bool, error) {
	err := t.save(r)
	if errors.Is(err, unix.EACCES) || errors.Is(err, unix.EROFS) || errors.Is(err, unix.EPERM) {
		return false, nil
	}
	return err == nil, err
}

func (t *tree) carryOut(r *record, journaled bool) *tools.Error {
	for _, s := range r.Steps {
		if s.Temp == 0 {
			if err := t.putAside(r, s); err != nil {
				return writeError(s.Path, err)
			}
		}
	}
	for _, dir := range r.Dirs {
		if err := t.root.mkdir(dir); err != nil && !errors.Is(err, fs.ErrExist) {
			return writeError(dir, err)
		}
	}
	for i := range r.Steps {
		if s := &r.Steps[i]; s.Temp != 0 {
			if err := t.write(r, s); err != nil {
				return writeError(s.Path, err)
			}
		}
	}
	if journaled {
		if err := t.save(r); err != nil {
			return writeError(journalName, err)
		}
	}
	for _, s := range r.Steps {
		if s.Temp == 0 {
			continue
		}
		if bad := t.unchanged(t.entries[s.Path]); bad != nil {
			return writeError(s.Path, errors.New("it was changed by something else at the same moment"))
		}
		if err := t.replace(r, s); err != nil {
			return writeError(s.Path, err)
		}
	}
	return nil
}

// unchanged checks that e is still what was read.
func (t *tree) unchanged(e *entry) *tools.Error {
	now, err := t.root.lstat(e.path)
	switch {
	case err != nil && !missing(err):
		return unreadable(e.path, err)
	case (err == nil) != (e.before != nil), err == nil && *identify(now) != *identify(e.before):
		return changedMeanwhile(e.path)
	}
	return nil
}

// putAside takes the name from what is to go.
func (t *tree) putAside(r *record, s step) error {
	aside := r.name(s, s.Aside)
	return t.root.rename(path.Base(s.Path), aside)
}

// write puts new content into a file beside its place.
func (t *tree) write(r *record, s *step) error {
	e := t.entries[s.Path]
	// A new file gets its permissions by way of the umask, as if an editor had
	// made it.
	perm := fs.FileMode(0o666)
	if e.mode&0o111 != 0 {
		perm = 0o777
	}
	temp := r.name(*s, s.Temp)
	f, err := t.root.create(temp, perm)
	if err != nil {
		return err
	}
	_, err = f.WriteString(e.data)
	if e.before != nil {
		_ = f.Chown(int(e.before.Uid), int(e.before.Gid)) // ours already, or not ours to give
	}
	if err == nil && e.given {
		err = f.Chmod(e.mode)
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	now, err := t.root.lstat(temp)
	if err == nil {
		s.New = identify(now)
	}
	return err
}

// replace gives new content its name. What has the name so far keeps a second
// one until the end.
func (t *tree) replace(r *record, s step) error {
	if s.Aside == 0 {
		return t.root.rename(r.base(s.Temp), s.Path)
	}
	if err := t.root.link(s.Path, r.base(s.Aside)); err != nil {
		// No hard links here. The name is missing for an instant then.
		if err := t.putAside(r, s); err != nil {
			return err
		}
	}
	return t.root.replace(r.base(s.Temp), s.Path)
}

func writeError(p string, err error) *tools.Error {
	e := &tools.Error{Kind: KindWrite, Message: fmt.Sprintf("%s cannot be written: %v", visible(p), cause(err)),
		Details:      map[string]any{"path": p},
		RecoveryHint: "check the permissions of the file and its directory"}
	switch {
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		e.RecoveryHint = "the disk is full; remove files that are not needed, then repeat the call"
		e.Retryable = true
	case errors.Is(err, unix.ENAMETOOLONG):
		e.RecoveryHint = "use a shorter name than " + strconv.Itoa(strings.Count(path.Base(p), "")-1) + " characters"
	}
	return e
}
