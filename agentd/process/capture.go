package process

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"time"
)

// Capture is what remains of one output stream: its beginning, its end and the
// numbers in between. When Total equals len(Head)+len(Tail), nothing is missing
// and Tail follows Head directly.
type Capture struct {
	Head, Tail []byte
	Total      int64 // bytes the command wrote
	Lines      int64 // newlines among them
	Logged     int64 // bytes in the log file
	LogErr     error // why the log file ends early, if not for its limit
	Cut        bool  // the stream was still open, or full, when the drain bound passed
}

// Omitted is the number of bytes between Head and Tail.
func (c Capture) Omitted() int64 { return c.Total - int64(len(c.Head)) - int64(len(c.Tail)) }

// capture keeps the first and the last keep bytes of what is written to it and
// copies the first limit bytes to a file. It never fails and never blocks on
// anything but the disk: a command must not notice that nobody reads.
type capture struct {
	keep  int
	head  []byte
	tail  []byte // ring once it has grown to keep
	next  int    // where the ring continues
	total int64
	lines int64

	path   string
	file   *os.File
	limit  int64
	logged int64
	logErr error
}

func (c *capture) Write(b []byte) (int, error) {
	n := len(b)
	c.total += int64(n)
	c.lines += int64(bytes.Count(b, []byte{'\n'}))
	c.logBytes(b)
	if room := c.keep - len(c.head); room > 0 {
		take := min(room, len(b))
		c.head = append(c.head, b[:take]...)
		b = b[take:]
	}
	c.push(b)
	return n, nil
}

// push appends to the ring. Of a long b only the end matters.
func (c *capture) push(b []byte) {
	if len(b) > c.keep {
		b = b[len(b)-c.keep:]
	}
	if room := c.keep - len(c.tail); room > 0 {
		take := min(room, len(b))
		c.tail = append(c.tail, b[:take]...)
		b = b[take:]
	}
	for len(b) > 0 {
		n := copy(c.tail[c.next:], b)
		c.next = (c.next + n) % c.keep
		b = b[n:]
	}
}

func (c *capture) logBytes(b []byte) {
	if c.path == "" || c.logErr != nil || c.logged >= c.limit || len(b) == 0 {
		return
	}
	if c.file == nil {
		f, err := os.OpenFile(c.path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			c.logErr = fmt.Errorf("create log: %w", err)
			return
		}
		c.file = f
	}
	n, err := c.file.Write(b[:min(int64(len(b)), c.limit-c.logged)])
	c.logged += int64(n)
	if err != nil {
		c.logErr = fmt.Errorf("write log: %w", err)
	}
}

func (c *capture) result() Capture {
	if c.file != nil {
		if err := c.file.Close(); err != nil && c.logErr == nil {
			c.logErr = fmt.Errorf("close log: %w", err)
		}
	}
	tail := append(bytes.Clone(c.tail[c.next:]), c.tail[:c.next]...)
	return Capture{Head: c.head, Tail: tail, Total: c.total, Lines: c.lines, Logged: c.logged, LogErr: c.logErr}
}

// stream is the reading end of a command's pipe and what has come through it.
type stream struct {
	r    *os.File
	sink capture
	done chan error // the copying goroutine's last word
}

// newStream returns a stream and the end for the child to write to.
func newStream(keep int, path string, limit int64) (*stream, *os.File, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	s := &stream{r: r, done: make(chan error, 1)}
	s.sink = capture{keep: keep, path: path, limit: limit}
	return s, w, nil
}

// abandon closes a stream whose command never started.
func (s *stream) abandon(w *os.File) {
	s.r.Close()
	w.Close()
}

// copy starts reading. It ends at the end of the stream or at the deadline that
// finish sets.
func (s *stream) copy() {
	go func() {
		buf := make([]byte, 32<<10)
		for {
			n, err := s.r.Read(buf)
			if n > 0 {
				s.sink.Write(buf[:n])
			}
			if err != nil {
				s.done <- err
				return
			}
		}
	}()
}

// finish waits for the end of the stream, but not past deadline: a pipe that
// somebody else still holds open must not hold the caller.
func (s *stream) finish(deadline time.Time) Capture {
	s.r.SetReadDeadline(deadline)
	err := <-s.done
	s.r.Close()
	c := s.sink.result()
	c.Cut = errors.Is(err, os.ErrDeadlineExceeded)
	return c
}
