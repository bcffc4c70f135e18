package agentd

import (
	"context"
	"path/filepath"
	"sync"
	"time"

	"holon/agentd/privilege"
	"holon/agentd/record"
	"holon/agentd/turn"
	"holon/responses/turns"
)

// How often a running turn's output is measured, and what share of the time that
// may take at most: commands may have put any number of files there.
const (
	measurePause = time.Second
	measureShare = 20
)

// outputGauge knows whether a turn's directory, with its streams, the output of tools and what the agent made, holds
// more than it may. What the directory holds is counted, not what is written: anybody may write to it, and remove
// files. What the turn's journal has in other files once more counts once.
type outputGauge struct {
	turn  *record.Turn
	dir   string
	state string // the server's own directory, which may lie within dir
	limit int64
	users *privilege.Users

	mu   sync.Mutex
	rest time.Time // the present answer counts until then
	over bool
}

// full reports whether there is too much. Until the turn has run a tool, it looks
// only at what the turn has written itself.
func (g *outputGauge) full() bool {
	size, copied, alone := g.turn.Written()
	if alone {
		return size > g.limit
	}
	return g.measure(g.limit + copied)
}

// measure is full for whatever has written to the directory, which may hold limit.
func (g *outputGauge) measure(limit int64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	start := time.Now()
	if g.over || start.Before(g.rest) {
		return g.over
	}
	g.over = holdsMore(g.dir, g.state, limit, g.users)
	took := time.Since(start)
	g.rest = start.Add(took)
	if took > time.Millisecond { // a common directory is cheap enough to count anew
		g.rest = g.rest.Add(measureShare * took)
	}
	return g.over
}

// watch ends the turn when there is too much, until ctx ends.
func (g *outputGauge) watch(ctx context.Context, end context.CancelCauseFunc) {
	for tick := time.NewTicker(measurePause); ; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			tick.Stop()
			return
		}
		if g.full() {
			end(turn.ErrOutput)
		}
	}
}

// holdsMore reports whether the regular files under dir, but for those under
// skip, have more than limit bytes, or are more than can be counted.
func holdsMore(dir, skip string, limit int64, users *privilege.Users) bool {
	m := diskMeter{limit: limit, skip: skip, users: users, theirs: filepath.Join(dir, turns.ArtifactsDir)}
	return m.add(dir) != nil
}
