package agentd

import (
	"context"
	"log/slog"
	"math"
	"path/filepath"
	"time"

	"holon/agentd/process"
	"holon/responses/turns"
)

// How often the output of commands in files is counted, and how long a count rests until the next one.
const (
	recountEvery = 10 * time.Minute
	recountRest  = time.Second
)

// logBytes bounds what the commands of all turns leave in files. The caller owns
// the directories of turns and adds and removes them without notice, so the bytes in
// use are counted: at the start, from time to time, and when few are left.
type logBytes struct {
	dir     string
	limit   int64
	log     *slog.Logger
	budget  *process.Budget
	counted chan struct{} // closed after the first count
	wake    chan struct{}
}

func newLogBytes(dir string, limit int64, log *slog.Logger) *logBytes {
	return &logBytes{
		dir: dir, limit: limit, log: log, budget: process.NewBudget(limit, nil),
		counted: make(chan struct{}), wake: make(chan struct{}, 1),
	}
}

// turn returns the budget of a turn, which is part of that of all.
func (l *logBytes) turn(limit int64) *process.Budget {
	if l.budget.Left() < limit {
		select {
		case l.wake <- struct{}{}:
		default: // it was woken before
		}
	}
	return process.NewBudget(limit, l.budget)
}

// await waits for the first count, which no start of the server waits for: a
// turn before it could use bytes that are not there.
func (l *logBytes) await(ctx context.Context) {
	select {
	case <-l.counted:
	case <-ctx.Done():
	}
}

// keep counts until ctx ends.
func (l *logBytes) keep(ctx context.Context) {
	for first := true; ; first = false {
		err := l.budget.Recount(l.limit, func() (int64, error) { return loggedUnder(ctx, l.dir) })
		if err != nil && ctx.Err() == nil {
			l.log.Warn("the output that commands left in files could not be counted", "err", err)
		}
		if first {
			close(l.counted)
		}
		select {
		case <-time.After(recountRest):
		case <-ctx.Done():
			return
		}
		select {
		case <-time.After(recountEvery):
		case <-l.wake:
		case <-ctx.Done():
			return
		}
	}
}

// loggedUnder adds up the files of tool calls, tools/<call>/<file>, in the
// directories of turns under dir.
func loggedUnder(ctx context.Context, dir string) (int64, error) {
	m := diskMeter{limit: math.MaxInt64, counts: func(path string) bool {
		return filepath.Base(filepath.Dir(filepath.Dir(path))) == turns.ToolsDir
	}}
	err := m.add(ctx, dir)
	return m.total, err
}
