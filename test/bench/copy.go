package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"holon/runner/workspace"
)

// measureWorkingCopy is P15: a working copy for a turn and the diff of what the
// turn did, with all that comes before and after. The floor keeps one tree and
// resets it with git; the other way is a linked worktree for every turn.
func measureWorkingCopy(ctx context.Context, r *rig) ([]row, error) {
	sizes := []int{100, 5000}
	if !r.opts.quick {
		sizes = append(sizes, 50_000)
	}
	var rows []row
	for _, files := range sizes {
		more, err := measureCopies(ctx, r, files)
		if err != nil {
			return nil, fmt.Errorf("%d files: %w", files, err)
		}
		rows = append(rows, more...)
	}
	return rows, nil
}

func measureCopies(ctx context.Context, r *rig, files int) ([]row, error) {
	repo, err := r.newRepository(ctx, files)
	if err != nil {
		return nil, err
	}
	kept, err := repo.addTree(ctx)
	if err != nil {
		return nil, err
	}
	samples := max(1, 5000/files)
	ours := subject{"working copy", repo.oursOnce}
	recycled := subject{"recycled tree", func(ctx context.Context) ([]time.Duration, error) {
		return repo.recycleOnce(ctx, kept)
	}}
	// Adding and removing trees slows the file system down for everybody
	// (docs/explanation/performance.md), so that it must not take turns with the others.
	figures, err := compare(ctx, plan{rounds: r.opts.rounds, samples: min(samples, r.samples(20, 3)), block: 1},
		recycled, ours)
	if err != nil {
		return nil, err
	}
	linked, err := compare(ctx, plan{rounds: r.opts.rounds, samples: 1, block: 1},
		subject{"linked worktree", repo.linkOnce})
	if err != nil {
		return nil, err
	}
	what := fmt.Sprintf("copy ready, diffed, given back: %d files", files)
	mine, reset, added := figures[1], figures[0], linked[0]
	rows := []row{
		timed("P15", what, "git reset, clean, add, diff", mine, reset, 0).ratioGoal(1.3).
			parts("", mine, 1, "open", "acquire", "diff", "release").parts("floor ", reset, 1, "reset", "diff"),
		timed("P15", what, "git worktree add, diff, remove", mine, added, 0).parts("floor ", added, 1, "add", "diff",
			"remove"),
	}
	switch files {
	case 5000:
		rows[1] = rows[1].ratioGoal(0.25)
	case 50_000:
		rows[1] = rows[1].ratioGoal(0.07)
	}
	return rows, nil
}

// stopwatch times steps that follow each other, and nothing between them.
type stopwatch struct{ laps []time.Duration }

func (s *stopwatch) time(step func() error) error {
	began := time.Now()
	err := step()
	s.laps = append(s.laps, time.Since(began))
	return err
}

// all returns the sum of the laps, then each of them.
func (s *stopwatch) all() []time.Duration {
	var sum time.Duration
	for _, lap := range s.laps {
		sum += lap
	}
	return append([]time.Duration{sum}, s.laps...)
}

// oursOnce is a turn's working copy made by package workspace.
func (p *repository) oursOnce(ctx context.Context) (_ []time.Duration, err error) {
	var watch stopwatch
	var source *workspace.Source
	var tree *workspace.Tree
	err = watch.time(func() (err error) { source, err = workspace.Open(ctx, p.workspace()); return })
	if err != nil {
		return nil, err
	}
	err = watch.time(func() (err error) { tree, err = source.Acquire(ctx); return })
	if err != nil {
		return nil, err
	}
	return p.finish(ctx, &watch, tree, p.change(tree.Dir()))
}

// finish diffs a tree and gives it back, also after an error.
func (p *repository) finish(ctx context.Context, watch *stopwatch, tree *workspace.Tree, err error) ([]time.Duration,
	error) {
	if err == nil {
		err = watch.time(func() error {
			diff, err := tree.Diff(ctx, workspace.DiffOptions{Patch: filepath.Join(p.cache, "bench.patch")})
			if err == nil && len(diff.Files) != changes {
				err = fmt.Errorf("the diff has %d files instead of %d", len(diff.Files), changes)
			}
			return err
		})
	}
	err = errors.Join(err, watch.time(func() error { return tree.Release(context.WithoutCancel(ctx)) }))
	return watch.all(), err
}

// recycleOnce is the floor.
func (p *repository) recycleOnce(ctx context.Context, tree string) ([]time.Duration, error) {
	var watch stopwatch
	if err := watch.time(func() error { return recycle(ctx, tree) }); err != nil {
		return nil, err
	}
	if err := p.change(tree); err != nil {
		return nil, err
	}
	err := watch.time(func() error { return diff(ctx, tree) })
	return watch.all(), err
}

// linkOnce is a linked worktree, made and removed.
func (p *repository) linkOnce(ctx context.Context) ([]time.Duration, error) {
	var watch stopwatch
	var tree string
	if err := watch.time(func() (err error) { tree, err = p.addTree(ctx); return }); err != nil {
		return nil, err
	}
	if err := p.change(tree); err != nil {
		return nil, err
	}
	if err := watch.time(func() error { return diff(ctx, tree) }); err != nil {
		return nil, err
	}
	err := watch.time(func() error { return p.removeTree(ctx, tree) })
	return watch.all(), err
}
