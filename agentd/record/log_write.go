package record

import (
	"fmt"

	"holon/internal/buffers"
)

// This file writes the lines of a Log: for its own goroutine, and for those who
// take the sync upon themselves.

// syncs reports whether the writer goroutine has to sync what is pending. The
// caller holds mu.
func (l *Log) syncs() bool { return l.promise == synced && !l.deferred }

// wake sees to it that pending lines are written, unless they have to wait. The
// caller holds mu.
func (l *Log) wake() {
	switch {
	case len(l.pending) == 0 || l.file == nil || l.closing || l.err != nil:
	case l.promise == written:
		for len(l.pending) > 0 && l.writing == 0 && l.err == nil {
			l.flush(false)
		}
	case l.syncs() && !l.busy:
		l.busy = true
		go l.write()
	}
}

// postpone leaves the lines appended from now on to take: before that they are
// neither written nor visible.
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
	l.deferred, l.owed = false, false
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
	f = frame{kind: frameWrite, path: l.path, offset: l.synced, data: make([]byte, n)}
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

// drain returns when nothing is pending; what is, it writes, without a sync. The
// caller holds mu.
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

// repay syncs what was written without a sync. The caller holds mu, and goes on
// holding it: that happens once, when the first follower comes, or at the end.
func (l *Log) repay() {
	l.owed = l.writing > 0 // which is not synced either, and not yet there to read
	var err error
	if n := l.written - l.synced; l.journal == nil || n > maxShared {
		err = l.file.Sync()
	} else {
		f := frame{kind: frameWrite, path: l.path, offset: l.synced, data: make([]byte, n)}
		if _, err = l.file.ReadAt(f.data, f.offset); err == nil {
			err = l.journal.commit(f)
		}
	}
	if err != nil {
		l.err = fmt.Errorf("sync event log: %w", err)
		l.announce()
		l.work.Broadcast()
		return
	}
	l.confirmed(l.written)
}

// write is the writer goroutine: it writes all that is pending, and syncs and
// shows it once anybody reads.
func (l *Log) write() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for !l.closing && l.err == nil && l.syncs() && (l.writing > 0 || len(l.pending) > 0 || l.owed && l.followed) {
		switch {
		case l.writing > 0:
			l.work.Wait()
		case l.owed && l.followed:
			l.repay()
		default:
			l.owed = !l.followed
			l.flush(l.followed)
		}
	}
	l.busy = false
	l.work.Broadcast()
}

// flush writes pending lines, and syncs them if asked to. The caller holds mu, which is released meanwhile, and no
// other write is in progress.
func (l *Log) flush(sync bool) {
	batch, at := l.pending, l.written
	l.pending = nil
	l.writing = len(batch)
	l.mu.Unlock()
	err := l.commit(batch, at, sync)
	l.mu.Lock()
	l.writing = 0
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
	buffers.Put(batch)
	l.announce()
	l.work.Broadcast()
}

// commit writes the batch at the given offset. If that fails, the file is cut there again: it never ends in half a
// line, and never holds an event that readers were told was lost.
func (l *Log) commit(batch []byte, at int64, sync bool) error {
	_, err := l.file.WriteAt(batch, at)
	switch {
	case err != nil || !sync:
	case l.journal != nil && len(batch) <= maxShared:
		err = l.journal.commit(frame{kind: frameWrite, path: l.path, offset: at, data: batch})
	default:
		err = l.file.Sync()
	}
	if err != nil {
		_ = l.file.Truncate(at) // the error that counts is the first
		return fmt.Errorf("write event log: %w", err)
	}
	return nil
}
