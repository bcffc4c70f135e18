package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"holon/internal/roots"
)

// Of the private directory of a unit: what was moved aside, and files that are not complete.
const (
	asideDir    = "moved-aside"
	unfinishedD = "store-new"
)

// skips are the paths that are not kept.
func (u Unit) skips() func(string) bool {
	own := []string{path.Join(u.Private, asideDir), path.Join(u.Private, unfinishedD)}
	return func(name string) bool { return slices.Contains(own, name) || u.Skip(name) }
}

// Load makes the directory of a unit what the bucket has, before anything of it is opened, by a process that has its
// lease; once is enough. A directory that this host saved last is as it was, and so is one of which the bucket has
// nothing. discard is called before a file is changed: it ends what may still use the directory. It may be repeated
// after an error.
func (f *Files) Load(ctx context.Context, u Unit, discard func(ctx context.Context) error) error {
	h := f.unit(u.Key)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.loaded {
		return nil
	}
	return f.report(u.Key, f.load(ctx, u, h, discard))
}

func (f *Files) load(ctx context.Context, u Unit, h *held, discard func(ctx context.Context) error) error {
	fence, err := f.fence(u.Key)
	if err != nil {
		return err
	}
	there, etag, err := f.manifest(ctx, u.Key)
	if err != nil {
		return err
	}
	if there == nil {
		h.loaded, h.base, h.etag, h.note = true, nil, "", note{}
		return nil
	}
	if there.Fence > fence {
		return lost(u.Key)
	}
	was := f.readNote(u.Key)
	ours := slices.Contains(was.Revisions, there.Revision)
	h.base, h.etag = there, etag
	claim := &manifest{Fence: fence, Entries: there.Entries}
	n := note{Files: was.Files}
	if ours {
		n.Revisions = was.Revisions
	}
	if err := f.write(ctx, u, h, claim, n); err != nil || ours {
		h.loaded = err == nil
		return err
	}
	if err := discard(ctx); err != nil {
		return err
	}
	if err := os.MkdirAll(u.Dir, 0o700); err != nil {
		return fmt.Errorf("make the directory to load: %w", err)
	}
	root, err := roots.Open(u.Dir)
	if err != nil {
		return fmt.Errorf("open the directory to load: %w", err)
	}
	defer root.Close()
	l := &loading{Files: f, unit: u, root: root, was: was.Files, now: make([]seen, len(claim.Entries)),
		aside: path.Join(u.Private, asideDir, strconv.FormatInt(f.opts.Now().UnixMilli(), 10))}
	if err := l.all(ctx, claim.Entries); err != nil {
		return err
	}
	n = note{Revisions: []string{claim.Revision}, Files: make(map[fileName]seen)}
	for i, s := range l.now {
		if s.SHA256 != "" {
			n.Files[claim.Entries[i].Path] = s
		}
	}
	if err := f.writeNote(u.Key, n); err != nil {
		return err
	}
	h.note, h.loaded = n, true
	return nil
}

// loading is one call of Load that changes files.
type loading struct {
	*Files
	unit  Unit
	root  *os.Root
	was   map[fileName]seen // what was saved by this host
	now   []seen            // of the entries
	aside string
}

func (l *loading) all(ctx context.Context, entries []entry) error {
	if err := l.clear(ctx, entries); err != nil {
		return err
	}
	unfinished := path.Join(l.unit.Private, unfinishedD)
	if err := errors.Join(l.root.RemoveAll(unfinished), l.root.MkdirAll(unfinished, 0o700)); err != nil {
		return fmt.Errorf("make a directory for files to load: %w", err)
	}
	for i := range entries {
		e := &entries[i]
		if _, err := l.root.Lstat(string(e.Path)); err == nil || e.Kind != kindDir {
			continue
		}
		made := path.Join(unfinished, strconv.Itoa(i))
		if err := errors.Join(l.root.Mkdir(made, 0o700), l.place(made, e)); err != nil {
			return fmt.Errorf("load %s: %w", e.Path, err)
		}
	}
	group, fetching := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for i := range entries {
		group.Go(func() error {
			if err := l.one(fetching, i, &entries[i], path.Join(unfinished, strconv.Itoa(i))); err != nil {
				return fmt.Errorf("load %s: %w", entries[i].Path, err)
			}
			return nil
		})
	}
	err := group.Wait()
	for _, e := range slices.Backward(entries) { // a directory may be closed to its owner
		if err == nil && e.Kind == kindDir {
			err = l.root.Chmod(string(e.Path), fs.FileMode(e.Mode))
		}
	}
	return errors.Join(err, l.root.RemoveAll(unfinished))
}

// clear moves what is not as in the manifest out of the way. What was saved before is removed, the rest moved aside.
func (l *loading) clear(ctx context.Context, entries []entry) error {
	want := make(map[fileName]*entry, len(entries))
	for i := range entries {
		want[entries[i].Path] = &entries[i]
	}
	here, err := scan(ctx, l.root, l.unit)
	if err != nil {
		return err
	}
	for _, f := range slices.Backward(here) { // what is in a directory is before it
		e := want[f.Path]
		saved := l.was[f.Path].same(f.seen)
		switch {
		case f.Kind == kindDir && (e == nil || e.Kind != kindDir):
			if err = l.root.Remove(string(f.Path)); err != nil { // it has something that is left out
				err = aside(l.root, string(f.Path), l.aside)
			}
		case f.Kind == kindDir, e != nil && f.Kind == kindLink && f.entry == *e:
		case e != nil && f.Kind == kindFile && e.Kind == kindFile && (saved && l.was[f.Path].SHA256 == e.SHA256 ||
			l.equal(&f, e)):
		case saved, f.Kind == kindLink:
			err = l.root.Remove(string(f.Path))
		default:
			l.opts.Log.Info("a file that was not saved is moved aside", "unit", l.unit.Key, "path", f.Path, "to", l.aside)
			err = aside(l.root, string(f.Path), l.aside)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// equal reports whether a file that is here has the content of an entry.
func (l *loading) equal(f *found, e *entry) bool {
	if f.Size != e.Size {
		return false
	}
	_ = roots.ReopenIn(l.root, string(f.Path)) // opening it says what is wrong
	in, _, err := roots.OpenFile(l.root, string(f.Path))
	if err != nil {
		return false
	}
	defer in.Close()
	sum := sha256.New()
	_, err = io.Copy(sum, in)
	return err == nil && hex.EncodeToString(sum.Sum(nil)) == e.SHA256
}

// one makes one entry, unless it is there. A file is complete before it has its name.
func (l *loading) one(ctx context.Context, i int, e *entry, unfinished string) error {
	_, err := l.root.Lstat(string(e.Path))
	there := err == nil // clear left what is right
	switch {
	case e.Kind == kindLink && !there:
		return errors.Join(l.root.Symlink(string(e.Target), unfinished), l.place(unfinished, e))
	case e.Kind != kindFile:
		return nil
	case !there:
		out, err := l.root.OpenFile(unfinished, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err == nil {
			to := &sparse{File: out}
			err = errors.Join(l.fetch(ctx, l.unit.Key, e, to), to.end(), out.Close())
		}
		if err == nil {
			err = l.place(unfinished, e)
		}
		if err != nil {
			return err
		}
	}
	at := time.Unix(0, e.Time)
	err = errors.Join(l.root.Chtimes(string(e.Path), at, at), l.root.Chmod(string(e.Path), fs.FileMode(e.Mode)))
	if err != nil {
		return err
	}
	f, err := look(l.root, string(e.Path))
	l.now[i] = f.seen
	l.now[i].SHA256, l.now[i].Fence = e.SHA256, e.Fence
	return err
}

// place gives what is complete its name, and the owner of its directory: the user of a container is given no directory
// that is theirs already.
func (l *loading) place(made string, e *entry) error {
	dir, err := l.root.Lstat(path.Dir(string(e.Path)))
	if err != nil {
		return err
	}
	if st, ok := dir.Sys().(*syscall.Stat_t); ok && os.Geteuid() == 0 {
		err = l.root.Lchown(made, int(st.Uid), int(st.Gid))
	}
	if err != nil {
		return err
	}
	return l.root.Rename(made, string(e.Path))
}

// fetch reads the object of an entry, and refuses one that has another content.
func (f *Files) fetch(ctx context.Context, key string, e *entry, out io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, within(e.Size))
	defer cancel()
	body, _, err := f.opts.Bucket.Get(ctx, key+"/"+e.object())
	if errors.Is(err, fs.ErrNotExist) {
		return damaged(key+" has no object of "+string(e.Path), err)
	}
	if err != nil {
		return err
	}
	defer body.Close()
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(out, sum), io.LimitReader(body, e.Size+1))
	if err == nil && (n != e.Size || hex.EncodeToString(sum.Sum(nil)) != e.SHA256) {
		err = damaged(key+" has another object of "+string(e.Path), nil)
	}
	return err
}
