package record

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// This file writes the lines of a Log: for its own goroutine, and for callers that sync by themselves.

// syncs reports whether the writer goroutine has to sync pending lines. The caller holds mu.
func (l *Log) syncs() bool { return l.promise == Synced && !l.deferred }

// wake has pending lines written, unless they have to wait. The caller holds mu.
func (l *Log) wake() {
	switch {
	case len(l.pending) == 0 || l.file == nil || l.closing || l.err != nil:
	case l.promise == Written:
		for len(l.pending) > 0 && l.writing == 0 && l.err == nil {
			l.flush(false)
		}
	case !l.syncs():
	case l.done == nil:
		l.done = make(chan struct{})
		go l.write()
	default:
		l.work.Broadcast()
	}
}

// postpone leaves the lines appended from now on to settle: before that they are neither written nor visible.
func (l *Log) postpone() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.deferred = true
}

// settle waits until all lines are with the kernel and returns where they end, for the caller to sync. Lines that come
// after are synced by the log itself again.
func (l *Log) settle() (end int64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.drain(); err != nil {
		return 0, err
	}
	l.deferred = false
	return l.written, nil
}

// sync returns when the lines up to end are on disk.
func (l *Log) sync(end int64) error {
	l.mu.Lock()
	synced := l.synced >= end
	l.mu.Unlock()
	if synced {
		return nil
	}
	if err := datasync(l.file); err != nil {
		return fmt.Errorf("sync event log: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.synced = max(l.synced, end)
	l.show()
	l.announce()
	return nil
}

// datasync makes the content of a file durable. On the file systems of Linux this includes the name of a new file and
// of the new directory that it is in. Tests replace it to cut the power.
var datasync = func(f *os.File) error {
	for {
		if err := syscall.Fdatasync(int(f.Fd())); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// drain writes pending lines, without a sync, and returns when there are none. The caller holds mu.
func (l *Log) drain() error {
	for (l.writing > 0 || len(l.pending) > 0) && l.err == nil && !l.ended {
		if l.writing > 0 {
			l.work.Wait()
		} else {
			l.flush(false)
		}
	}
	return l.err
}

// write is the writer goroutine: it writes, syncs and shows pending lines until the log ends.
func (l *Log) write() {
	defer close(l.done)
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		for !l.closing && (len(l.pending) == 0 || l.writing > 0 || !l.syncs() || l.err != nil) {
			l.work.Wait()
		}
		if l.closing {
			return
		}
		l.flush(true)
	}
}

// flush writes pending lines, and syncs them if asked to. The caller holds mu, which is released meanwhile, and no
// other write is in progress.
func (l *Log) flush(sync bool) {
	batch, at := l.pending, l.written
	l.pending, l.spare = l.spare[:0], nil
	l.writing = len(batch)
	l.mu.Unlock()
	err := l.commit(batch, at, sync)
	l.mu.Lock()
	l.writing = 0
	if cap(batch) <= maxSpare { // one flood must not pin its buffer for the whole turn
		l.spare = batch[:0]
	}
	if err != nil {
		if l.err == nil {
			l.err = err
		}
		l.pending = nil
	} else {
		l.written += int64(len(batch))
		if sync {
			l.synced = l.written
		}
		l.show()
	}
	l.announce()
	l.work.Broadcast()
}

// commit writes the batch at the given offset. If that fails, the file is cut there again: it never ends in half a
// line, and never holds an event that readers were told was lost.
func (l *Log) commit(batch []byte, at int64, sync bool) error {
	_, err := l.file.WriteAt(batch, at)
	if err == nil && sync {
		err = datasync(l.file)
	}
	if err != nil {
		_ = l.file.Truncate(at) // the error that counts is the first
		return fmt.Errorf("write event log: %w", err)
	}
	return nil
}
