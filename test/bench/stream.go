package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"

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
	streams := compare(ctx, r.plan(500, 30, 0), relay.streamer(modelName), agentd.streamer(modelName))
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

// measureFlood is P7 and P8: streams of many deltas that the model sends as fast
// as it can. Every stream must be whole.
func measureFlood(ctx context.Context, r *rig) []row {
	relay, agentd := r.pair(ctx)
	long := r.samples(10_000, 2_000)
	flood := func(s *server, n, c, count int) subject {
		return subject{"flood", func(ctx context.Context) []float64 { return s.flood(ctx, n, c, count) }}
	}
	alone := compare(ctx, r.plan(1, 1, 1), flood(relay, 4, 1, long), flood(agentd, 4, 1, long),
		subject{"agentd by WebSocket", func(ctx context.Context) []float64 { return agentd.socketFlood(ctx, 4, long) }})
	agentd.durable(ctx, long)
	most, stop := agentd.watch()
	n := r.samples(192, 64)
	side := compare(ctx, r.plan(1, 1, 1), flood(relay, n, 64, 1000), flood(agentd, n, 64, 1000))
	stop()
	const floor = "relay, durable, encoding/json"
	what := fmt.Sprintf("one stream of %d deltas, each event checked", long)
	return []row{
		versus("P7", what, floor, unitRate, alone[1][0], alone[0][0]).leastGoal(0.9),
		versus("P7", "the same on a WebSocket", "ours as server-sent events", unitRate, alone[2][0], alone[1][0]),
		versus("P8", "64 streams of 1,000 deltas", floor, unitRate, side[1][0], side[0][0]).leastGoal(0.9),
		versus("P8", "the same, p99 of a whole stream", floor, unitMS, side[1][1], side[0][1]).ratioGoal(1.4),
		versus("P10", "resident memory, peak in P8", "relay, afterwards", unitMB, []float64{*most},
			[]float64{relay.resident()}).absoluteGoal(64),
	}
}

// flood reads n streams, c at a time, and returns their events a second and the
// 99th percentile of their times in milliseconds.
func (s *server) flood(ctx context.Context, n, c, count int) []float64 {
	events := 0
	var mu sync.Mutex
	took, all := parallel(ctx, n, c, func(ctx context.Context, _ int) {
		got := s.stream(ctx, say(deltas(count)), false)
		got.whole(count)
		mu.Lock()
		defer mu.Unlock()
		events += got.events
	})
	return []float64{float64(events) / all.Seconds(), ms(quantile(took, 0.99))}
}

// durable checks that what a client read is what is on disk.
func (s *server) durable(ctx context.Context, count int) {
	const turnID = "turn_bench_durable"
	a := say(deltas(count))
	a.Holon = object{"turn_id": turnID}
	got := s.stream(ctx, a, true)
	got.whole(count)
	s.stored(turnID, got)
}

// stored checks that a stream that was kept is the stored one byte for byte.
func (s *server) stored(turnID string, got *streamed) {
	stored := load.Must(os.ReadFile(filepath.Join(s.output, "turns", turnID, "events.ndjson")))
	if !bytes.Equal(got.lines, stored) {
		load.Failf("the stream of %s is not what events.ndjson holds", turnID)
	}
}

// socketFlood reads n streams one after the other on one WebSocket.
func (s *server) socketFlood(ctx context.Context, n, count int) []float64 {
	ctx, cancel := context.WithTimeout(ctx, load.Patience)
	defer cancel()
	conn, _, err := websocket.Dial(ctx, "ws://server/responses", &websocket.DialOptions{HTTPClient: s.client})
	load.Check(err)
	defer func() { _ = conn.CloseNow() }()
	conn.SetReadLimit(32 << 20)
	events := 0
	took := timed(func() {
		for range n {
			load.Check(conn.Write(ctx, websocket.MessageText, fmt.Appendf(nil,
				`{"type":"response.create","model":%q,"input":"Say something."}`, deltas(count))))
			got := &streamed{}
			for !got.ended {
				_, data, err := conn.Read(ctx)
				load.Check(err)
				got.take(data)
			}
			got.whole(count)
			events += got.events
		}
	})
	return []float64{float64(events) / took.Seconds()}
}

// watch notes the most memory, in megabytes, that a server has until stop.
func (s *server) watch() (most *float64, stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	most = new(float64)
	go func() {
		defer close(ended)
		for {
			*most = max(*most, s.resident())
			select {
			case <-done:
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	}()
	return most, func() { close(done); <-ended }
}
