package redact

import (
	"io"
	"sync"
)

// Writer takes the values of a Set out of all that is written to another writer.
// A write that does not end a line may be passed on in part only; the rest goes
// with the next, or with Flush. It is safe for concurrent use if no two writers of
// it share a line.
type Writer struct {
	mu     sync.Mutex
	to     io.Writer
	stream *Stream
}

// Writer returns a writer to to. Values that become known later count too.
func (s *Set) Writer(to io.Writer) *Writer { return &Writer{to: to, stream: s.Stream()} }

// Write implements io.Writer: it takes all of data or says why not.
func (w *Writer) Write(data []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := w.stream.Next(data)
	if len(out) == 0 && len(data) > 0 {
		return len(data), nil
	}
	if _, err := w.to.Write(out); err != nil {
		return 0, err
	}
	return len(data), nil
}

// Flush writes what was held back: nothing follows, or nothing soon.
func (w *Writer) Flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	rest := w.stream.Rest()
	if len(rest) == 0 {
		return nil
	}
	_, err := w.to.Write(rest)
	return err
}
