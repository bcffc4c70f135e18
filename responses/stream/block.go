package stream

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
)

// blockReader reads a stream of server-sent events and gives out an event only when it is whole, with the blank line
// that ends it. go-sse looks at all that it has again after every read, so that an event in many small pieces would
// cost it time quadratic in their number.
//
// The last event may lack its blank line, as some servers write it. It counts if its last line is whole JSON or
// [DONE]; otherwise the stream was cut off within it, and it is dropped.
type blockReader struct {
	blocks *bufio.Scanner
	rest   []byte // of the current block

	// of the block that the scanner fills
	seen int  // bytes that were looked at
	text bool // the current line is not empty
}

func newBlockReader(r io.Reader, limit int) *blockReader {
	b := &blockReader{blocks: bufio.NewScanner(r)}
	b.blocks.Buffer(nil, limit+1) // a scanner refuses what fills its buffer
	b.blocks.Split(b.split)
	return b
}

// Read implements io.Reader.
func (b *blockReader) Read(p []byte) (int, error) {
	if len(b.rest) == 0 {
		if !b.blocks.Scan() {
			if err := b.blocks.Err(); errors.Is(err, bufio.ErrTooLong) {
				return 0, ErrTooLarge
			} else if err != nil {
				return 0, err
			}
			return 0, io.EOF
		}
		b.rest = b.blocks.Bytes()
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

// split is a bufio.SplitFunc whose tokens end with an empty line. An LF after the CR of an empty line is a block of its
// own, which holds no event.
func (b *blockReader) split(data []byte, atEOF bool) (advance int, token []byte, err error) {
	for ; b.seen < len(data); b.seen++ {
		switch c := data[b.seen]; {
		case c != '\n' && c != '\r':
			b.text = true
		case c == '\n' && b.seen > 0 && data[b.seen-1] == '\r': // of one line end
		case b.text:
			b.text = false
		default:
			end := b.seen + 1
			b.seen = 0
			return end, data[:end], nil
		}
	}
	if !atEOF {
		return 0, nil, nil
	}
	last := bytes.TrimRight(data, "\r\n")
	last = last[bytes.LastIndexAny(last, "\r\n")+1:]
	if value, ok := bytes.CutPrefix(last, []byte("data:")); ok {
		if value = bytes.TrimSpace(value); string(value) == done || json.Valid(value) {
			return len(data), append(bytes.TrimRight(data, "\r\n"), "\n\n"...), nil
		}
	}
	return len(data), nil, nil
}
