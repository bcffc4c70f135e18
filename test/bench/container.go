package main

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"holon/runner"
	"holon/runner/workspace"
)

// measureContainer is P1 and P19: from create to the first answer, and from the
// stop to a container that is gone. The floor is a bare container without a
// network; ours is hardened, prepared and started by package runner.
func measureContainer(ctx context.Context, r *rig) (_ []row, err error) {
	end := r.scope()
	defer func() { err = errors.Join(err, end()) }()
	gw, err := r.newGateway()
	if err != nil {
		return nil, err
	}
	r.later(func() error { gw.Close(); return nil })
	repo, err := r.newRepository(ctx, 100)
	if err != nil {
		return nil, err
	}
	source, err := workspace.Open(ctx, repo.workspace())
	if err != nil {
		return nil, err
	}
	life := func(source *workspace.Source) func(context.Context) ([]time.Duration, error) {
		return func(ctx context.Context) ([]time.Duration, error) {
			config, err := r.session(gw)
			config.Source = source
			if err != nil {
				return nil, err
			}
			return sessionLife(ctx, config)
		}
	}
	figures, err := compare(ctx, plan{rounds: r.opts.rounds, samples: r.perRound(25, 3), block: 1},
		subject{"bare container", r.bareLife}, subject{"session", life(nil)},
		subject{"session with a tree", life(source)})
	if err != nil {
		return nil, err
	}
	bare, empty, tree := figures[0], figures[1], figures[2]
	const none, phases = "bare container, network none", 2
	return []row{
		timed("P1", "create → ready, hardened, gateway", none, empty, bare, 0).ratioGoal(1.15).parts("", empty, phases,
			"prepare", "start"),
		timed("P1", "the same with a tree of 100 files", none, tree, bare, 0).ratioGoal(1.15).parts("", tree, phases,
			"prepare", "start"),
		timed("P19", "stop, no turn running → removed", none, empty, bare, 1).ratioGoal(1.5).parts("", empty, phases+2,
			"stop", "close"),
	}, nil
}

// bareLife is one life of the floor's container: ready, gone.
func (r *rig) bareLife(ctx context.Context) ([]time.Duration, error) {
	dir, err := r.newDir()
	if err != nil {
		return nil, err
	}
	began := time.Now()
	id, err := r.daemon.create(ctx, r.image, label+"="+r.id, dir)
	if err != nil {
		return nil, err
	}
	answered := make(chan error, 1)
	go func() { answered <- awaitAnswer(ctx, filepath.Join(dir, "floor.sock"), "/") }()
	startErr := r.daemon.start(ctx, id)
	if err := errors.Join(startErr, <-answered); err != nil {
		return nil, err
	}
	ready := time.Since(began)
	began = time.Now()
	if err := r.daemon.stop(ctx, id); err != nil {
		return nil, err
	}
	if err := r.daemon.remove(ctx, id); err != nil {
		return nil, err
	}
	return []time.Duration{ready, time.Since(began)}, nil
}

// sessionLife is one life of a session: ready, gone, and the phases of both.
func sessionLife(ctx context.Context, config runner.Config) ([]time.Duration, error) {
	began := time.Now()
	session, err := runner.Start(ctx, config)
	if err != nil {
		return nil, err
	}
	ready := time.Since(began)
	began = time.Now()
	err = session.Stop(ctx)
	stopped := time.Since(began)
	// Close must run after an error too, or the container stays.
	err = errors.Join(err, session.Close(context.WithoutCancel(ctx)))
	gone := time.Since(began)
	return []time.Duration{ready, gone, session.Prepared, session.Started, stopped, gone - stopped}, err
}
