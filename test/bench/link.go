package main

import (
	"context"
	"os"
	"path/filepath"

	"holon/runner/engine"
	"holon/test/load"
)

// measureLink is P37: a whole run whose container shares no directory with the host, beside one with mounts.
func measureLink(ctx context.Context, r *rig) []row {
	script := filepath.Join(r.newDir(), "run.yaml")
	load.Check(os.WriteFile(script, []byte(`{"rounds":[{"text":"Done."}]}`), 0o644))
	run := func(link, dir string) func(context.Context) []float64 {
		return func(ctx context.Context) []float64 {
			return r.command(ctx, dir, r.holon, "run", "--quiet", "--link", link, "--model", "scripted/"+script, "x")
		}
	}
	measured := func(what, dir string, samples int) row {
		got := compare(ctx, r.plan(samples, 3, 1), subject{engine.LinkMounts, run(engine.LinkMounts, dir)},
			subject{engine.LinkStream, run(engine.LinkStream, dir)})
		return versus("P37", what, "the same with mounts", unitMS, got[1][0], got[0][0])
	}
	return []row{
		measured("holon run, a scripted answer, by a stream", r.newDir(), 10).ratioGoal(1.5),
		measured("the same in a repository of 5,000 files", r.newRepository(ctx, 5000).dir, 5),
	}
}
