package redact

import (
	"bytes"
	"encoding/json"
	"io"
	"sync"
)

// Writer takes the values of a Set out of everything that is written to another
// writer. A write that does not end a line may be passed on in part only; the rest
// goes with the next, or with Flush. A write that is one JSON object or array is
// treated as Set.JSON does. It is safe for concurrent use if no two writers of it
// share a line.
type Writer struct {
	mu        sync.Mutex
	to        io.Writer
	stream    *Stream
	set       *Set
	constants Constants
}

// Writer returns a writer that writes to to, which leaves the constants of JSON texts alone.
// Values that become known later count too.
func (s *Set) Writer(to io.Writer, constants Constants) *Writer {
	return &Writer{to: to, stream: s.Stream(), set: s, constants: constants}
}

// Allow leaves more constants alone from now on.
func (w *Writer) Allow(more Constants) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.constants = w.constants.With(more)
}

// Write implements io.Writer: it takes all of data or says why not.
func (w *Writer) Write(data []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []byte
	if !w.stream.Holds() && !w.set.Empty() && isDocument(data) {
		out = w.set.JSON(data, w.constants)
	} else {
		out = w.stream.Next(data)
	}
	if len(out) == 0 && len(data) > 0 {
		return len(data), nil
	}
	if _, err := w.to.Write(out); err != nil {
		return 0, err
	}
	return len(data), nil
}

// isDocument reports whether data is one JSON object or array and ends its line.
func isDocument(data []byte) bool {
	return bytes.HasSuffix(data, []byte("\n")) && (data[0] == '{' || data[0] == '[') && json.Valid(data)
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
