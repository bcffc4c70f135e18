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

// MaxEvent bounds one event on the wire, framing included. A terminal event
// carries the whole response, so it must be generous.
const MaxEvent = 32 << 20

// Reasons for which a stream ends early.
var (
	// ErrTruncated says that the stream ended without a terminal event.
	ErrTruncated = errors.New("the event stream ended before its terminal event")
	// ErrTooLarge says that an event exceeds MaxEvent.
	ErrTooLarge = fmt.Errorf("an event of the stream exceeds %d MiB", MaxEvent>>20)
)

// done is the data of the SSE event that ends a stream; it is no JSON.
const done = "[DONE]"

// Events reads encoded events from r until the stream says that it is over: by
// [DONE], or by its end. Each slice is the JSON of one event and is only valid
// until the next iteration. The error ends the sequence and comes with no data:
// ErrTruncated when the end came before a response.completed, .failed or
// .incomplete or an error event, ErrTooLarge, or the error of r.
//
// Events does not close r.
func Events(r io.Reader, f Framing) iter.Seq2[[]byte, error] {
	frames := sseData(r)
	if f == NDJSON {
		frames = Lines(r)
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
			if f == SSE && string(data) == done {
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

// ends reports whether nothing but the end may follow the event.
func ends(data []byte) bool {
	t := responses.EventType(data)
	if t == "" { // an encoder of others, which put the type elsewhere
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

// sseData yields the data of each server-sent event.
func sseData(r io.Reader) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		var buf []byte
		for ev, err := range sse.Read(&blockReader{r: r}, &sse.ReadConfig{MaxEventSize: MaxEvent + 4096}) {
			if err != nil {
				yield(nil, fmt.Errorf("read event stream: %w", err))
				return
			}
			if ev.Data == "" {
				continue
			}
			buf = append(buf[:0], ev.Data...)
			if !yield(buf, nil) {
				return
			}
		}
	}
}

// Lines yields the lines of r without their line ends, LF or CRLF, skipping
// empty ones. A line is only valid until the next iteration and has at most
// MaxEvent bytes. A last line without a line end is yielded when it is whole
// JSON, and is io.ErrUnexpectedEOF otherwise.
func Lines(r io.Reader) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		in := bufio.NewReaderSize(r, 64<<10)
		var long []byte // a line that exceeds in's buffer
		for {
			line, err := in.ReadSlice('\n')
			if errors.Is(err, bufio.ErrBufferFull) || len(long) > 0 {
				if len(long)+len(line) > MaxEvent {
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
