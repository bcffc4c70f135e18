package conform

import (
	"bytes"
	"fmt"

	"holon/responses/stream"
)

// CheckStream checks the bytes and the events of a whole stream in framing f. The error is a *Violation.
func CheckStream(data []byte, f stream.Framing) error { return new(Checker).Stream(data, f) }

// Stream is CheckStream with c. It asks for what every reader can take, which
// is less than the standards allow: LF only, each SSE event as one event field
// that names its type and one data field, no ids, heartbeats that are comments
// with a single line end, [DONE] at the end; in NDJSON nothing but events.
func (c *Checker) Stream(data []byte, f stream.Framing) error {
	sse := sseReader{c: c}
	for line := range bytes.Lines(data) {
		body, ended := bytes.CutSuffix(line, []byte{'\n'})
		var err error
		switch {
		case !ended:
			err = c.framing("the last line has no line end: %.60q", line)
		case bytes.IndexByte(body, '\r') >= 0:
			err = c.framing("a line has a CR, which some readers take for text: %.60q", line)
		case len(line) > stream.MaxEvent+4096:
			err = c.framing("a line has %d bytes", len(line))
		case f == stream.SSE:
			err = sse.line(body)
		case len(body) == 0:
			err = c.framing("a line is empty")
		default:
			err = c.Event(body)
		}
		if err != nil {
			return err
		}
	}
	if err := sse.end(f); err != nil {
		return err
	}
	return c.End()
}

func (c *Checker) framing(format string, args ...any) error {
	if c.err == nil {
		c.err = &Violation{Rule: RuleFraming, Index: c.index, Detail: fmt.Sprintf(format, args...)}
	}
	return c.err
}

type sseReader struct {
	c           *Checker
	event, data string
	hasData     bool
	done        bool // [DONE] was seen
}

func (s *sseReader) line(body []byte) error {
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

func (s *sseReader) end(f stream.Framing) error {
	switch {
	case f != stream.SSE:
	case s.hasData || s.event != "":
		return s.c.framing("the last event is cut off")
	case !s.done && s.c.state == hasEnded:
		return s.c.framing("[DONE] is missing at the end")
	}
	return nil
}
