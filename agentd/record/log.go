package record

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"sync"
	"syscall"

	"holon/internal/buffers"
	"holon/internal/durable"
)

// errLogClosed is returned by Append after Close.
var errLogClosed = errors.New("the event log is closed")

// maxPending bounds the lines that wait for the disk. A producer that is
// faster than the disk waits for it rather than filling memory.
const maxPending = 4 << 20

// noHold lets everything durable become visible.
const noHold = math.MaxInt64

// durability says when the lines of a log are synced to disk.
type durability uint8

const (
	// synced lines are on disk before anybody sees them.
	synced durability = iota
	// written lines are with the kernel before anybody sees them, which a kill
	// cannot undo but a power cut can; Flush syncs them. It is for facts that
	// settling can do without.
	written
)

// Log is an append-only file of JSON lines with one writer and any number of
// followers. A line becomes visible to followers only once it is as durable as
// the log promises, so no reader ever sees an event that a crash could take back.
//
// Commits are grouped: while one fdatasync runs, lines pile up and share the
// next one. A trickle of lines is thus durable at once and a flood in batches.
// Followers read the file, not memory; a slow one costs nothing.
//
// Without a follower, lines are written at once, so that a kill leaves them, and
// synced when the first follower comes or by the caller that ends the log.
//
// Append never waits for a sync. The log's writer goroutine does, which starts
// when there is a line that needs one and ends when there is none. Lines that need no sync, or that another
// caller syncs, are written by the caller: waking a goroutine takes longer than
// writing a line.
type Log struct {
	path    string
	promise durability
	journal *journal // shares syncs; nil where the file is synced itself

	mu       sync.Mutex
	file     *os.File      // nil until it was created
	work     *sync.Cond    // the end of a write, or of the writer goroutine
	change   chan struct{} // closed and replaced when visible, err or ended changes
	pending  []byte        // lines that are not being written yet
	writing  int           // bytes that are being written
	busy     bool          // the writer goroutine runs
	written  int64         // bytes that are with the kernel
	synced   int64         // bytes that are on disk
	visible  int64         // bytes that followers may read; less than durable while held
	holdAt   int64         // bytes that may become visible at most; noHold for all
	deferred bool          // lines are written and synced by the caller that deferred them
	followed bool          // somebody reads, or did: lines are synced as they come
	owed     bool          // lines were written without a follower, and no caller has taken over their sync
	closing  bool
	ended    bool // no line will follow
	err      error
}

func createLog(path string, promise durability, j *journal) (*Log, error) {
	l := planLog(path, promise, j)
	return l, l.create()
}

// planLog returns a log without a file. It takes lines, which wait for create.
func planLog(path string, promise durability, j *journal) *Log {
	l := &Log{path: path, promise: promise, journal: j, change: make(chan struct{}), holdAt: noHold}
	l.work = sync.NewCond(&l.mu)
	return l
}

// create creates the file of a planned log and writes the lines that waited.
func (l *Log) create() error {
	f, err := durable.Create(l.path, os.O_RDWR, durable.Private)
	if err != nil {
		return fmt.Errorf("create event log: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.file = f
	l.wake()
	return nil
}

// reopenLog opens an existing log to append to it after a crash. A last line
// without an end, which a crash can leave, is cut off.
func reopenLog(path string) (*Log, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o660)
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
	l := planLog(path, synced, nil)
	l.file, l.written, l.synced, l.visible = f, size, size, size
	return l, nil
}

// OpenLog opens a finished log for followers only.
func OpenLog(path string) (*Log, error) {
	f, err := durable.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open event log: %w", err)
	}
	size, err := wholeLines(f)
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("open event log: %w", err)
	}
	return &Log{path: path, file: f, change: make(chan struct{}), written: size, synced: size, visible: size,
		holdAt: noHold, closing: true, ended: true}, nil
}

// Append adds line, which must be one JSON value without a line end. It
// returns before the line is on disk; an error of the disk is reported by the
// next Append, by Flush and to followers.
func (l *Log) Append(line []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.pending) > maxPending && l.file != nil && l.err == nil && !l.closing {
		if l.writing == 0 && !l.syncs() {
			l.flush(false)
			continue
		}
		l.wake()
		l.work.Wait()
	}
	if l.err != nil {
		return l.err
	}
	if l.closing {
		return errLogClosed
	}
	if l.pending == nil {
		l.pending = buffers.Get(len(line) + 1)
	}
	l.pending = append(l.pending, line...)
	l.pending = append(l.pending, '\n')
	l.wake()
	return nil
}

// size returns the bytes of all lines so far.
func (l *Log) size() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.written + int64(l.writing+len(l.pending))
}

// show makes visible what may be. The caller holds mu.
func (l *Log) show() {
	ready := l.written
	if l.promise == synced {
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
	l.holdAt = l.written + int64(l.writing+len(l.pending))
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
// waiting. Pending lines are written, and synced if the log promises that;
// reading goes on until Close.
func (l *Log) End() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stop()
	for l.err == nil && len(l.pending) > 0 && !l.ended {
		l.flush(l.promise == synced && !l.deferred)
	}
	if l.owed && l.err == nil && !l.ended {
		l.repay()
	}
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
	defer l.mu.Unlock()
	if l.err == nil && !l.ended {
		l.err = cause
	}
	l.stop()
	if !l.ended {
		l.pending, l.written, l.synced, l.ended = nil, l.visible, l.visible, true
		if l.file != nil {
			_ = l.file.Truncate(l.visible) // frees the space; settling cuts what remains
		}
		l.announce()
	}
}

// stop ends the writer goroutine and waits for it, and for who else writes. The
// caller holds mu.
func (l *Log) stop() {
	l.closing = true
	if l.work == nil { // it was only opened for followers
		return
	}
	l.work.Broadcast()
	for l.busy || l.writing > 0 {
		l.work.Wait()
	}
}

// cut shortens a log without followers to size bytes.
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
// error, so close only a log without followers.
func (l *Log) Close() error {
	return errors.Join(l.End(), l.release())
}

// release closes the file, if there is one.
func (l *Log) release() error {
	if l.file == nil {
		return nil
	}
	return l.file.Close()
}

// announce wakes the followers. The caller holds mu.
func (l *Log) announce() {
	close(l.change)
	l.change = make(chan struct{})
}
