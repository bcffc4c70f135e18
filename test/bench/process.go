package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"holon/test/load"
)

// answers is the floor of a program that starts.
const answers = "server that only answers"

// measureSpawn is P2: from the spawn to the first answer, outside a container.
func measureSpawn(ctx context.Context, r *rig) []row {
	spawn := func(serve func() *server) func(ctx context.Context) []float64 {
		return func(context.Context) []float64 {
			s := serve()
			s.Kill()
			return []float64{ms(s.ready)}
		}
	}
	got := compare(ctx, r.plan(50, 3, 1),
		subject{answers, spawn(func() *server { return r.serveFloor(ctx, "") })},
		subject{"agentd", spawn(func() *server { return r.serveAgentd(ctx, r.model) })})
	what := fmt.Sprintf("spawn → /health, %d skills", skillCount)
	return []row{versus("P2", what, answers, unitMS, got[1][0], got[0][0]).ratioGoal(2.5)}
}

// measureMemory is P10: the memory of agentd when it is ready, and when it
// idles after some turns.
func measureMemory(ctx context.Context, r *rig) []row {
	var floors, ready, idle []float64
	for range r.opts.rounds {
		floor, ours := r.serveFloor(ctx, ""), r.serveAgentd(ctx, r.model)
		ready = append(ready, ours.resident())
		for range r.samples(50, 10) {
			ours.stream(ctx, say(modelName))
		}
		load.Check(load.Pause(ctx, 2*time.Second))
		floors, idle = append(floors, floor.resident()), append(idle, ours.resident())
		ours.Kill()
		floor.Kill()
	}
	return []row{versus("P10", "resident memory when ready", answers, unitMB, ready, floors),
		versus("P10", "resident memory, idle after 50 turns", answers, unitMB, idle, floors).absoluteGoal(20)}
}

// measureSize is P11: the size of the program.
func measureSize(_ context.Context, r *rig) []row {
	size := func(path string) []float64 { return []float64{float64(load.Must(os.Stat(path)).Size()) / 1e6} }
	return []row{versus("P11", "static binary, stripped", "the floors in one binary", unitMB, size(r.agentd),
		size(r.floor)).absoluteGoal(25)}
}
