package record

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"holon/internal/durable"
	"holon/internal/procfs"
	"holon/responses"
	"holon/responses/turns"
)

// bootID identifies the present boot. It is empty where that is unknown; then
// every start is treated as one after a power cut.
func bootID() string {
	id, _ := procfs.BootID()
	return id
}

// recover takes over the journal of an earlier process. What another run of the
// kernel wrote is written into its files again and synced; the files of this run
// are as they were left, and synced by the next checkpoint.
func (s *Store) recover() error {
	segments, frames, err := s.journal.load()
	if err != nil {
		return err
	}
	s.journal.sealed = segments
	if len(frames) == 0 {
		return nil
	}
	if err := s.replay(frames); err != nil {
		return err
	}
	return s.checkpoint()
}

// load reads the segments that are there, in order, and the frames of those that
// have to be replayed.
func (j *journal) load() (segments []*segment, frames []frame, err error) {
	entries, err := os.ReadDir(j.dir) // sorted by name, which is by number
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("open the journal: %w", err)
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".journal") || !e.Type().IsRegular() {
			continue
		}
		path := filepath.Join(j.dir, e.Name())
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, nil, fmt.Errorf("open the journal: %w", err)
		}
		seg := &segment{path: path, paths: make(map[string]bool)}
		number, boot, list, err := decodeSegment(data)
		if err == nil { // else nothing was ever synced to it
			seg.number = number
		}
		for _, f := range list {
			seg.paths[f.path] = true
		}
		if boot != j.boot || boot == "" {
			frames = append(frames, list...)
		}
		segments = append(segments, seg)
		j.next = max(j.next, seg.number+1, numberOf(e.Name())+1)
	}
	return segments, frames, nil
}

func numberOf(name string) (n uint64) {
	_, _ = fmt.Sscanf(name, "%016x.journal", &n) // 0 for a name that is not ours
	return n
}

// replay writes the frames into their files again. A frame that is followed by
// a release of its path does not count.
func (s *Store) replay(frames []frame) error {
	from := make(map[string]int)
	for i, f := range frames {
		if f.kind == frameRelease {
			from[f.path] = i
		}
	}
	for i, f := range frames {
		if i < from[f.path] || !s.owns(f.path) {
			continue
		}
		if err := s.redo(f); err != nil {
			return fmt.Errorf("replay the journal: %w", err)
		}
	}
	return nil
}

// owns reports whether path is one that turns are recorded in. A replay writes to
// no other path, even if a journal names one.
func (s *Store) owns(path string) bool {
	if !filepath.IsAbs(path) || filepath.Clean(path) != path || strings.ContainsRune(path, 0) {
		return false
	}
	if path == s.lockPath() { // for the id of the installation
		return true
	}
	if id, ok := strings.CutSuffix(filepath.Base(path), ".ndjson"); ok &&
		filepath.Dir(path) == filepath.Join(s.dir, "open") {
		return responses.CheckID("response_id", id) == nil
	}
	return slices.Contains([]string{turns.RecordFile, turns.EventsFile, turns.RuntimeFile}, filepath.Base(path))
}

func (s *Store) redo(f frame) error {
	path := s.whereabouts(f.path)
	if err := os.MkdirAll(filepath.Dir(path), 0o770); err != nil {
		return err
	}
	switch f.kind {
	case frameReplace:
		return durable.WriteFile(path, f.data, durable.Private)
	case frameWrite:
		if f.offset < 0 {
			return errDamaged
		}
		file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o660)
		if err != nil {
			return err
		}
		_, err = file.WriteAt(f.data, f.offset)
		return errors.Join(err, file.Close())
	}
	return nil
}

// whereabouts returns where the file of a journal's path is now: a trajectory
// moves when its turn is committed or its response deleted.
func (s *Store) whereabouts(path string) string {
	if filepath.Dir(path) == filepath.Join(s.dir, "open") {
		for _, sub := range []string{"responses", "deleted"} {
			moved := filepath.Join(s.dir, sub, filepath.Base(path))
			if _, err := os.Lstat(moved); err == nil {
				return moved
			}
		}
	}
	return path
}

// checkpoint syncs the files of all that is in the journal and empties it.
func (s *Store) checkpoint() error {
	s.checkpointing.Lock()
	defer s.checkpointing.Unlock()
	j := s.journal
	for _, seg := range j.sealAll() {
		if err := s.settleSegment(seg); err != nil {
			return fmt.Errorf("empty the journal: %w", err)
		}
		j.mu.Lock()
		j.sealed = slices.DeleteFunc(j.sealed, func(x *segment) bool { return x == seg })
		j.mu.Unlock()
	}
	return nil
}

// manyFiles is the number of files from which on a whole file system is synced
// instead: each file by itself makes the disk empty its cache.
const manyFiles = 64

// settleSegment makes what a segment holds durable where it belongs. A segment
// goes only after those before it, so that none can undo a later one.
func (s *Store) settleSegment(seg *segment) error {
	if len(seg.paths) < manyFiles || s.syncDevices(seg) != nil { // its error may be that of any file, of anybody's
		if err := s.syncFiles(seg); err != nil {
			return err
		}
	}
	if seg.file != nil {
		if err := seg.file.Close(); err != nil {
			return err
		}
	}
	return os.Remove(seg.path)
}

// syncDevices syncs the file systems that hold the files of a segment.
func (s *Store) syncDevices(seg *segment) error {
	dirs := map[string]bool{filepath.Join(s.dir, "open"): true}
	for path := range seg.paths {
		if s.owns(path) {
			dirs[filepath.Dir(path)] = true
		}
	}
	synced := make(map[uint64]bool)
	for dir := range dirs {
		err := withDir(dir, func(f *os.File) error {
			var st unix.Stat_t
			if err := unix.Fstat(int(f.Fd()), &st); err != nil || synced[st.Dev] {
				return err
			}
			synced[st.Dev] = true
			return unix.Syncfs(int(f.Fd()))
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// withDir calls fn with an open directory, unless there is none at path any
// more: commands of a turn could have removed or replaced it, and what is not a
// directory of ours is not ours to keep.
func withDir(path string, fn func(*os.File) error) error {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_DIRECTORY, 0)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ELOOP) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(fn(f), f.Close())
}

// syncFiles syncs each file of a segment, and the directories that name them.
func (s *Store) syncFiles(seg *segment) error {
	var group errgroup.Group
	group.SetLimit(8) // syncs that run side by side share the disk's commit
	dirs := map[string]bool{filepath.Join(s.dir, "responses"): true, filepath.Join(s.dir, "deleted"): true}
	for path := range seg.paths {
		if !s.owns(path) {
			continue
		}
		dirs[filepath.Dir(path)] = true
		group.Go(func() error { return s.syncFile(path) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for dir := range dirs {
		group.Go(func() error { return withDir(dir, (*os.File).Sync) })
	}
	return group.Wait()
}

// syncFile syncs a file that commands of a turn could have removed or replaced.
// A trajectory moves, but only forward, so it is found on the way.
func (s *Store) syncFile(path string) error {
	places := []string{path}
	if filepath.Dir(path) == filepath.Join(s.dir, "open") {
		for _, sub := range []string{"responses", "deleted"} {
			places = append(places, filepath.Join(s.dir, sub, filepath.Base(path)))
		}
	}
	for _, place := range places {
		f, err := durable.Open(place)
		if err != nil { // what is not a file of ours is not ours to keep
			continue
		}
		err = f.Sync()
		return errors.Join(err, f.Close())
	}
	return nil
}

// release syncs the files of a turn and takes them out of the journal: from now
// on they are written, or removed, without it.
func (s *Store) release(paths ...string) error {
	var frames []frame
	for _, path := range paths {
		if !s.journal.covers(path) {
			continue
		}
		if err := s.syncFile(path); err != nil {
			return fmt.Errorf("sync %s: %w", filepath.Base(path), err)
		}
		frames = append(frames, frame{kind: frameRelease, path: path})
	}
	if len(frames) == 0 {
		return nil
	}
	return s.journal.commit(frames...)
}
