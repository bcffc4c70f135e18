package stream

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/tmaxmax/go-sse"

	"holon/responses"
)

// MaxEvent bounds one event on the wire, framing included, for a reader that sets
// no bound of its own. A terminal event carries the whole response, so it must be
// generous.
const MaxEvent = 32 << 20

// Reasons for which a stream ends early.
var (
	// ErrTruncated says that the stream ended without a terminal event.
	ErrTruncated = errors.New("the event stream ended before its terminal event")
	// ErrTooLarge says that an event exceeds the reader's bound.
	ErrTooLarge = errors.New("an event of the stream is too large")
)

// done is the data of the SSE event that ends a stream; it is not JSON.
const done = "[DONE]"

// Decoder reads one stream with a bound of its own, or the data of any
// server-sent events. It belongs to one goroutine.
type Decoder struct {
	framing Framing
	r       io.Reader
	limit   int // bytes of an event
}

// NewDecoder returns a decoder of the stream that r holds in framing f, with
// events of at most MaxEvent bytes.
func NewDecoder(r io.Reader, f Framing) *Decoder {
	return &Decoder{framing: f, r: r, limit: MaxEvent}
}

// Limit bounds each event to so many bytes, framing included, and returns d. What
// the decoder itself holds stays below three times the bound.
func (d *Decoder) Limit(bytes int) *Decoder {
	d.limit = bytes
	return d
}

// Events reads encoded events until the stream says that it is over: by [DONE], or by its end. Each slice is the JSON
// of one event and is only valid until the next iteration. The error ends the sequence and comes with no data:
// ErrTruncated when the end came before a response.completed, .failed or .incomplete or an error event, ErrTooLarge, or
// the error of the reader, which Events does not close. The sequence can be iterated once.
func (d *Decoder) Events() iter.Seq2[[]byte, error] {
	frames := d.Data()
	if d.framing == NDJSON {
		frames = d.Lines()
	}
	return func(yield func([]byte, error) bool) {
		ended := false
		for data, err := range frames {
			switch {
			case err != nil && ended:
				return // the stream was complete; how the connection died says nothing
			case errors.Is(err, io.ErrUnexpectedEOF):
				yield(nil, fmt.Errorf("%w: %w", ErrTruncated, err))
				return
			case err != nil:
				yield(nil, err)
				return
			}
			if d.framing == SSE && string(data) == done {
				break
			}
			ended = ended || ends(data)
			if !yield(data, nil) {
				return
			}
		}
		if !ended {
			yield(nil, ErrTruncated)
		}
	}
}

// ends reports whether the event is the last one of a stream.
func ends(data []byte) bool {
	t := responses.EventType(data)
	if t == "" { // another encoder, which put the type elsewhere
		var head struct {
			Type string `json:"type"`
		}
		if json.Unmarshal(data, &head) != nil {
			return false
		}
		t = head.Type
	}
	return responses.Terminal(t) || t == responses.EventError
}

// Frame is one server-sent event.
type Frame struct{ Name, Data string }

// Frames returns the server-sent events of any protocol that have data, [DONE]
// included, until the reader ends. The error ends the sequence and comes with no
// event: ErrTooLarge or the reader's. It can be iterated once, instead of Events.
func (d *Decoder) Frames() iter.Seq2[Frame, error] {
	return func(yield func(Frame, error) bool) {
		blocks := newBlockReader(d.r, d.limit)
		for event, err := range sse.Read(blocks, &sse.ReadConfig{MaxEventSize: d.limit + 4096}) {
			if err != nil {
				yield(Frame{}, fmt.Errorf("read event stream: %w", err))
				return
			}
			if event.Data != "" && !yield(Frame{event.Type, event.Data}, nil) {
				return
			}
		}
	}
}

// Data is Frames without the names. Each slice is only valid until the next iteration.
func (d *Decoder) Data() iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for frame, err := range d.Frames() {
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield([]byte(frame.Data), nil) {
				return
			}
		}
	}
}

// Lines yields the lines of a stream of NDJSON without their line ends, LF or
// CRLF, and skips empty ones. It does not look into them. A line is only valid until the
// next iteration and ErrTooLarge beyond the bound. A last line without a line end
// is yielded when it is whole JSON, and is io.ErrUnexpectedEOF otherwise. It can be
// iterated once, instead of Events.
func (d *Decoder) Lines() iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		in := bufio.NewReaderSize(d.r, min(64<<10, d.limit))
		var long []byte // a line that exceeds in's buffer
		for {
			line, err := in.ReadSlice('\n')
			if errors.Is(err, bufio.ErrBufferFull) || len(long) > 0 {
				if len(long)+len(line) > d.limit {
					yield(nil, ErrTooLarge)
					return
				}
				long = append(long, line...)
				line = long
			}
			if errors.Is(err, bufio.ErrBufferFull) {
				continue
			}
			line = bytes.TrimRight(line, "\r\n")
			switch {
			case errors.Is(err, io.EOF) && len(line) > 0 && !json.Valid(line):
				yield(nil, fmt.Errorf("read event stream: the last line is cut off: %w", io.ErrUnexpectedEOF))
				return
			case err != nil && !errors.Is(err, io.EOF):
				yield(nil, fmt.Errorf("read event stream: %w", err))
				return
			}
			if len(line) > 0 && !yield(line, nil) || err != nil {
				return
			}
			if cap(long) > 1<<20 {
				long = nil // one huge line must not pin its buffer
			}
			long = long[:0]
		}
	}
}
