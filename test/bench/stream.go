package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"holon/test/load"
)

type object = map[string]any

// measureTurns is P4, P5 and P6: small turns at agentd's socket, in one piece one after the other and sixteen at once,
// and streamed.
func measureTurns(ctx context.Context, r *rig) []row {
	relay, agentd := r.pair(ctx)
	alone := compare(ctx, r.plan(1000, 30, 0), relay.creator(say(modelName)), agentd.creator(say(modelName)))
	many := func(s *server) subject {
		return subject{"sixteen at once", func(ctx context.Context) []float64 {
			n := r.samples(600, 64)
			_, all := parallel(ctx, n, 16, func(ctx context.Context, _ int) { s.create(ctx, say(modelName)) })
			return []float64{float64(n) / all.Seconds()}
		}}
	}
	side := compare(ctx, r.plan(1, 1, 1), many(relay), many(agentd))
	streams := compare(ctx, r.plan(500, 30, 0), relay.streamer(), agentd.streamer())
	return []row{
		versus("P4", "create, one at a time", relayed, unitMS, alone[1][0], alone[0][0]),
		versus("P5", "create, sixteen at once", relayed, unitRate, side[1][0], side[0][0]),
		versus("P6", "POST /responses → first event", relayed, unitMS, streams[1][0], streams[0][0]),
	}
}

// chainDepth is the length of the long conversation of P12.
const chainDepth = 1000

// measureChain is P12: what a turn costs that continues a long conversation,
// against one that continues a short one. The relay, which keeps no history, is
// sent all of it each time: that is what telling a model so much costs.
func measureChain(ctx context.Context, r *rig) []row {
	relay, agentd := r.pair(ctx)
	next := say(modelName)
	var short ask
	var input []any
	depth := r.samples(chainDepth, 50)
	for n := range depth {
		next.Previous = agentd.create(ctx, next)
		if n == 0 {
			short = next
		}
		input = append(input, object{"type": "message", "role": "user", "content": next.Input},
			object{"type": "message", "role": "assistant", "content": strings.Repeat("word ", 10)})
	}
	input = append(input, object{"type": "message", "role": "user", "content": next.Input})
	got := compare(ctx, r.plan(150, 9, 0), agentd.creator(short), agentd.creator(next), relay.creator(say(modelName)),
		relay.creator(ask{Model: modelName, Input: input}))
	return []row{
		versus("P12", fmt.Sprintf("create off a chain of %d", depth), "off a chain of 1", unitMS, got[1][0],
			got[0][0]).ratioGoal(2),
		versus("P12", fmt.Sprintf("the relay, sent %d turns", depth), "sent one", unitMS, got[3][0], got[2][0]),
	}
}

// measureFlood is P7: a stream of many deltas that the model sends as fast as it can. Every stream must be whole.
func measureFlood(ctx context.Context, r *rig) []row {
	relay, agentd := r.pair(ctx)
	long := r.samples(10_000, 2_000)
	flood := func(s *server) subject {
		return subject{"flood", func(ctx context.Context) []float64 { return []float64{s.flood(ctx, 4, long)} }}
	}
	got := compare(ctx, r.plan(1, 1, 1), flood(relay), flood(agentd))
	return []row{versus("P7", fmt.Sprintf("one stream of %d deltas, each event checked", long),
		"relay, durable, encoding/json", unitRate, got[1][0], got[0][0]).leastGoal(0.9)}
}

// flood reads n streams of count deltas, one after the other, and returns their events a second.
func (s *server) flood(ctx context.Context, n, count int) float64 {
	events := 0
	took := timed(func() {
		for range n {
			got := s.stream(ctx, say(deltas(count)))
			got.whole(count)
			events += got.events
		}
	})
	return float64(events) / took.Seconds()
}

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
