package record

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
)

// Sizes of the journal: what a segment holds at most, in which steps its space
// is reserved, and beyond what size a write is synced in its own file because
// writing it twice would cost more than a sync of its own.
const (
	maxSegment  = 16 << 20
	segmentStep = 1 << 20
	maxShared   = 128 << 10
)

// journal makes the writes of all turns durable with one sync, however many
// turns run and however many files each writes. It is a redo log: a write goes
// to its file, where the kernel has it, and into the journal, which is synced.
// After a power cut the journal is replayed into the files. After a mere kill
// the files are as they were written, and nothing has to be replayed.
//
// Commits are grouped: the first that finds no sync in progress syncs for all that wait. A
// single turn thus syncs without passing anything on, and sixteen turns share.
//
// A segment is dropped once all files that it names were synced (see
// checkpoint), so the journal stays small. A path that was released is left
// alone by a replay of what was written before: from then on its file is
// written without the journal, or is gone.
type journal struct {
	dir  string // folder of the segments, made with the first
	boot string // the present run of the kernel

	mu      sync.Mutex
	turn    sync.Cond // a batch is done
	leading bool      // a sync is in progress
	queue   []*batch
	current *segment
	sealed  []*segment    // to be checkpointed
	full    chan struct{} // tells Maintain that there are sealed segments

	// filing is held for reading by who commits frames before their files are
	// written, so that no checkpoint comes in between.
	filing sync.RWMutex
	next   uint64 // number of the next segment
	buf    []byte // of the commit that leads
}

// segment is one file of the journal.
type segment struct {
	number   uint64
	file     *os.File // nil for one that an earlier process left
	path     string
	size     int64 // bytes of frames
	reserved int64
	paths    map[string]bool // files that its frames name
}

// batch is frames on their way to the disk together.
type batch struct {
	frames []frame
	done   bool
	err    error
}

func newJournal(dir, boot string) *journal {
	j := &journal{dir: dir, boot: boot, next: 1, full: make(chan struct{}, 1)}
	j.turn.L = &j.mu
	return j
}

// commit returns when the frames are on disk, all of them or, after an error,
// perhaps some.
func (j *journal) commit(frames ...frame) error {
	e := &batch{frames: frames}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.queue = append(j.queue, e)
	for !e.done && j.leading {
		j.turn.Wait()
	}
	if e.done {
		return e.err
	}
	j.leading = true
	all := j.queue
	j.queue = nil
	seg, err := j.segment()
	j.mu.Unlock()
	if err == nil {
		err = j.write(seg, all)
	}
	j.mu.Lock()
	j.leading = false
	if err != nil && seg != nil {
		j.seal() // what a failed sync left there is not known
	}
	for _, e := range all {
		e.done, e.err = true, err
	}
	j.turn.Broadcast()
	return err
}

// note adds a frame without waiting: it becomes durable with the next commit.
func (j *journal) note(f frame) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.queue = append(j.queue, &batch{frames: []frame{f}})
}

// covers tells whether a replay could write to path.
func (j *journal) covers(path string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, e := range j.queue {
		for _, f := range e.frames {
			if f.path == path {
				return true
			}
		}
	}
	for _, seg := range append(j.sealed, j.current) {
		if seg != nil && seg.paths[path] {
			return true
		}
	}
	return false
}

// segment returns the segment to write to, a new one when there is none or the
// present one is full. The caller holds mu and leads.
func (j *journal) segment() (*segment, error) {
	if j.current != nil && j.current.size < maxSegment {
		return j.current, nil
	}
	j.seal()
	if err := os.MkdirAll(j.dir, 0o770); err != nil {
		return nil, fmt.Errorf("begin a journal: %w", err)
	}
	path := filepath.Join(j.dir, fmt.Sprintf("%016x.journal", j.next))
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o660)
	if err != nil {
		return nil, fmt.Errorf("begin a journal: %w", err)
	}
	j.current = &segment{number: j.next, file: f, path: path, paths: make(map[string]bool)}
	j.next++
	return j.current, nil
}

// seal hands the present segment to the next checkpoint. The caller holds mu.
func (j *journal) seal() {
	if j.current == nil {
		return
	}
	j.sealed = append(j.sealed, j.current)
	j.current = nil
	select {
	case j.full <- struct{}{}:
	default: // Maintain was told before
	}
}

// sealAll seals the present segment and returns all that are sealed. What they
// hold is in its files.
func (j *journal) sealAll() []*segment {
	j.filing.Lock()
	defer j.filing.Unlock()
	j.mu.Lock()
	defer j.mu.Unlock()
	for j.leading {
		j.turn.Wait()
	}
	j.seal()
	return slices.Clone(j.sealed)
}

// write appends batches to the segment and syncs it.
func (j *journal) write(seg *segment, all []*batch) error {
	buf := j.buf[:0]
	if seg.size == 0 {
		buf = appendSegmentHeader(buf, seg.number, j.boot)
	}
	j.mu.Lock()
	for _, e := range all {
		for _, f := range e.frames {
			seg.paths[f.path] = true
		}
	}
	j.mu.Unlock()
	for _, e := range all {
		for _, f := range e.frames {
			buf = f.append(buf, seg.number)
		}
	}
	if j.buf = buf; cap(buf) > 4*maxShared {
		j.buf = nil
	}
	end := seg.size + int64(len(buf))
	if end > seg.reserved { // in reserved space a sync need not record a new size
		want := end + segmentStep
		if syscall.Fallocate(int(seg.file.Fd()), 0, 0, want) == nil {
			seg.reserved = want
		}
	}
	_, err := seg.file.WriteAt(buf, seg.size)
	if err == nil {
		err = syscall.Fdatasync(int(seg.file.Fd()))
	}
	if err != nil {
		return fmt.Errorf("write the journal: %w", err)
	}
	j.mu.Lock()
	seg.size = end
	j.mu.Unlock()
	return nil
}
