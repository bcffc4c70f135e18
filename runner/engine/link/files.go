package link

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"sync"
	"time"

	"holon/internal/durable"
	"holon/internal/transfer"
	"holon/runner/engine"
)

// Files keeps the directories of a program and their copies of the host the same. What the host alone changes goes to
// the program; of what the program can write, each side gets what the other changed since they were last the same, and
// where both changed a file the program's counts. Its methods may be called at the same time.
type Files struct {
	eng    Engine
	handle engine.Handle
	link   *Joined // nil: the program cannot be reached
	// Shared says that the host changes what the program can write, too. Else the host's directories have nothing but
	// what the program's have.
	shared bool
	path   string // of the file with same; "": there is none

	mu      sync.Mutex
	client  *transfer.Client     // nil: not connected
	same    map[string]directory // by the path that the program sees
	changed bool                 // since it was kept
}

// directory has files that were the same on both sides, by their paths.
type directory map[string]pair

// pair is how a file looked on each side.
type pair struct{ Host, Program transfer.Entry }

// kept is what is the same as a file has it. It says nothing of another program, whose files are other ones: what that
// one does not have yet would seem to have been removed there.
type kept struct {
	Program string // the ID of its handle
	Same    map[string]directory
}

// Open makes Files of a program, which are reached by a link while it runs. What is the same is kept in the file of a
// path, for another process that goes on with the program; "" keeps it in memory.
func Open(eng Engine, h engine.Handle, link *Joined, shared bool, path string) *Files {
	f := &Files{eng: eng, handle: h, link: link, shared: shared, path: path, same: make(map[string]directory)}
	if data, err := os.Open(path); err == nil {
		defer data.Close()
		var k kept // both sides are compared without it, if it cannot be read
		if gob.NewDecoder(data).Decode(&k) == nil && k.Program == h.ID && k.Same != nil {
			f.same = k.Same
		}
	}
	return f
}

// Close ends what moves files in the container.
func (f *Files) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.disconnect()
}

func (f *Files) disconnect() {
	if f.client != nil {
		_ = f.client.Close() // what it was asked for came or did not
		f.client = nil
	}
}

// Sync brings the mounts up to date while the program runs. quiet says that no command of the program ran when it
// began, so that the program alone can have changed anything since. Beyond limits it is a *transfer.TooMuchError.
func (f *Files) Sync(ctx context.Context, spec engine.Spec, limits transfer.Limits) (quiet bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	err = f.again(ctx, func() error {
		quiet, err = f.sync(ctx, spec, limits)
		return err
	})
	if err != nil {
		err = cut(err, "a copy of the files", f.handle)
	}
	return quiet, errors.Join(err, f.save())
}

// again does something, and once more where the connection was old, or the link ended.
func (f *Files) again(ctx context.Context, do func() error) error {
	known := f.client != nil
	err := do()
	if tooMuch := (*transfer.TooMuchError)(nil); err != nil && (known || f.link.Broken()) && ctx.Err() == nil &&
		!errors.As(err, &tooMuch) {
		f.disconnect()
		err = do()
	}
	if err != nil {
		f.disconnect()
	}
	return err
}

// Changed reports whether the host may have changed something since host and program were the same.
func (f *Files) Changed(ctx context.Context, spec engine.Spec) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range moved(spec) {
		ours, err := transfer.List(ctx, m.Source, spec.Beneath(m.Target), 0)
		if err != nil {
			return false, err
		}
		same, known := f.same[m.Target]
		if !known || !maps.EqualFunc(ours, same, func(our transfer.Entry, was pair) bool { return our == was.Host }) {
			return true, nil
		}
	}
	return false, nil
}

// Connect starts what moves files in the container, so that it need not be waited for later. Where that fails, Sync
// tries it again.
func (f *Files) Connect(ctx context.Context) {
	f.mu.Lock()
	defer f.mu.Unlock()
	_ = f.connect(ctx)
}

func (f *Files) connect(ctx context.Context) error {
	if f.client != nil {
		return nil
	}
	stream, err := f.link.open(ctx, transfer.Service)
	if err == nil {
		f.client = transfer.NewClient(stream)
	}
	return err
}

func (f *Files) sync(ctx context.Context, spec engine.Spec, limits transfer.Limits) (quiet bool, err error) {
	if err := f.connect(ctx); err != nil {
		return false, err
	}
	user := 0
	if spec.User != nil {
		user = spec.User.UID
	}
	mounts := moved(spec)
	dirs := make([]transfer.Directory, len(mounts))
	for i, m := range mounts {
		dirs[i] = transfer.Directory{Path: m.Target, Except: spec.Beneath(m.Target)}
	}
	theirs, quiet, err := f.client.List(ctx, dirs, limits.Files, user)
	if err != nil {
		return false, err
	}
	quiet = quiet && spec.Server != nil
	for i, m := range mounts {
		whole, err := f.syncMount(ctx, m, dirs[i].Except, theirs[i], limits)
		if err != nil {
			return false, err
		}
		quiet = quiet && whole
	}
	return quiet, nil
}

// save keeps what is the same for another process.
func (f *Files) save() error {
	if f.path == "" || !f.changed {
		return nil
	}
	var data bytes.Buffer
	err := gob.NewEncoder(&data).Encode(kept{f.handle.ID, f.same})
	if err == nil {
		err = durable.Replace(f.path, data.Bytes()) // the container does not outlive the machine
	}
	if err != nil {
		return fmt.Errorf("keep what the container has: %w", err)
	}
	f.changed = false
	return nil
}

// syncMount makes a mount and its copy the same. whole: all that differed could be read.
func (f *Files) syncMount(ctx context.Context, m engine.Mount, except []string, theirs transfer.Listing,
	limits transfer.Limits) (whole bool, err error) {
	whole = true
	ours, err := transfer.List(ctx, m.Source, except, 0)
	if err != nil {
		return false, err
	}
	plan := compare(f.same[m.Target], ours, theirs, !m.ReadOnly, f.shared)
	// First, because a directory may have become a file.
	if err := removeHere(m.Source, plan.removeHere); err != nil {
		return false, err
	}
	got, err := f.get(ctx, m, plan, limits)
	for _, name := range plan.get {
		was, known := f.same[m.Target][name]
		switch e, came := got[name]; {
		case came:
			plan.same[name] = pair{Host: e, Program: theirs[name]}
		case known: // it is gone, cannot be read, or changes: what the host has is still what the program had
			plan.same[name], whole = was, false
		default:
			whole = false
		}
	}
	if err == nil && len(plan.put)+len(plan.removeThere) > 0 {
		var made transfer.Listing
		made, err = f.client.Put(ctx, m.Target, m.Source, plan.removeThere, plan.put)
		for _, name := range plan.put {
			_, there := theirs[name]
			if e, came := made[name]; came || !there && err == nil { // or it is gone again, removed there
				plan.same[name] = pair{Host: ours[name], Program: e}
			}
		}
	}
	if err != nil { // what was not done is as it was
		for _, name := range slices.Concat(plan.put, plan.removeThere) {
			if was, known := f.same[m.Target][name]; known {
				plan.same[name] = was
			}
		}
	}
	f.changed = f.changed || !maps.Equal(f.same[m.Target], plan.same)
	f.same[m.Target] = plan.same
	return whole, err
}

func (f *Files) get(ctx context.Context, m engine.Mount, p plan, limits transfer.Limits) (transfer.Listing, error) {
	if len(p.get) == 0 {
		return nil, nil
	}
	return f.client.Get(ctx, m.Target, m.Source, p.get, limits)
}

func removeHere(dir string, names []string) error {
	if len(names) == 0 {
		return nil
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, name := range names {
		err = errors.Join(err, root.RemoveAll(name))
	}
	return err
}

// plan is what makes two directories the same. Names are sorted, so that directories come before what is in them.
type plan struct {
	get, put, removeHere, removeThere []string
	same                              directory // what is the same already
}

// compare plans for a directory of the host and one of a program. pulls says that the program can write it, shared that
// both can.
func compare(same directory, ours, theirs transfer.Listing, pulls, shared bool) plan {
	names, files := decide(same, ours, theirs, pulls, shared)
	p := plan{same: make(directory, len(theirs))}
	for _, name := range names {
		f, dir := files[name], files[path.Dir(name)]
		f.covered = dir != nil && (dir.covered || dir.stays() && !dir.isDir())
		switch {
		case f.covered: // it goes when a file takes the place of its directory
		case f.same:
			p.same[name] = pair{f.our, f.their}
		case f.fromHere && f.here:
			p.put = append(p.put, name)
		case f.fromHere:
			p.removeThere = append(p.removeThere, name)
		case f.there:
			p.get = append(p.get, name)
		default:
			p.removeHere = append(p.removeHere, name)
		}
	}
	return p
}

// decide says of each file which side counts. Names are sorted.
func decide(same directory, ours, theirs transfer.Listing, pulls, shared bool) (names []string,
	files map[string]*file) {
	all := maps.Clone(ours)
	maps.Copy(all, theirs)
	names, files = slices.Sorted(maps.Keys(all)), make(map[string]*file, len(all))
	for _, name := range names {
		f := new(file)
		f.was, f.known = same[name]
		f.our, f.here = ours[name]
		f.their, f.there = theirs[name]
		f.same = f.here && f.there && f.isSame()
		f.fromHere = !f.same && f.comesFromHere(pulls, shared)
		files[name] = f
	}
	for _, name := range slices.Backward(names) { // a directory stays where something in it does
		f, dir := files[name], files[path.Dir(name)]
		if dir != nil && f.stays() && (!dir.stays() || !dir.isDir() && !f.fromHere) {
			dir.fromHere = f.fromHere
		}
	}
	return names, files
}

// file is a file as it is on both sides, and as it was when it was the same.
type file struct {
	was                pair
	our, their         transfer.Entry
	known, here, there bool

	same     bool // on both sides
	fromHere bool // else the host's side counts
	covered  bool // a file takes the place of a directory that it is in
}

func (f *file) isSame() bool {
	if f.known {
		return f.was == pair{f.our, f.their}
	}
	return f.our.Like(f.their)
}

// comesFromHere reports whether the host's side of a file counts, be it that there is none. Of one that was never the
// same the side that has it counts, and of two the newer.
func (f *file) comesFromHere(pulls, shared bool) bool {
	switch {
	case !pulls:
		return true
	case !shared:
		return false
	case f.known:
		return f.there && f.was.Program == f.their
	}
	return !f.there || f.here && f.our.ModTime > f.their.ModTime
}

// stays reports whether there is a file afterwards.
func (f *file) stays() bool { return f.same || f.fromHere && f.here || !f.fromHere && f.there }

// isDir reports whether what stays is a directory.
func (f *file) isDir() bool {
	if f.fromHere {
		return f.our.Mode.IsDir()
	}
	return f.their.Mode.IsDir()
}

// Fetch brings what the program wrote up to date whole, of a program that may have ended.
func (f *Files) Fetch(ctx context.Context, spec engine.Spec, limits transfer.Limits) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range written(spec) {
		except := spec.Beneath(m.Target)
		keep, err := f.keeps(ctx, m, except)
		if err != nil {
			return err
		}
		content, err := f.eng.Read(ctx, f.handle, m.Target)
		if err != nil {
			return err
		}
		err = errors.Join(transfer.Unpack(ctx, content, m.Source, limits, keep), content.Close())
		if err != nil {
			return cut(err, "a copy of "+m.Target, f.handle)
		}
	}
	return nil
}

// keeps returns what the host has that stays as it is: what it changed, where the program did not.
func (f *Files) keeps(ctx context.Context, m engine.Mount, except []string) (func(string, *tar.Header) bool, error) {
	outside := func(name string, _ *tar.Header) bool {
		return slices.ContainsFunc(except, func(dir string) bool { return within(name, dir) })
	}
	if !f.shared {
		return outside, nil
	}
	ours, err := transfer.List(ctx, m.Source, except, 0)
	if err != nil {
		return nil, err
	}
	same := maps.Clone(f.same[m.Target])
	return func(name string, h *tar.Header) bool {
		our, here := ours[name]
		was, known := same[name]
		switch {
		case outside(name, h):
			return true
		case h == nil: // it is gone from the program's, or never came there
			return here && !known
		case known && here && was.Host == our, !known && !here:
			return false
		case !known:
			return our.ModTime > h.ModTime.UnixNano()
		}
		seconds := was.Program.ModTime / int64(time.Second)
		return was.Program.Mode.Type() == h.FileInfo().Mode().Type() && was.Program.Link == h.Linkname &&
			(was.Program.Mode&fs.ModeType != 0 || was.Program.Size == h.Size && seconds == h.ModTime.Unix())
	}, nil
}

func within(name, dir string) bool {
	return name == dir || len(name) > len(dir) && name[:len(dir)] == dir && name[len(dir)] == '/'
}
