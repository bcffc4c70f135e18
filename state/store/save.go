package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"sync"
	"syscall"

	"golang.org/x/sync/errgroup"

	"holon/internal/durable"
	"holon/internal/roots"
	"holon/state"
)

// atOnce is how many objects are read or written at a time.
const atOnce = 8

// inMemory is the size up to which a file is read whole; a larger one is copied first, because it may change.
const inMemory = 1 << 20

// Save writes what has changed of a unit, whose lease this process has. What was written before an error is not written
// again. A file that cannot be opened, or has more than maxFile bytes, is left out, and logged.
func (f *Files) Save(ctx context.Context, u Unit) error {
	h := f.unit(u.Key)
	h.mu.Lock()
	defer h.mu.Unlock()
	return f.report(u.Key, f.save(ctx, u, h))
}

func (f *Files) save(ctx context.Context, u Unit, h *held) error {
	fence, err := f.fence(u.Key)
	if err != nil {
		return err
	}
	if !h.loaded {
		return &state.Error{Code: CodeBusy, Param: "store", Hint: "try again in a moment",
			Message: "the files of " + u.Key + " are not loaded from the bucket yet"}
	}
	root, err := roots.Open(u.Dir)
	if err != nil {
		return fmt.Errorf("open the files to save: %w", err)
	}
	defer root.Close()
	now := f.opts.Now()
	list, err := scan(ctx, root, u)
	if err != nil {
		return err
	}
	list = slices.DeleteFunc(list, func(e found) bool {
		if e.Size > maxFile {
			f.opts.Log.Warn("a file is too large, and is not saved", "unit", u.Key, "path", e.Path, "bytes", e.Size)
		}
		return e.Size > maxFile
	})
	s := &saving{Files: f, unit: u, root: root, fence: fence, known: make(map[string]int64), held: h}
	for _, of := range h.note.Files {
		s.known[of.SHA256] = of.Fence
	}
	if err := s.files(ctx, list); err != nil {
		return err
	}
	next := note{Files: make(map[fileName]seen, len(list))}
	m := &manifest{Fence: fence}
	for i := range list {
		e := &list[i]
		if e.Kind == "" {
			continue
		}
		m.Entries = append(m.Entries, e.entry)
		if e.seen.SHA256 != "" && now.UnixNano()-e.seen.Change > int64(racy) {
			next.Files[e.Path] = e.seen
		}
	}
	if h.base != nil && h.base.Fence == fence && slices.Equal(h.base.Entries, m.Entries) {
		h.note.Files = next.Files
		return nil
	}
	next.Revisions = []string{}
	if h.base != nil {
		next.Revisions = append(next.Revisions, h.base.Revision)
	}
	return f.write(ctx, u, h, m, next)
}

// saving is one call of Save.
type saving struct {
	*Files
	unit  Unit
	root  *os.Root
	fence int64
	held  *held

	mu    sync.Mutex
	known map[string]int64 // digests of objects that the bucket has, and their fences
}

// files writes the contents that the bucket does not have, and completes the list with their digests.
func (s *saving) files(ctx context.Context, list []found) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for i := range list {
		e := &list[i]
		if e.Kind != kindFile {
			continue
		}
		if was := s.held.note.Files[e.Path]; was.same(e.seen) {
			e.seen, e.SHA256, e.Fence = was, was.SHA256, was.Fence
			continue
		}
		group.Go(func() error {
			err := s.file(ctx, e)
			if errors.Is(err, fs.ErrNotExist) || errors.Is(err, roots.ErrNotRegular) { // removed, or replaced, meanwhile
				e.Kind, err = "", nil
			}
			return err
		})
	}
	err := group.Wait()
	if err != nil { // what was written is not written again
		s.keep(list)
	}
	return err
}

// keep notes what is in the bucket, for another try.
func (s *saving) keep(list []found) {
	if s.held.note.Files == nil {
		s.held.note.Files = make(map[fileName]seen)
	}
	for i := range list {
		if e := &list[i]; e.seen.SHA256 != "" {
			s.held.note.Files[e.Path] = e.seen
		}
	}
}

// file writes the content of a file as it is now.
func (s *saving) file(ctx context.Context, e *found) error {
	_ = roots.ReopenIn(s.root, string(e.Path)) // opening it says what is wrong
	in, err := s.root.OpenFile(string(e.Path), os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, syscall.ELOOP) || errors.Is(err, syscall.ENXIO) {
		return roots.ErrNotRegular
	}
	if errors.Is(err, fs.ErrPermission) {
		s.opts.Log.Warn("a file cannot be read, and is not saved", "unit", s.unit.Key, "path", e.Path, "err", err)
		return fs.ErrNotExist
	}
	if err != nil {
		return fmt.Errorf("save %s: %w", e.Path, err)
	}
	defer in.Close()
	if info, err := in.Stat(); err != nil || !info.Mode().IsRegular() {
		return roots.ErrNotRegular
	}
	body, err := s.snapshot(in, e.Size)
	if err != nil {
		return fmt.Errorf("save %s: %w", e.Path, err)
	}
	defer body.close()
	return s.put(ctx, e, body)
}

// put writes an object, unless the bucket has it.
func (s *saving) put(ctx context.Context, e *found, c *content) error {
	s.mu.Lock()
	fence, known := s.known[c.digest]
	s.mu.Unlock()
	e.Size, e.SHA256, e.Fence = c.size, c.digest, fence
	if !known {
		e.Fence = s.fence
		if err := s.opts.Bucket.Put(ctx, s.unit.Key+"/"+e.object(), c, c.size); err != nil {
			return err
		}
		s.mu.Lock()
		s.known[c.digest] = s.fence
		s.mu.Unlock()
	}
	e.seen.SHA256, e.seen.Fence = e.SHA256, e.Fence
	return nil
}

// content is what a file had at one moment.
type content struct {
	io.ReadSeeker
	close  func()
	size   int64
	digest string // SHA-256, in hex
}

// snapshot reads a file up to size.
func (s *saving) snapshot(in io.Reader, size int64) (*content, error) {
	in, sum, c := io.LimitReader(in, size), sha256.New(), &content{close: func() {}}
	var err error
	if size <= inMemory {
		var data []byte
		data, err = io.ReadAll(in)
		c.ReadSeeker, c.size = bytes.NewReader(data), int64(len(data))
		sum.Write(data)
	} else {
		var copied *os.File
		if copied, err = os.CreateTemp(s.opts.Notes, durable.TempPrefix); err != nil {
			return nil, err
		}
		c.ReadSeeker, c.close = copied, func() { _ = copied.Close() } // it has no name
		to := &sparse{File: copied}
		c.size, err = io.Copy(io.MultiWriter(to, sum), in)
		err = errors.Join(err, to.end(), os.Remove(copied.Name()))
		_, seekErr := copied.Seek(0, io.SeekStart)
		err = errors.Join(err, seekErr)
	}
	if c.digest = hex.EncodeToString(sum.Sum(nil)); err != nil {
		c.close()
	}
	return c, err
}
