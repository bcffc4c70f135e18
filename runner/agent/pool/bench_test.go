package pool_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"holon/responses"
	"holon/responses/turns"
	"holon/runner"
	"holon/runner/agent/pool"
	"holon/runner/engine"
)

const answering = `
rounds: [{text: done}]
`

// first notes when the first event of a turn came.
type first struct{ at time.Time }

func (f *first) Event(responses.Event) {
	if f.at.IsZero() {
		f.at = time.Now()
	}
}
func (*first) Fact(turns.RuntimeEvent) {}

// BenchmarkTurn is P3: a turn of an agent whose container runs, from asking the
// pool to the first event, and, for comparison, the same turn of a bare session.
func BenchmarkTurn(b *testing.B) {
	l := newLab(b, "docker", answering)
	k := l.pool()
	l.agent("ada")
	bare := l.bare()
	var ours, theirs []time.Duration
	for i := 0; b.Loop(); i++ {
		f, begin := new(first), time.Now()
		r, err := k.Turn(b.Context(), pool.Turn{AgentID: "ada",
			Turn: runner.Turn{ID: responses.NewID(responses.PrefixTurn), Prompt: "go on"}}, nil, f)
		if err != nil || r.Status != responses.StatusCompleted {
			b.Fatal(r, err)
		}
		pooled := f.at.Sub(begin)
		f, begin = new(first), time.Now()
		if r := bare.Turn(b.Context(), runner.Turn{Prompt: "go on"}, f); r.Err != nil {
			b.Fatal(r.Err)
		}
		if i > 0 { // the first made the container
			ours, theirs = append(ours, pooled), append(theirs, f.at.Sub(begin))
		}
	}
	report(b, "pool", ours)
	report(b, "session", theirs)
}

// BenchmarkResume is P18: a turn of an agent whose container is paused, from
// asking the pool to the first event, and the engine's part in that.
func BenchmarkResume(b *testing.B) {
	l := newLab(b, "docker", answering)
	k := l.pool()
	l.agent("ada")
	var turn, resume []time.Duration
	for i := 0; b.Loop(); i++ {
		f, begin := new(first), time.Now()
		r, err := k.Turn(b.Context(), pool.Turn{AgentID: "ada",
			Turn: runner.Turn{ID: responses.NewID(responses.PrefixTurn), Prompt: "go on"}}, nil, f)
		if err != nil || r.Status != responses.StatusCompleted {
			b.Fatal(r, err)
		}
		if i > 0 {
			turn = append(turn, f.at.Sub(begin))
		}
		pauser, h := l.engine.(engine.Pauser), l.only().Handle
		if err := pauser.Pause(b.Context(), h); err != nil {
			b.Fatal(err)
		}
		begin = time.Now()
		if err := pauser.Resume(b.Context(), h); err != nil {
			b.Fatal(err)
		}
		resume = append(resume, time.Since(begin))
		l.clock.pass(60000000000)
		l.sweep(k)
	}
	report(b, "turn", turn)
	report(b, "engine", resume)
}

// bare is a session of the same kind that no pool has.
func (l *lab) bare() *runner.Session {
	l.t.Helper()
	s, err := runner.Start(l.t.Context(), runner.Config{
		ID: "bench", Engine: l.engine, Agentd: agentd, Image: image, Log: l.options().Log, Dir: l.t.TempDir(),
		SocketDir: l.home.IPCDir("bench"), Labels: map[string]string{"holon.bench": "pool"},
		Models:      runner.Models{Model: "scripted/x", Scenario: l.scenario},
		Confinement: runner.Confinement{Memory: 512 << 20},
	})
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() {
		if err := s.Close(context.Background()); err != nil {
			l.t.Error(err)
		}
	})
	return s
}

func report(b *testing.B, what string, took []time.Duration) {
	if len(took) == 0 {
		return
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, what+"-ms")
}
