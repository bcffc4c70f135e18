package record

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"sync"
	"syscall"
)

// ErrLogClosed is returned by Append after Close.
var ErrLogClosed = errors.New("the event log is closed")

// maxPending bounds the lines that wait for the disk. A producer that is
// faster than the disk waits for it rather than filling memory.
const maxPending = 4 << 20

// noHold lets everything durable become visible.
const noHold = math.MaxInt64

// Durability says when the lines of a log are synced to disk.
type Durability uint8

const (
	// Synced lines are on disk before anybody sees them.
	Synced Durability = iota
	// Written lines are with the kernel before anybody sees them, which a kill
	// cannot undo but a power cut can; Flush syncs them. It is for facts that
	// settling can do without.
	Written
)

// Log is an append-only file of JSON lines with one writer and any number of
// followers. A line becomes visible to followers only once it is as durable as
// the log promises, so nobody ever sees an event that a crash could take back.
//
// Commits are grouped: while one fdatasync runs, lines pile up and share the
// next one. A trickle of lines is thus durable at once and a flood in batches.
// Followers read the file, not memory; a slow one costs nothing.
type Log struct {
	file    *os.File
	promise Durability
	journal *journal      // shares syncs; nil where the file is synced itself
	done    chan struct{} // closed when the writer goroutine has ended

	mu       sync.Mutex
	work     *sync.Cond    // signals the writer: pending lines, or closing
	change   chan struct{} // closed and replaced when visible, err or ended changes
	pending  []byte        // lines that are not yet handed to the disk
	written  int64         // bytes that are with the kernel
	synced   int64         // bytes that are on disk
	visible  int64         // bytes that followers may read; less than durable while held
	holdAt   int64         // bytes that may become visible at most; noHold for all
	deferred bool          // lines are written now and synced by whoever deferred them
	closing  bool
	ended    bool // no line will follow
	err      error
}

// CreateLog creates the log at path, which must not exist, mode 0600.
func CreateLog(path string, promise Durability) (*Log, error) { return createLog(path, promise, nil) }

func createLog(path string, promise Durability, j *journal) (*Log, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("create event log: %w", err)
	}
	return startLog(f, 0, promise, j), nil
}

// ReopenLog opens an existing log to append to it after a crash. A last line
// without an end, which a crash can leave, is cut off.
func ReopenLog(path string) (*Log, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("reopen event log: %w", err)
	}
	size, err := wholeLines(f)
	if err == nil {
		err = f.Truncate(size)
	}
	if err == nil {
		_, err = f.Seek(size, io.SeekStart)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("reopen event log: %w", err)
	}
	return startLog(f, size, Synced, nil), nil
}

// OpenLog opens a finished log for followers only.
func OpenLog(path string) (*Log, error) {
	f, err := openRegular(path)
	if err != nil {
		return nil, fmt.Errorf("open event log: %w", err)
	}
	size, err := wholeLines(f)
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("open event log: %w", err)
	}
	done := make(chan struct{})
	close(done)
	return &Log{file: f, done: done, change: make(chan struct{}), written: size, synced: size, visible: size, holdAt: noHold, closing: true, ended: true}, nil
}

func startLog(f *os.File, size int64, promise Durability, j *journal) *Log {
	l := &Log{file: f, promise: promise, journal: j, done: make(chan struct{}), change: make(chan struct{}), written: size, synced: size, visible: size, holdAt: noHold}
	l.work = sync.NewCond(&l.mu)
	go l.write()
	return l
}

// Append adds line, which must be one JSON value without a line end. It
// returns before the line is on disk; an error of the disk is reported by the
// next Append, by Flush and to followers.
func (l *Log) Append(line []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.pending) > maxPending && l.err == nil && !l.closing {
		l.work.Wait()
	}
	if l.err != nil {
		return l.err
	}
	if l.closing {
		return ErrLogClosed
	}
	l.pending = append(l.pending, line...)
	l.pending = append(l.pending, '\n')
	l.work.Broadcast()
	return nil
}

// postpone leaves the lines appended from now on to take: they are written at
// once, but neither synced nor visible.
func (l *Log) postpone() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.deferred = true
}

// take waits until all lines are with the kernel and returns what of them has
// to be synced, for the caller to commit and confirm. Lines that come after are
// synced by the log itself again. ok is false when there is nothing to commit,
// also because it was too much to share a journal and was synced here.
func (l *Log) take() (f frame, ok bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.drain(); err != nil {
		return frame{}, false, err
	}
	l.deferred = false
	n := l.written - l.synced
	if n == 0 {
		return frame{}, false, nil
	}
	if n > maxShared {
		if err := l.file.Sync(); err != nil {
			return frame{}, false, fmt.Errorf("sync event log: %w", err)
		}
		l.confirmed(l.written)
		return frame{}, false, nil
	}
	f = frame{kind: frameWrite, path: l.file.Name(), offset: l.synced, data: make([]byte, n)}
	if _, err := l.file.ReadAt(f.data, f.offset); err != nil {
		return frame{}, false, fmt.Errorf("read event log: %w", err)
	}
	return f, true, nil
}

// confirm says that the frame that take returned is on disk.
func (l *Log) confirm(f frame) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.confirmed(f.offset + int64(len(f.data)))
}

func (l *Log) confirmed(end int64) {
	l.synced = max(l.synced, end)
	l.show()
	l.announce()
}

// drain waits until nothing is pending. The caller holds mu.
func (l *Log) drain() error {
	for len(l.pending) > 0 && l.err == nil && !l.ended {
		l.work.Wait()
	}
	return l.err
}

// show makes visible what may be. The caller holds mu.
func (l *Log) show() {
	ready := l.written
	if l.promise == Synced {
		ready = l.synced
	}
	l.visible = max(l.visible, min(ready, l.holdAt))
}

// Hold keeps lines appended from now on invisible until Release. They go to
// disk as usual: this is how a terminal event becomes durable first, the state
// that depends on it second, and visible last.
func (l *Log) Hold() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.holdAt = l.written + int64(len(l.pending))
}

// Release makes held lines visible.
func (l *Log) Release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.holdAt = noHold
	l.show()
	l.announce()
}

// Flush returns when all that was appended so far is on disk.
func (l *Log) Flush() error {
	f, ok, err := l.take()
	if err != nil || !ok {
		return err
	}
	if l.journal == nil {
		if err := l.file.Sync(); err != nil {
			return fmt.Errorf("sync event log: %w", err)
		}
	} else if err := l.journal.commit(f); err != nil {
		return err
	}
	l.confirm(f)
	return nil
}

// End says that no line will follow: followers reach the end instead of
// waiting. It flushes and stops the writer; reading goes on until Close.
func (l *Log) End() error {
	l.mu.Lock()
	l.closing = true
	if l.work != nil {
		l.work.Broadcast()
	}
	l.mu.Unlock()
	<-l.done
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ended {
		l.ended = true
		l.announce()
	}
	return l.err
}

// Abort ends the log because of cause: what is held or still on its way to the
// disk is dropped, and followers get cause after what they could see already.
// A reader is thus never shown an end that did not come to be. On a log that
// failed by itself, or has ended, the first reason stands.
func (l *Log) Abort(cause error) {
	l.mu.Lock()
	if l.err == nil && !l.ended {
		l.err = cause
	}
	l.closing = true
	l.work.Broadcast()
	l.mu.Unlock()
	<-l.done
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ended {
		l.pending, l.written, l.synced, l.ended = nil, l.visible, l.visible, true
		_ = l.file.Truncate(l.visible) // frees the space; settling cuts what remains
		l.announce()
	}
}

// cut shortens a log that nobody follows yet to size bytes.
func (l *Log) cut(size int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.file.Truncate(size); err != nil {
		return fmt.Errorf("cut event log: %w", err)
	}
	l.written, l.synced, l.visible = size, size, size
	return nil
}

// Close ends the log and releases the file. Followers that still read get an
// error, so close only what nobody follows.
func (l *Log) Close() error {
	return errors.Join(l.End(), l.file.Close())
}

// announce wakes the followers. The caller holds mu.
func (l *Log) announce() {
	close(l.change)
	l.change = make(chan struct{})
}

// write is the writer goroutine: take all that is pending, write, sync, show.
func (l *Log) write() {
	defer close(l.done)
	var batch []byte
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		for len(l.pending) == 0 && !l.closing {
			l.work.Wait()
		}
		if len(l.pending) == 0 || l.err != nil { // ended, or aborted
			return
		}
		// pending stays set until the batch is on disk, so that Flush and Hold
		// wait for it; producers append behind it.
		batch = append(batch[:0], l.pending...)
		at, sync := l.written, l.promise == Synced && !l.deferred
		l.mu.Unlock()
		err := l.commit(batch, at, sync)
		l.mu.Lock()
		if err != nil {
			l.err = err
			l.pending = nil
		} else {
			l.written += int64(len(batch))
			if sync {
				l.synced = l.written
			}
			l.pending = append(l.pending[:0], l.pending[len(batch):]...)
			l.show()
		}
		l.announce()
		l.work.Broadcast()
	}
}

// commit puts the batch on disk at the given offset. When it fails, what was
// written of it is cut off again: the file never ends in half a line, and never
// holds an event that readers were told did not make it.
func (l *Log) commit(batch []byte, at int64, sync bool) error {
	_, err := l.file.WriteAt(batch, at)
	switch {
	case err != nil || !sync:
	case l.journal != nil && len(batch) <= maxShared:
		err = l.journal.commit(frame{kind: frameWrite, path: l.file.Name(), offset: at, data: batch})
	default:
		err = l.file.Sync()
	}
	if err != nil {
		_ = l.file.Truncate(at) // the error that counts is the first
		return fmt.Errorf("write event log: %w", err)
	}
	return nil
}

// openRegular opens a file for reading that commands of the turn could have
// replaced: it neither follows a link nor waits for the writer of a pipe.
func openRegular(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", path)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
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
		for i := n - 1; i >= 0; i-- {
			if buf[i] == '\n' {
				return end - n + i + 1, nil
			}
		}
		end -= n
	}
	return 0, nil
}
