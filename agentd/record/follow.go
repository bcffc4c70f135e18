package record

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"holon/responses/turns"
)

// Buffer sizes of a follower: it reads as much as there is up to the first, and grows to at most the second for a
// single line, which no line of ours exceeds.
const (
	followStep = 32 << 10
	followMax  = 64 << 20
)

// Follower reads a journal from its beginning as it grows. It belongs to one goroutine, and holds no buffer while it
// waits.
type Follower struct {
	journal *Journal
	sparse  bool
	off     int64
	buf     []byte
}

// Follow returns a follower that starts at the first line.
func (j *Journal) Follow() *Follower { return &Follower{journal: j} }

// FollowSparse is Follow for who wants no deltas, which do not wake it and come with what follows them.
func (j *Journal) FollowSparse() *Follower { return &Follower{journal: j, sparse: true} }

// Next returns the next complete lines, each with its line end; the slice is valid until the call after. It waits for
// new lines and returns io.EOF when the journal has ended, the reason when it broke off, and ctx's error when ctx
// ended first. Lines that were visible before are returned first.
func (f *Follower) Next(ctx context.Context) ([]byte, error) {
	for {
		visible, ended, change, broken := f.journal.state(f.off, f.sparse)
		switch {
		case f.off < visible:
			return f.next()
		case broken != nil:
			return nil, broken
		case ended:
			return nil, io.EOF
		}
		f.buf = nil
		select {
		case <-change:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// Waiting reports whether Next would have to wait: everything visible was returned. A writer flushes when there is
// nothing more to send.
func (f *Follower) Waiting() bool {
	visible, _, _, _ := f.journal.state(f.off, f.sparse)
	return f.off >= visible
}

// next returns lines that are visible now. Because what is visible always ends with a line, a buffer without the end
// of one only needs to grow.
func (f *Follower) next() ([]byte, error) {
	limit, _, _, _ := f.journal.state(f.off, f.sparse)
	for want := min(followStep, limit-f.off); want <= followMax; want *= 2 {
		if int64(cap(f.buf)) < want {
			f.buf = make([]byte, want)
		}
		part := f.buf[:min(int64(cap(f.buf)), limit-f.off)]
		if _, err := f.journal.file.ReadAt(part, f.off); err != nil {
			return nil, fmt.Errorf("read the journal: %w", err)
		}
		if end := bytes.LastIndexByte(part, '\n'); end >= 0 {
			f.off += int64(end + 1)
			if cap(f.buf) > 16*followStep {
				f.buf = nil // one huge line must not pin its buffer
			}
			return part[:end+1], nil
		}
	}
	return nil, errors.New("read the journal: a line exceeds 64 MiB")
}

// AppendStream appends the events of the response stream that lines of a journal hold, each with a line end.
func AppendStream(dst, lines []byte) []byte {
	for line := range bytes.Lines(lines) {
		if _, key, value, ok := turns.CutEntry(line); ok && key == turns.EntryStream {
			dst = append(append(dst, value...), '\n')
		}
	}
	return dst
}
