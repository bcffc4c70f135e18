package stream

import (
	"bytes"
	"io"
)

// blockReader cuts a stream of server-sent events into blocks: an event with
// the blank line that ends it. Every byte is looked at once, however small the
// pieces are in which a large event comes. What follows the last blank line is
// dropped at the end, as the standard demands.
type blockReader struct {
	r     io.Reader
	limit int   // bytes of a block
	err   error // sticky error of r, given out after the blocks that are whole

	buf     []byte
	room    int  // bytes to read at once, 0 before the first read
	off     int  // given out up to here
	scanned int  // looked at up to here
	inLine  bool // the current line is not empty
	afterCR bool // the last byte was CR, so an LF belongs to it
	blank   bool // that CR ended an empty line
	ready   int  // end of the next block, 0 when it is not known
}

// next returns the next block. It is valid until the call after.
func (b *blockReader) next() ([]byte, error) {
	for b.scan(); b.ready == 0; b.scan() {
		if b.err != nil {
			return nil, b.err
		}
		b.err = b.fill()
	}
	block := b.buf[b.off:b.ready]
	b.off, b.ready = b.ready, 0
	return block, nil
}

// The room for one read: a stream that trickles needs little, one that floods
// gets more with each read that filled what it had.
const (
	firstRoom = 2 << 10
	mostRoom  = 16 << 10
)

// fill reads once from r.
func (b *blockReader) fill() error {
	b.room = max(b.room, firstRoom)
	if b.off > 0 { // copying an event onto itself, read by read, would be quadratic
		b.buf = b.buf[:copy(b.buf, b.buf[b.off:])]
		b.scanned -= b.off
		b.off = 0
	}
	if len(b.buf) > b.limit {
		return ErrTooLarge
	}
	if cap(b.buf)-len(b.buf) < b.room {
		b.buf = append(make([]byte, 0, min(2*len(b.buf), b.limit)+b.room), b.buf...)
	}
	for range 100 {
		n, err := b.r.Read(b.buf[len(b.buf):cap(b.buf)])
		b.buf = b.buf[:len(b.buf)+n]
		if len(b.buf) == cap(b.buf) {
			b.room = min(2*b.room, mostRoom)
		}
		if n > 0 || err != nil {
			return err
		}
	}
	return io.ErrNoProgress
}

// scan looks for the blank line that ends the next block. An LF after the CR of
// a blank line belongs to the block, when it is there.
func (b *blockReader) scan() {
	for b.scanned < len(b.buf) {
		c := b.buf[b.scanned]
		switch {
		case c == '\n' && b.afterCR:
			b.afterCR = false
			b.scanned++
			if b.blank && b.scanned-1 == b.off { // it came after its block was given out
				b.off++
			}
		case c == '\n' || c == '\r':
			ended := !b.inLine
			b.afterCR, b.blank, b.inLine = c == '\r', ended, false
			b.scanned++
			if !ended {
				break
			}
			if b.afterCR && b.scanned < len(b.buf) && b.buf[b.scanned] == '\n' {
				b.afterCR = false
				b.scanned++
			}
			b.ready = b.scanned
			return
		default:
			b.inLine, b.afterCR = true, false
			b.scanned += lineLength(b.buf[b.scanned:])
		}
	}
}

// lineLength returns how many bytes come before the first line end.
func lineLength(s []byte) int {
	if n := bytes.IndexByte(s, '\n'); n >= 0 {
		s = s[:n]
	}
	if n := bytes.IndexByte(s, '\r'); n >= 0 {
		return n
	}
	return len(s)
}
