package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"holon/test/load"
)

// measureFirstRun is P30 of runs: the first one on a repository, the next, and one that takes ignored files along.
// What is copied shares its content where the file system can do that, which the goal of the last row is for.
func measureFirstRun(ctx context.Context, r *rig) []row {
	const ignored = 50_000
	repo := r.newRepository(ctx, 10_000)
	load.Check(os.WriteFile(filepath.Join(repo.dir, ".git/info/exclude"), []byte("node_modules\n"), 0o644))
	for i := range ignored {
		path := filepath.Join(repo.dir, fmt.Sprintf("node_modules/p%d/f%d.js", i/50, i%50))
		if i%50 == 0 {
			load.Check(os.MkdirAll(filepath.Dir(path), 0o755))
		}
		load.Check(os.WriteFile(path, []byte("module.exports = 1\n"), 0o644))
	}
	script := filepath.Join(r.dir, "run.yaml")
	load.Check(os.WriteFile(script, []byte(`{"rounds":[{"text":"Done."}]}`), 0o644))
	run := func(args ...string) func(context.Context) []float64 {
		return func(ctx context.Context) []float64 {
			return r.command(ctx, repo.dir, r.holon, append([]string{"run", "--quiet", "--model", "scripted/" + script},
				append(args, "x")...)...)
		}
	}
	first := compare(ctx, plan{rounds: 1, samples: 1, block: 1}, subject{"docker run", r.dockerRun},
		subject{"first run", run()})
	next := compare(ctx, plan{rounds: r.opts.rounds, samples: 1, block: 1}, subject{"docker run", r.dockerRun},
		subject{"next run", run()}, subject{"with ignored files", run("--include-ignored", "node_modules")})
	const floor = "docker run --rm --network none"
	return []row{
		versus("P30", "the first holon run on 10,000 files", floor, unitMS, first[1][0], first[0][0]).absoluteGoal(3000),
		versus("P30", "the next", floor, unitMS, next[1][0], next[0][0]).absoluteGoal(1000),
		versus("P30", fmt.Sprintf("the same with copies of %d ignored files", ignored), floor, unitMS, next[2][0],
			next[0][0]).absoluteGoal(5000),
	}
}
