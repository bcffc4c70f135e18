package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/coder/websocket"
)

// measureFlood is P7 and P8: streams of many deltas that the model sends as fast
// as it can. Every stream must be whole.
func measureFlood(ctx context.Context, r *rig) (_ []row, err error) {
	end := r.scope()
	defer func() { err = errors.Join(err, end()) }()
	relay, agentd, err := r.pair(ctx, 64)
	if err != nil {
		return nil, err
	}
	deltas := r.samples(10_000, 2_000)
	one := func(t *target) func(ctx context.Context) ([]float64, error) {
		return func(ctx context.Context) ([]float64, error) { return t.flood(ctx, 4, 1, deltas) }
	}
	alone, err := compareLoads(ctx, r.opts.rounds, load{"relay", one(relay)}, load{"agentd", one(agentd)},
		load{"agentd by WebSocket", func(ctx context.Context) ([]float64, error) {
			return agentd.socketFlood(ctx, 4, deltas)
		}})
	if err != nil {
		return nil, err
	}
	if err := agentd.durable(ctx, deltas); err != nil {
		return nil, err
	}
	peak := &peak{of: agentd.server}
	stop := peak.watch()
	many := func(t *target) func(ctx context.Context) ([]float64, error) {
		return func(ctx context.Context) ([]float64, error) { return t.flood(ctx, r.samples(192, 64), 64, 1000) }
	}
	side, err := compareLoads(ctx, r.opts.rounds, load{"relay", many(relay)}, load{"agentd", many(agentd)})
	stop()
	if err != nil {
		return nil, err
	}
	floorSize, err := relay.resident()
	if err != nil {
		return nil, err
	}
	return []row{
		loaded("P7", fmt.Sprintf("one stream of %d deltas, each event checked", deltas),
			"relay, durable, encoding/json", unitRate, alone[1], alone[0], 0).leastGoal(0.7),
		loaded("P7", "the same on a WebSocket", "ours as server-sent events", unitRate, alone[2], alone[1], 0),
		loaded("P8", "64 streams of 1,000 deltas", "relay, durable, encoding/json", unitRate, side[1], side[0],
			0).leastGoal(0.7),
		loaded("P8", "the same, p99 of a whole stream", "relay, durable, encoding/json", unitMS, side[1], side[0],
			1).ratioGoal(1.4),
		row{ID: "P10", What: "resident memory, peak in P8", Against: "relay, afterwards", Unit: unitMB,
			Floor: floorSize, Ours: peak.most, Ratio: peak.most / floorSize}.absoluteGoal(64),
	}, nil
}

// flood reads n streams, c at a time, and returns their events a second and the
// 99th percentile of their times in milliseconds.
func (t *target) flood(ctx context.Context, n, c, deltas int) ([]float64, error) {
	events := 0
	var mu sync.Mutex
	took, all, err := parallel(ctx, n, c, func(ctx context.Context, _ int) error {
		s, err := t.stream(ctx, ask{Model: fmt.Sprintf("openai/fake-%d", deltas), Input: "Say something."}, false)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		events += s.events
		return s.whole(deltas)
	})
	if err != nil {
		return nil, err
	}
	return []float64{float64(events) / all.Seconds(), ms(quantile(took, 0.99))}, nil
}

// durable checks that what a client read is what is on disk.
func (t *target) durable(ctx context.Context, deltas int) error {
	const turnID = "turn_bench_durable"
	s, err := t.stream(ctx, ask{Model: fmt.Sprintf("openai/fake-%d", deltas), Input: "Say something.",
		Holon: map[string]any{"turn_id": turnID}}, true)
	if err != nil {
		return err
	}
	stored, err := os.ReadFile(filepath.Join(t.output, "turns", turnID, "events.ndjson"))
	if err != nil {
		return err
	}
	if !bytes.Equal(s.lines, stored) {
		return errors.New("the stream is not what events.ndjson holds")
	}
	return s.whole(deltas)
}

// socketFlood reads n streams one after the other on one WebSocket.
func (t *target) socketFlood(ctx context.Context, n, deltas int) ([]float64, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	conn, _, err := websocket.Dial(ctx, "ws://server/responses", &websocket.DialOptions{HTTPClient: t.client})
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.CloseNow() }()
	conn.SetReadLimit(32 << 20)
	events := 0
	began := time.Now()
	for range n {
		if err := conn.Write(ctx, websocket.MessageText,
			fmt.Appendf(nil, `{"type":"response.create","model":"openai/fake-%d","input":"Say something."}`,
				deltas)); err != nil {
			return nil, err
		}
		s := &streamed{}
		for !s.ended {
			_, data, err := conn.Read(ctx)
			if err != nil {
				return nil, err
			}
			s.take(data)
		}
		if err := s.whole(deltas); err != nil {
			return nil, err
		}
		events += s.events
	}
	return []float64{float64(events) / time.Since(began).Seconds()}, nil
}

// peak is the most memory that a server had while it was watched.
type peak struct {
	of   *server
	most float64 // MB
}

// watch begins to watch; stop ends it.
func (p *peak) watch() (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			if now, err := p.of.resident(); err == nil {
				p.most = max(p.most, now)
			}
			select {
			case <-done:
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	}()
	return func() { close(done); <-ended }
}

// measureAge is P9: how old a delta is when it arrives, of a model that says
// something every millisecond.
func measureAge(ctx context.Context, r *rig) (_ []row, err error) {
	end := r.scope()
	defer func() { err = errors.Join(err, end()) }()
	relay, agentd, err := r.pair(ctx, 16)
	if err != nil {
		return nil, err
	}
	paced := func(t *target, c int) load {
		return load{"paced deltas", func(ctx context.Context) ([]float64, error) {
			var mu sync.Mutex
			var ages []time.Duration
			n := r.samples(1000, 200)
			_, _, err := parallel(ctx, c, c, func(ctx context.Context, _ int) error {
				s, err := t.stream(ctx, ask{Model: fmt.Sprintf("openai/fake-%d-1000", n), Input: "Say something."},
					false)
				if err != nil {
					return err
				}
				mu.Lock()
				defer mu.Unlock()
				ages = append(ages, s.ages...)
				return s.whole(n)
			})
			if err != nil {
				return nil, err
			}
			return []float64{ms(quantile(ages, 0.5)), ms(quantile(ages, 0.99))}, nil
		}}
	}
	one, err := compareLoads(ctx, r.opts.rounds, paced(relay, 1), paced(agentd, 1))
	if err != nil {
		return nil, err
	}
	many, err := compareLoads(ctx, r.opts.rounds, paced(relay, 16), paced(agentd, 16))
	if err != nil {
		return nil, err
	}
	return []row{
		loaded("P9", "age of a delta each ms, one stream, p50", "relay, durable", unitMS, one[1], one[0],
			0).ratioGoal(1.4),
		loaded("P9", "the same, p99", "relay, durable", unitMS, one[1], one[0], 1).absoluteGoal(1),
		loaded("P9", "the same of sixteen streams, p50", "relay, durable", unitMS, many[1], many[0], 0).ratioGoal(0.6),
		loaded("P9", "the same of sixteen streams, p99", "relay, durable", unitMS, many[1], many[0], 1),
	}, nil
}
