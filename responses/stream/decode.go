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

// done is the data of the SSE event that ends a stream; it is no JSON.
const done = "[DONE]"

// Events reads encoded events from r until the stream says that it is over: by
// [DONE], or by its end. Each slice is the JSON of one event and is only valid
// until the next iteration. The error ends the sequence and comes with no data:
// ErrTruncated when the end came before a response.completed, .failed or
// .incomplete or an error event, ErrTooLarge, or the error of r.
//
// Events does not close r.
func Events(r io.Reader, f Framing) iter.Seq2[[]byte, error] { return NewDecoder(r, f).Events() }

// Decoder reads one stream with a bound of its own, or the data of any
// server-sent events. It belongs to one goroutine.
type Decoder struct {
	framing Framing
	blocks  blockReader // of server-sent events; of NDJSON, its reader and bound
}

// NewDecoder returns a decoder of the stream that r holds in framing f, with
// events of at most MaxEvent bytes.
func NewDecoder(r io.Reader, f Framing) *Decoder {
	return &Decoder{framing: f, blocks: blockReader{r: r, limit: MaxEvent}}
}

// Limit bounds each event to so many bytes, framing included, and returns d. What
// the decoder itself holds stays below three times the bound.
func (d *Decoder) Limit(bytes int) *Decoder {
	d.blocks.limit = bytes
	return d
}

// Events returns the sequence that [Events] describes. It can be iterated once.
func (d *Decoder) Events() iter.Seq2[[]byte, error] {
	frames := d.sseData()
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

// Data returns the data of server-sent events of any protocol, [DONE]
// included, until the reader ends. Each slice is only valid until the next
// iteration. The error ends the sequence and comes with no data: ErrTooLarge or
// the reader's. It can be iterated once, instead of Events.
func (d *Decoder) Data() iter.Seq2[[]byte, error] { return d.sseData() }

// ends reports whether the event is the last one of a stream.
func ends(data []byte) bool {
	t := responses.EventType(data)
	if t == "" { // another encoder, which put the type elsewhere
		if !mayEnd(data) {
			return false
		}
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

// mayEnd reports whether data could have the type of an event that ends a
// stream. Most events need no decoding then, which was a third of the work on a
// text with many deltas.
func mayEnd(data []byte) bool {
	for _, t := range endings {
		if bytes.Contains(data, t) {
			return true
		}
	}
	return bytes.IndexByte(data, '\\') >= 0 // a type can be spelt with escapes
}

var endings = [][]byte{[]byte(responses.EventCompleted), []byte(responses.EventFailed),
	[]byte(responses.EventIncomplete), []byte(`"` + responses.EventError + `"`)}

// sseData yields the data of each server-sent event.
func (d *Decoder) sseData() iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		first := true
		for {
			block, err := d.blocks.next()
			if errors.Is(err, io.EOF) {
				return
			}
			if err == nil && len(block) > d.blocks.limit {
				err = ErrTooLarge
			}
			if err != nil {
				yield(nil, fmt.Errorf("read event stream: %w", err))
				return
			}
			data, ok := plainData(block)
			if !ok {
				if data, err = d.parsedData(block, first); err != nil {
					yield(nil, fmt.Errorf("read event stream: %w", err))
					return
				}
			}
			first = first && len(bytes.Trim(block, "\r\n")) == 0 // go-sse does not count empty lines
			if len(data) > 0 && !yield(data, nil) {
				return
			}
		}
	}
}

// plainData returns the data of an event of the form that nearly all have: an
// event field or none, one data field, LF as line end. It is a part of block.
func plainData(block []byte) (data []byte, ok bool) {
	if bytes.IndexByte(block, '\r') >= 0 {
		return nil, false
	}
	if bytes.HasPrefix(block, []byte("event: ")) {
		block = block[bytes.IndexByte(block, '\n')+1:]
	}
	data, ok = bytes.CutPrefix(block, []byte("data: "))
	if !ok || len(data) < 2 || data[len(data)-1] != '\n' || data[len(data)-2] != '\n' {
		return nil, false
	}
	data = data[:len(data)-2]
	return data, bytes.IndexByte(data, '\n') < 0
}

// parsedData returns the data of any event, nil when it has none.
func (d *Decoder) parsedData(block []byte, first bool) (data []byte, err error) {
	if !first { // so that only the stream can begin with a byte order mark
		block = append([]byte(":\n"), block...)
	}
	for ev, err := range sse.Read(bytes.NewReader(block), &sse.ReadConfig{MaxEventSize: d.blocks.limit + 4096}) {
		if err != nil {
			return nil, err
		}
		data = append(data, ev.Data...) // a block is one event
	}
	return data, nil
}

// Lines yields the lines of a stream of NDJSON without their line ends, LF or
// CRLF, and skips empty ones. It does not look into them. A line is only valid until the
// next iteration and ErrTooLarge beyond the bound. A last line without a line end
// is yielded when it is whole JSON, and is io.ErrUnexpectedEOF otherwise. It can be
// iterated once, instead of Events.
func (d *Decoder) Lines() iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		in := bufio.NewReaderSize(d.blocks.r, min(64<<10, d.blocks.limit))
		var long []byte // a line that exceeds in's buffer
		for {
			line, err := in.ReadSlice('\n')
			if errors.Is(err, bufio.ErrBufferFull) || len(long) > 0 {
				if len(long)+len(line) > d.blocks.limit {
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
