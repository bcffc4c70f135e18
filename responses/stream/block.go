package stream

import "io"

// blockReader hands on whole server-sent events: it holds bytes back until the
// blank line that ends their event. The parser behind it looks at everything it
// holds whenever more arrives, so a peer that sends a large event in small
// pieces would otherwise cost time in the square of its size. What follows the
// last blank line is dropped at the end, as the standard demands.
type blockReader struct {
	r   io.Reader
	err error // sticky error of r, given out after what is ready

	buf     []byte
	off     int  // handed on up to here
	ready   int  // whole events up to here
	inLine  bool // the current line is not empty
	afterCR bool // the last byte was CR, so an LF belongs to it
	blank   bool // that CR ended an empty line
}

// Read implements io.Reader. It returns data or an error, never both.
func (b *blockReader) Read(p []byte) (int, error) {
	for b.off == b.ready {
		if b.err != nil {
			return 0, b.err
		}
		if err := b.fill(); err != nil {
			b.err = err
		}
	}
	n := copy(p, b.buf[b.off:b.ready])
	b.off += n
	return n, nil
}

// fill reads once from r and looks for ends of events in what came.
func (b *blockReader) fill() error {
	const step = 16 << 10
	if b.off > 0 { // copying an event onto itself, read by read, would be quadratic too
		b.buf = b.buf[:copy(b.buf, b.buf[b.off:])]
		b.off, b.ready = 0, 0
	}
	if len(b.buf) >= MaxEvent {
		return ErrTooLarge
	}
	if cap(b.buf)-len(b.buf) < step {
		b.buf = append(make([]byte, 0, 2*len(b.buf)+step), b.buf...)
	}
	for range 100 {
		start := len(b.buf)
		n, err := b.r.Read(b.buf[start:cap(b.buf)])
		b.buf = b.buf[:start+n]
		b.scan(start)
		if n > 0 || err != nil {
			return err
		}
	}
	return io.ErrNoProgress
}

// scan looks at b.buf[from:] and moves ready behind the last blank line.
func (b *blockReader) scan(from int) {
	for i := from; i < len(b.buf); i++ {
		c := b.buf[i]
		switch {
		case c == '\n' && b.afterCR:
			b.afterCR = false
			if b.blank {
				b.ready = i + 1
			}
		case c == '\n' || c == '\r':
			b.afterCR, b.blank = c == '\r', !b.inLine
			if b.blank {
				b.ready = i + 1
			}
			b.inLine = false
		default:
			b.inLine, b.afterCR = true, false
		}
	}
}
