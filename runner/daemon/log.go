package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"time"

	"holon/internal/durable"
)

// lookEvery is how often a log is looked at that grows.
const lookEvery = time.Minute

// KeepLog bounds the log of a daemon that runs for long, until ctx ends: what the
// process writes to out is moved to a file of the same name with .1 at its end
// when there is too much of it, in place of the one before. When out is not the
// daemon's log, which is so in the foreground, it does nothing. What is written in
// the very moment of the move may be lost.
func (d *Daemon) KeepLog(ctx context.Context, out *os.File) error {
	clock := time.NewTicker(lookEvery)
	defer clock.Stop()
	for {
		if err := d.files.turnLog(out, maxLog); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-clock.C:
		}
	}
}

// turnLog rotates the log when it exceeds most bytes. The log stays the same file for
// processes that have it open.
func (f files) turnLog(out *os.File, most int64) (err error) {
	mine, err := out.Stat()
	if err != nil || !mine.Mode().IsRegular() || mine.Size() <= most {
		return err
	}
	log, err := durable.Open(f.log())
	if err != nil {
		return nil // it is written to another file
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	if theirs, err := log.Stat(); err != nil || !os.SameFile(mine, theirs) {
		return err
	}
	old, err := os.OpenFile(f.log()+".1", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("move the daemon's log: %w", err)
	}
	if _, err = io.Copy(old, log); err == nil {
		err = out.Truncate(0)
	}
	if err = errors.Join(err, old.Close()); err != nil {
		return fmt.Errorf("move the daemon's log: %w", err)
	}
	return nil
}

const followPoll = 200 * time.Millisecond

// Follow yields the lines of the log that are written after logs were read, each once it is complete, until ctx ends or
// the log cannot be read. A daemon that begins its log anew is followed: the log is then shorter than it was.
func (d *Daemon) Follow(ctx context.Context, logs logEnd) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		clock := time.NewTicker(followPoll)
		defer clock.Stop()
		for at := logs.end; ; {
			data, err := d.files.readLog(&at)
			if err != nil {
				yield("", err)
				return
			}
			for line := range bytes.Lines(data) {
				if !yield(string(bytes.TrimSuffix(line, []byte("\n"))), nil) {
					return
				}
			}
			if len(data) > 0 {
				continue // there may be more
			}
			select {
			case <-ctx.Done():
				return
			case <-clock.C:
			}
		}
	}
}

// readLog reads complete lines of the log from at on, and moves at behind them. A line without end is given out in
// pieces of maxTail.
func (f files) readLog(at *int64) ([]byte, error) {
	data, begin, err := f.read(func(size int64) int64 {
		if size < *at {
			return 0
		}
		return *at
	})
	if err != nil {
		return nil, err
	}
	if len(data) < maxTail {
		data = data[:bytes.LastIndexByte(data, '\n')+1]
	}
	*at = begin + int64(len(data))
	return data, nil
}
