package record

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"holon/internal/durable"
	"holon/responses/turns"
)

// errEnded is returned for what is appended to a journal that has ended.
var errEnded = errors.New("the journal has ended")

// noHold lets every line become visible.
const noHold = math.MaxInt64

// Journal is journal.ndjson of a turn: one line for each thing that the turn does, in the order in which it happened,
// numbered from 1. Followers read the file, not memory; a slow one costs nothing. A line is with the kernel before a
// follower sees it, so that a kill takes nothing back; sync puts all lines on the disk. Events of the stream wait for a
// fact, a follower or a sync, so that a flood of deltas takes few writes.
//
// Each line is also written to the file of its kind, events.ndjson or runtime.ndjson. Those are for readers from
// outside: a journal is never read from them.
type Journal struct {
	file  *os.File
	kinds map[string]*os.File // by key of the entry; nil in a journal that is read or settled

	mu     sync.Mutex
	change chan struct{}     // closed and replaced when more is visible, or the journal ends
	notice chan struct{}     // likewise, but not for a delta
	solid  int64             // bytes of the lines up to the newest that is no delta
	lines  []byte            // that are not with the kernel yet
	values map[string][]byte // of these lines, by key
	seq    int64             // of the newest line
	size   int64             // bytes of the lines that are with the kernel
	copied int64             // to the files of their kinds
	holdAt int64             // bytes that may become visible at most
	ended  bool              // no line will follow
	err    error             // why the journal broke off
}

// kindFiles are the files of the kinds of entries.
var kindFiles = map[string]string{turns.EntryStream: turns.EventsFile, turns.EntryRuntime: turns.RuntimeFile}

// createJournal creates the journal of a turn in its directory. On error nothing is left.
func createJournal(dir string) (*Journal, error) {
	f, err := durable.Create(filepath.Join(dir, turns.JournalFile), os.O_RDWR, durable.Private)
	if err != nil {
		return nil, fmt.Errorf("create the journal: %w", err)
	}
	j := newJournal(f)
	if err := j.createKinds(dir); err != nil {
		return nil, errors.Join(err, j.remove())
	}
	return j, nil
}

func (j *Journal) createKinds(dir string) error {
	j.kinds = make(map[string]*os.File)
	for key, name := range kindFiles {
		f, err := durable.Create(filepath.Join(dir, name), os.O_WRONLY|os.O_APPEND, durable.Private)
		if err != nil {
			return fmt.Errorf("create %s: %w", name, err)
		}
		j.kinds[key] = f
	}
	return nil
}

func newJournal(f *os.File) *Journal {
	return &Journal{file: f, change: make(chan struct{}), notice: make(chan struct{}), values: make(map[string][]byte),
		holdAt: noHold}
}

// OpenJournal opens the journal of a turn that is over, to be read.
func OpenJournal(dir string) (*Journal, error) {
	f, err := durable.Open(filepath.Join(dir, turns.JournalFile))
	if err != nil {
		return nil, fmt.Errorf("open the journal: %w", err)
	}
	size, err := wholeLines(f)
	if err != nil {
		return nil, fmt.Errorf("open the journal: %w", errors.Join(err, f.Close()))
	}
	j := newJournal(f)
	j.size, j.ended = size, true
	return j, nil
}

// reopenJournal opens the journal in dir to append to it after a crash, or creates it. A last line without an end is
// cut off. The files of its kinds are made by restore, when all is in it.
func reopenJournal(dir string) (*Journal, error) {
	path := filepath.Join(dir, turns.JournalFile)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, durable.Private)
	if err != nil {
		return nil, fmt.Errorf("reopen the journal: %w", err)
	}
	j := newJournal(f)
	size, err := wholeLines(f)
	if err == nil {
		err = j.cut(size, 0)
	}
	if err != nil {
		return nil, fmt.Errorf("reopen the journal: %w", errors.Join(err, f.Close()))
	}
	return j, nil
}

// wholeLines returns how many bytes of f are complete lines.
func wholeLines(f *os.File) (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	if !info.Mode().IsRegular() {
		return 0, fmt.Errorf("%s is not a regular file", f.Name())
	}
	buf := make([]byte, 64<<10)
	for end := info.Size(); end > 0; {
		n := min(int64(len(buf)), end)
		if _, err := f.ReadAt(buf[:n], end-n); err != nil {
			return 0, err
		}
		if i := bytes.LastIndexByte(buf[:n], '\n'); i >= 0 {
			return end - n + int64(i) + 1, nil
		}
		end -= n
	}
	return 0, nil
}

// cut shortens a journal without followers to size bytes, which are its first seq lines.
func (j *Journal) cut(size, seq int64) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.size, j.seq = size, seq
	return j.file.Truncate(size)
}

// restore makes the files of the kinds anew from a journal that is settled.
func (j *Journal) restore(dir string) error {
	for _, name := range kindFiles {
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil { // commands could have put anything there
			return fmt.Errorf("replace %s: %w", name, err)
		}
	}
	if err := j.createKinds(dir); err != nil {
		return err
	}
	out := make(map[string]*bufio.Writer)
	for key, f := range j.kinds {
		out[key] = bufio.NewWriterSize(f, 64<<10)
	}
	err := j.Lines(func(line []byte) error {
		_, key, value, ok := turns.CutEntry(line)
		if !ok {
			return errDamaged
		}
		_, err := out[key].Write(value)
		return errors.Join(err, out[key].WriteByte('\n'))
	})
	for _, w := range out {
		err = errors.Join(err, w.Flush())
	}
	if err != nil {
		return fmt.Errorf("restore the files of the turn: %w", err)
	}
	return nil
}

// append adds an entry whose value is one JSON value without a line end. A fact is with the kernel when it returns,
// before what it says has effects. After an error, of this entry or of one before it, nothing can be appended any more.
func (j *Journal) append(key string, value []byte) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case j.err != nil:
		return j.err
	case j.ended:
		return errEnded
	}
	j.seq++
	j.lines = turns.AppendEntry(j.lines, j.seq, key, value)
	if j.kinds != nil {
		j.values[key] = append(append(j.values[key], value...), '\n')
	}
	delta, end := turns.IsDelta(key, value), j.size+int64(len(j.lines))
	if key == turns.EntryRuntime || len(j.lines) > maxWaiting {
		j.flush()
	}
	if delta && j.err == nil {
		j.announceDelta()
		return nil
	}
	j.solid = end
	j.announce()
	return j.err
}

// maxWaiting bounds the lines that wait to be written, in bytes.
const maxWaiting = 256 << 10

// flush gives the kernel the lines that wait. The caller holds mu.
func (j *Journal) flush() {
	if len(j.lines) == 0 || j.err != nil {
		return
	}
	if err := j.write(); err != nil {
		j.err = fmt.Errorf("write the journal: %w", err)
		_ = j.file.Truncate(j.size) // no half of a line, and none that readers do not see
		return
	}
	j.size += int64(len(j.lines))
	if j.lines = j.lines[:0]; cap(j.lines) > maxWaiting { // one huge line must not pin its buffer
		j.lines = nil
		clear(j.values)
	}
}

func (j *Journal) write() error {
	if _, err := j.file.WriteAt(j.lines, j.size); err != nil {
		return err
	}
	for key, values := range j.values {
		if _, err := j.kinds[key].Write(values); err != nil {
			return err
		}
		j.copied += int64(len(values))
		j.values[key] = values[:0]
	}
	return nil
}

// written returns how many bytes the journal has, and how many of them the files of its kinds repeat.
func (j *Journal) written() (size, copied int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.flush()
	return j.size, j.copied
}

// hold keeps lines that are appended from now on invisible until release: this is how the end of a turn is recorded
// before it is seen.
func (j *Journal) hold() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.flush()
	j.holdAt = j.size
}

// release makes held lines visible.
func (j *Journal) release() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.holdAt = noHold
	j.announce()
}

// sync returns when all that was appended before is on disk.
func (j *Journal) sync() error {
	j.mu.Lock()
	j.flush()
	err := j.err
	j.mu.Unlock()
	if err == nil {
		err = j.file.Sync()
	}
	if err != nil {
		return fmt.Errorf("sync the journal: %w", err)
	}
	return nil
}

// end says that no line will follow: followers reach the end instead of waiting. Reading goes on until Close.
func (j *Journal) end() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.flush()
	j.ended = true
	j.announce()
}

// abort ends the journal because of cause. What is held is dropped, and followers get cause
// after what they could see already: a reader is never shown an end that did not come to be. Where the journal broke
// off by itself, or has ended, the first reason stands.
func (j *Journal) abort(cause error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.ended {
		return
	}
	if j.flush(); j.err == nil {
		j.err = cause
	}
	j.size, j.ended = min(j.size, j.holdAt), true
	_ = j.file.Truncate(j.size) // frees the space; settling cuts what remains
	j.announce()
}

// Close ends the journal and releases its files. Followers that still read get an error, so close only a journal
// without followers.
func (j *Journal) Close() error {
	j.end()
	err := j.file.Close()
	for _, f := range j.kinds {
		err = errors.Join(err, f.Close())
	}
	return err
}

// remove closes a journal that createJournal made, and removes its files.
func (j *Journal) remove() error {
	err := errors.Join(j.Close(), os.Remove(j.file.Name()))
	for _, f := range j.kinds {
		err = errors.Join(err, os.Remove(f.Name()))
	}
	return err
}

// announce wakes the followers. The caller holds mu.
func (j *Journal) announce() {
	j.announceDelta()
	close(j.notice)
	j.notice = make(chan struct{})
}

// announceDelta wakes the followers that read deltas. The caller holds mu.
func (j *Journal) announceDelta() {
	close(j.change)
	j.change = make(chan struct{})
}

// state returns how far a follower that has read off bytes may read, whether more will follow, and why not. For one
// that is sparse, deltas behind which nothing else came are not there yet, as long as more will follow.
func (j *Journal) state(off int64, sparse bool) (visible int64, ended bool, change <-chan struct{}, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	visible, change = min(j.size, j.holdAt), j.change
	if sparse && off >= j.solid && !j.ended && j.err == nil {
		return off, false, j.notice, nil
	}
	if off >= j.size {
		j.flush()
		visible = min(j.size, j.holdAt)
	}
	if sparse {
		change = j.notice
	}
	return visible, j.ended, change, j.err
}

// Lines calls fn for each line that is visible now, without its line end. The line is valid during the call.
func (j *Journal) Lines(fn func(line []byte) error) error {
	f := j.Follow()
	for !f.Waiting() {
		chunk, err := f.next()
		if err != nil {
			return err
		}
		for line := range bytes.Lines(chunk) {
			if err := fn(line[:len(line)-1]); err != nil {
				return err
			}
		}
	}
	return nil
}
