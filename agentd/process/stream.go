package process

import (
	"errors"
	"os"
	"sync"
	"time"
)

// readSize is how much is read at once. So much memory a silent stream costs.
const readSize = 16 << 10

// stream is our end of a command's output and what has come through it.
type stream struct {
	r    *os.File
	done chan struct{} // closed when copying has ended

	mu    sync.Mutex
	sink  capture
	ended bool
	cut   bool
}

func newStream(r *os.File, sink capture) *stream {
	return &stream{r: r, sink: sink, done: make(chan struct{})}
}

// output is what the caller of a piped command reads.
type output struct {
	s   *stream
	end func() // tells finish that nothing more is read
}

func (s *stream) reader() *output {
	return &output{s, sync.OnceFunc(func() { close(s.done) })}
}

// Read reads until the end of the stream, the end of the command and its drain
// bound, or Close.
func (o *output) Read(b []byte) (int, error) {
	n, err := o.s.r.Read(b)
	if err != nil {
		o.end()
	}
	return n, err
}

// Close makes Read return. Further writes of the command fail with SIGPIPE or an error.
func (o *output) Close() error {
	defer o.end()
	return o.s.r.Close()
}

// abandon ends a stream that the caller does not read to its end.
func (o *output) abandon(deadline time.Time) {
	_ = o.s.r.SetReadDeadline(deadline) // it may be closed
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	select {
	case <-o.s.done:
	case <-timer.C:
		_ = o.Close()
	}
}

// copy starts reading. It ends at the end of the stream, which a terminal that no process has open any more reports as
// EIO, or at the deadline that finish sets.
func (s *stream) copy() {
	go func() {
		defer close(s.done)
		var err error
		for buf := make([]byte, readSize); err == nil; {
			var n int
			n, err = s.r.Read(buf)
			s.mu.Lock()
			s.sink.Write(buf[:n])
			s.mu.Unlock()
		}
		s.mu.Lock()
		s.ended, s.cut = true, errors.Is(err, os.ErrDeadlineExceeded)
		s.mu.Unlock()
	}()
}

func (s *stream) snapshot() Capture {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.sink.result()
	c.Open, c.Cut = !s.ended, s.cut
	return c
}

// finish waits for the end of the stream, but not past deadline: a pipe that another process still holds open must not
// block the caller.
func (s *stream) finish(deadline time.Time) Capture {
	_ = s.r.SetReadDeadline(deadline)
	<-s.done
	s.r.Close()
	s.mu.Lock()
	s.sink.close()
	s.mu.Unlock()
	return s.snapshot()
}
