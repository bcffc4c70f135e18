package conform

import (
	"bufio"
	"bytes"
	"fmt"
	"io"

	"holon/responses/stream"
)

// CheckStream reads a whole stream in framing f from r and checks its bytes and
// its events. The error is a *Violation, or the error of r.
func CheckStream(r io.Reader, f stream.Framing) error { return new(Checker).Stream(r, f) }

// Stream is CheckStream with c. It asks for what every reader can take, which
// is less than the standards allow: LF only, each SSE event as one event field
// that names its type and one data field, no ids, heartbeats that are comments
// with a single line end, [DONE] at the end; in NDJSON nothing but events.
func (c *Checker) Stream(r io.Reader, f stream.Framing) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, stream.MaxEvent+4096)
	lines.Split(splitLF)
	line := c.ndjsonLine
	if f == stream.SSE {
		line = (&sseReader{c: c}).line
	}
	for lines.Scan() {
		if err := line(lines.Bytes()); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read event stream: %w", err)
	}
	if err := line(nil); err != nil {
		return err
	}
	return c.End()
}

// splitLF is bufio.ScanLines, but keeps line ends.
func splitLF(data []byte, atEOF bool) (int, []byte, error) {
	if i := bytes.IndexByte(data, '\n'); i >= 0 {
		return i + 1, data[:i+1], nil
	}
	if atEOF && len(data) > 0 {
		return len(data), data, nil
	}
	return 0, nil, nil
}

// framing notes a violation of the bytes on the wire.
func (c *Checker) framing(format string, args ...any) error {
	if c.err == nil {
		c.err = &Violation{Rule: RuleFraming, Index: c.index, Detail: fmt.Sprintf(format, args...)}
	}
	return c.err
}

// cutLine takes the line end off; the empty line is the end of the stream.
func (c *Checker) cutLine(line []byte) ([]byte, error) {
	body, ok := bytes.CutSuffix(line, []byte{'\n'})
	if !ok {
		return nil, c.framing("the last line has no line end: %.60q", line)
	}
	if bytes.IndexByte(body, '\r') >= 0 {
		return nil, c.framing("a line has a CR, which some readers take for text: %.60q", line)
	}
	return body, nil
}

func (c *Checker) ndjsonLine(line []byte) error {
	if len(line) == 0 {
		return nil
	}
	body, err := c.cutLine(line)
	if err != nil {
		return err
	}
	if len(body) == 0 {
		return c.framing("a line is empty")
	}
	return c.Event(body)
}

// sseReader checks server-sent events line by line.
type sseReader struct {
	c           *Checker
	event, data string
	hasData     bool
	done        bool // [DONE] was seen
}

func (s *sseReader) line(line []byte) error {
	if len(line) == 0 {
		return s.end()
	}
	body, err := s.c.cutLine(line)
	if err != nil {
		return err
	}
	if s.done {
		return s.c.framing("something follows [DONE]: %.60q", body)
	}
	field, value, _ := bytes.Cut(body, []byte{':'})
	value = bytes.TrimPrefix(value, []byte{' '})
	switch {
	case len(body) == 0:
		return s.dispatch()
	case len(field) == 0: // a comment
		return nil
	case string(field) == "event" && s.event == "":
		s.event = string(value)
		return nil
	case string(field) == "data" && !s.hasData:
		s.data, s.hasData = string(value), true
		return nil
	}
	return s.c.framing("field %q has no place here: an event is one event field and one data field", field)
}

func (s *sseReader) dispatch() error {
	event, data := s.event, s.data
	if !s.hasData {
		return s.c.framing("a blank line ends an event that has no data")
	}
	s.event, s.data, s.hasData = "", "", false
	if data == "[DONE]" {
		s.done = true
		return nil
	}
	if err := s.c.Event([]byte(data)); err != nil {
		return err
	}
	if event != s.c.typ {
		return s.c.framing("the event field says %q and the type is %q", event, s.c.typ)
	}
	return nil
}

func (s *sseReader) end() error {
	switch {
	case s.hasData || s.event != "":
		return s.c.framing("the last event is cut off")
	case !s.done && s.c.state == hasEnded:
		return s.c.framing("[DONE] is missing at the end")
	}
	return nil
}
