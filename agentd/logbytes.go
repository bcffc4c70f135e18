package agentd

import (
	"log/slog"
	"math"
	"path/filepath"
	"sync"
	"time"

	"holon/agentd/process"
	"holon/responses/turns"
)

// recountRest is how long a count of the output of commands in files holds at least.
const recountRest = time.Second

// logBytes bounds what the commands of all turns leave in files. The caller owns
// the directories of turns and adds and removes them without notice, so the bytes in
// use are counted: before the first turn, and before one that might lack some.
type logBytes struct {
	dir    string
	limit  int64
	log    *slog.Logger
	budget *process.Budget

	mu      sync.Mutex // held while it counts
	counted time.Time
}

func newLogBytes(dir string, limit int64, log *slog.Logger) *logBytes {
	return &logBytes{dir: dir, limit: limit, log: log, budget: process.NewBudget(limit, nil)}
}

// turn returns the budget of a turn, which is part of that of all.
func (l *logBytes) turn(limit int64) *process.Budget {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.counted.IsZero() || l.budget.Left() < limit && time.Since(l.counted) > recountRest {
		if err := l.budget.Recount(l.limit, func() (int64, error) { return loggedUnder(l.dir) }); err != nil {
			l.log.Warn("the output that commands left in files could not be counted", "err", err)
		}
		l.counted = time.Now()
	}
	return process.NewBudget(limit, l.budget)
}

// loggedUnder adds up the files of tool calls, tools/<call>/<file>, in the
// directories of turns under dir.
func loggedUnder(dir string) (int64, error) {
	m := diskMeter{limit: math.MaxInt64, counts: func(path string) bool {
		return filepath.Base(filepath.Dir(filepath.Dir(path))) == turns.ToolsDir
	}}
	err := m.add(dir)
	return m.total, err
}
