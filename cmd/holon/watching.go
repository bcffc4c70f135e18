package main

import (
	"os"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// watching is how a command that only watches what goes on without it ends: quietly, as its end stops nothing, and as
// soon as no one reads its output any more, although there is nothing to be written.
type watching struct {
	out  *os.File
	only atomic.Bool

	begin sync.Once
	left  func() // is called when the reader has left
	wake  *os.File
	ended sync.WaitGroup
}

// watch says whether the command only watches from now on.
func (s Streams) watch(only bool) {
	if w := s.Watching; w != nil {
		w.only.Store(only)
		if only && w.left != nil {
			w.begin.Do(w.start)
		}
	}
}

// watches reports whether it does.
func (s Streams) watches() bool { return s.Watching != nil && s.Watching.only.Load() }

// start looks after the reader until close. Only one of a pipe can leave.
func (w *watching) start() {
	info, err := w.out.Stat()
	if err != nil || info.Mode()&(os.ModeNamedPipe|os.ModeSocket) == 0 {
		return
	}
	woken, wake, err := os.Pipe()
	if err != nil {
		return // the next write fails
	}
	w.wake = wake
	w.ended.Go(func() {
		defer woken.Close()
		if readerLeft(int(w.out.Fd()), int(woken.Fd())) && w.only.Load() {
			w.left()
		}
	})
}

// close ends that.
func (w *watching) close() {
	if w == nil {
		return
	}
	w.begin.Do(func() {}) // it does not begin any more
	if w.wake != nil {
		w.wake.Close()
	}
	w.ended.Wait()
}

// readerLeft waits until the reader of a pipe has closed it, or something happens to woken. macOS reports the first
// only where some event is asked for; no pipe has one of out-of-band data.
func readerLeft(pipe, woken int) bool {
	fds := []unix.PollFd{{Fd: int32(pipe), Events: unix.POLLPRI}, {Fd: int32(woken), Events: unix.POLLIN}}
	for {
		_, err := unix.Poll(fds, -1)
		switch {
		case err == unix.EINTR:
		case err != nil || fds[1].Revents != 0:
			return false
		case fds[0].Revents&(unix.POLLERR|unix.POLLHUP) != 0:
			return true
		}
	}
}
