package daemon

import (
	"bytes"
	"context"
	"iter"
	"time"
)

const followPoll = 200 * time.Millisecond

// Follow yields the lines of the log that are written after logs were read, each once it is complete, until ctx ends or
// the log cannot be read. A daemon that begins its log anew is followed: the log is then shorter than it was.
func (d *Daemon) Follow(ctx context.Context, logs Logs) iter.Seq2[string, error] {
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
