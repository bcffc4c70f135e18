package record

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"holon/internal/buffers"
)

// Buffer sizes of a follower: it reads as much as there is up to the first, and
// grows to at most the second for a single line, which no event of ours exceeds.
const (
	followStep = 32 << 10
	followMax  = 64 << 20
)

// Follower reads a log from its beginning as it grows. It belongs to one goroutine,
// and holds no buffer while it waits.
type Follower struct {
	log *Log
	off int64
	buf []byte
}

// Follow returns a follower that starts at the first line. From the first one on
// lines are synced as they come.
func (l *Log) Follow() *Follower {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.followed = true; l.owed && l.err == nil && !l.ended {
		l.repay()
	}
	return &Follower{log: l}
}

// Next returns the next complete lines, each with its line end; the slice is
// valid until the call after. It waits for new lines and returns io.EOF when
// the log has ended, the log's own error when the disk failed, and ctx's error
// when ctx ended first. Lines that were visible before are returned first.
func (f *Follower) Next(ctx context.Context) ([]byte, error) {
	for {
		visible, ended, change, logErr := f.log.state()
		if f.off < visible {
			lines, err := f.read(visible)
			if err != nil || len(lines) > 0 {
				return lines, err
			}
			continue
		}
		switch {
		case logErr != nil:
			return nil, logErr
		case ended:
			return nil, io.EOF
		}
		buffers.Put(f.buf)
		f.buf = nil
		select {
		case <-change:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// Waiting reports whether Next would have to wait: everything visible was
// returned. A writer flushes when there is nothing more to send.
func (f *Follower) Waiting() bool {
	visible, _, _, _ := f.log.state()
	return f.off >= visible
}

func (l *Log) state() (visible int64, ended bool, change <-chan struct{}, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.visible, l.ended, l.change, l.err
}

// read returns whole lines from the file, at most up to limit. Because limit
// always falls on a line end, a buffer without one only needs to grow.
func (f *Follower) read(limit int64) ([]byte, error) {
	for want := int(min(followStep, limit-f.off)); ; want *= 2 {
		if want > followMax {
			return nil, errors.New("read event log: a line exceeds 64 MiB")
		}
		if cap(f.buf) < want {
			buffers.Put(f.buf)
			f.buf = buffers.Get(want)
		}
		part := f.buf[:min(int64(cap(f.buf)), limit-f.off)]
		if _, err := f.log.file.ReadAt(part, f.off); err != nil {
			return nil, fmt.Errorf("read event log: %w", err)
		}
		if end := bytes.LastIndexByte(part, '\n'); end >= 0 {
			f.off += int64(end + 1)
			if cap(f.buf) > 16*followStep {
				f.buf = nil // one huge line must not pin its buffer
			}
			return part[:end+1], nil
		}
	}
}

// Lines calls fn for each complete line of an ended or growing log as it
// stands now, without waiting. fn's slice is valid during the call.
func (l *Log) Lines(fn func(line []byte) error) error {
	f := l.Follow()
	for !f.Waiting() {
		chunk, err := f.Next(context.Background())
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		for line := range bytes.Lines(chunk) {
			if err := fn(bytes.TrimRight(line, "\n")); err != nil {
				return err
			}
		}
	}
	return nil
}
