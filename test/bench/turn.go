package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"holon/responses"
	"holon/responses/turns"
	"holon/runner"
	"holon/runner/workspace"
)

// warm is a session whose container runs, with what stands in front of it.
type warm struct {
	session *runner.Session
	relay   subject // the floor of its turns
}

// warmUp starts a session without a tree, and the relay.
func (r *rig) warmUp(ctx context.Context) (*warm, error) {
	relay, err := r.serveRelay(ctx)
	if err != nil {
		return nil, err
	}
	r.later(relay.stop)
	gw, err := r.newGateway()
	if err != nil {
		return nil, err
	}
	r.later(func() error { gw.Close(); return nil })
	config, err := r.session(gw)
	if err != nil {
		return nil, err
	}
	session, err := runner.Start(ctx, config)
	if err != nil {
		return nil, err
	}
	r.later(func() error { return session.Close(cleanupContext()) })
	return &warm{session: session, relay: r.streamer("relay", relay)}, nil
}

// turn runs a turn and returns when its first event came, and when it ended.
func (w *warm) turn(ctx context.Context) (first, total time.Duration, err error) {
	watch := &firstEvent{began: time.Now()}
	result := w.session.Turn(ctx, runner.Turn{Prompt: "Say something.", Timeout: patience}, watch)
	total = time.Since(watch.began)
	switch {
	case result.Err != nil:
		return 0, 0, result.Err
	case result.Response.Status != responses.StatusCompleted:
		return 0, 0, fmt.Errorf("the turn ended as %s: %v", result.Response.Status, result.Response.Error)
	}
	return watch.after, total, nil
}

// firstEvent notes when the first event of a stream came.
type firstEvent struct {
	began time.Time
	once  sync.Once
	after time.Duration
}

func (f *firstEvent) Event(responses.Event) { f.once.Do(func() { f.after = time.Since(f.began) }) }

func (f *firstEvent) Fact(turns.RuntimeEvent) {}

// measureWarmTurn is P3: what a turn costs before its first event when the
// container runs: alone, and with a working copy of its own made first.
func measureWarmTurn(ctx context.Context, r *rig) (_ []row, err error) {
	end := r.scope()
	defer func() { err = errors.Join(err, end()) }()
	w, err := r.warmUp(ctx)
	if err != nil {
		return nil, err
	}
	alone, err := compare(ctx, plan{rounds: r.opts.rounds, samples: r.perRound(300, 15), block: r.perRound(300, 15)},
		w.relay,
		subject{"warm turn", func(ctx context.Context) ([]time.Duration, error) {
			first, total, err := w.turn(ctx)
			return []time.Duration{first, total}, err
		}})
	if err != nil {
		return nil, err
	}
	repo, err := r.newRepository(ctx, 5000)
	if err != nil {
		return nil, err
	}
	kept, err := repo.addTree(ctx)
	if err != nil {
		return nil, err
	}
	with, err := compare(ctx, plan{rounds: r.opts.rounds, samples: r.perRound(50, 3), block: 1},
		subject{"recycled tree and relay", func(ctx context.Context) ([]time.Duration, error) {
			return repo.relayOnce(ctx, kept, w)
		}},
		subject{"working copy and warm turn", func(ctx context.Context) ([]time.Duration, error) {
			return repo.turnOnce(ctx, w)
		}})
	if err != nil {
		return nil, err
	}
	return []row{
		timed("P3", "warm turn, submit → first event", "relay, durable", alone[1], alone[0], 0).ratioGoal(3),
		timed("P3", "the same with a copy of 5,000 files first", "git reset, clean, then relay", with[1], with[0],
			0).ratioGoal(1.56).
			parts("", with[1], 1, "open", "acquire", "first event").parts("floor ", with[0], 1, "reset", "first event"),
	}, nil
}

// relayOnce is the floor of a turn with a working copy of its own.
func (p *repository) relayOnce(ctx context.Context, tree string, w *warm) ([]time.Duration, error) {
	var watch stopwatch
	if err := watch.time(func() error { return recycle(ctx, tree) }); err != nil {
		return nil, err
	}
	took, err := w.relay.sample(ctx)
	if err != nil {
		return nil, err
	}
	watch.laps = append(watch.laps, took[0])
	return watch.all(), p.change(tree)
}

// turnOnce is a warm turn with a working copy of its own. The session's
// container has no tree: what is measured is the work, not where it is mounted.
func (p *repository) turnOnce(ctx context.Context, w *warm) ([]time.Duration, error) {
	before, _, err := p.wholeTurn(ctx, w)
	return before, err
}

// wholeTurn is a turn from its working copy to its diff. before holds what comes
// before the first event, all the overhead of the whole turn.
func (p *repository) wholeTurn(ctx context.Context, w *warm) (before []time.Duration, all time.Duration, err error) {
	var watch stopwatch
	var source *workspace.Source
	var tree *workspace.Tree
	if err = watch.time(func() (err error) { source, err = workspace.Open(ctx, p.workspace()); return }); err != nil {
		return nil, 0, err
	}
	if err = watch.time(func() (err error) { tree, err = source.Acquire(ctx); return }); err != nil {
		return nil, 0, err
	}
	first, total, err := w.turn(ctx)
	watch.laps = append(watch.laps, first)
	before = watch.all()
	if err == nil {
		err = p.change(tree.Dir())
	}
	laps, err := p.finish(ctx, &watch, tree, err)
	return before, laps[0] - first + total, err
}

// measureDecay is P16: whether turns become slower. A turn makes its working
// copy, runs in a warm container, changes files, is diffed and gives the copy
// back; its directories stay.
func measureDecay(ctx context.Context, r *rig) (_ []row, err error) {
	end := r.scope()
	defer func() { err = errors.Join(err, end()) }()
	w, err := r.warmUp(ctx)
	if err != nil {
		return nil, err
	}
	repo, err := r.newRepository(ctx, 5000)
	if err != nil {
		return nil, err
	}
	if _, _, err := repo.wholeTurn(ctx, w); err != nil { // fills the copy
		return nil, err
	}
	n := r.samples(200, 60)
	took := make([]time.Duration, n)
	for i := range took {
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		if _, took[i], err = repo.wholeTurn(ctx, w); err != nil {
			return nil, fmt.Errorf("turn %d: %w", i+1, err)
		}
	}
	const span = 20
	first, last := ms(median(took[:span])), ms(median(took[n-span:]))
	what := fmt.Sprintf("%d turns in a row, 5,000 files: the last %d", n, span)
	return []row{row{ID: "P16", What: what, Against: fmt.Sprintf("the first %d", span), Unit: unitMS, Floor: first,
		Ours: last, Ratio: last / first}.ratioGoal(1.2)}, nil
}
