package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// pair starts the relay and agentd, each with c connections that are kept.
func (r *rig) pair(ctx context.Context, c int) (relay, agentd *target, err error) {
	skills, err := r.newSkills()
	if err != nil {
		return nil, nil, err
	}
	floor, err := r.serveRelay(ctx)
	if err != nil {
		return nil, nil, err
	}
	r.later(floor.stop)
	ours, err := r.serveAgentd(ctx, skills, "--concurrency", "1024", "--queue-limit", "2000")
	if err != nil {
		return nil, nil, err
	}
	r.later(ours.stop)
	return r.target(floor, c), r.target(ours, c), nil
}

// measureCreate is P4 and P5: turns that answer in one piece, one after the
// other and sixteen at once, each in a session of its own.
func measureCreate(ctx context.Context, r *rig) (_ []row, err error) {
	end := r.scope()
	defer func() { err = errors.Join(err, end()) }()
	relay, agentd, err := r.pair(ctx, 16)
	if err != nil {
		return nil, err
	}
	keeper, err := r.serveRelay(ctx, "record")
	if err != nil {
		return nil, err
	}
	r.later(keeper.stop)
	recording := r.target(keeper, 16)
	turn := ask{Model: modelName, Input: "Say something."}
	one := func(t *target) func(ctx context.Context) ([]time.Duration, error) {
		return func(ctx context.Context) ([]time.Duration, error) {
			began := time.Now()
			_, err := t.create(ctx, turn)
			return []time.Duration{time.Since(began)}, err
		}
	}
	n := r.perRound(1000, 30)
	alone, err := compare(ctx, plan{rounds: r.opts.rounds, samples: n, block: n}, subject{"relay", one(relay)},
		subject{"agentd", one(agentd)}, subject{"recording relay", one(recording)})
	if err != nil {
		return nil, err
	}
	many := func(t *target) func(ctx context.Context) ([]float64, error) {
		return func(ctx context.Context) ([]float64, error) {
			n := r.samples(600, 64)
			_, all, err := parallel(ctx, n, 16, func(ctx context.Context, _ int) error {
				_, err := t.create(ctx, turn)
				return err
			})
			return []float64{float64(n) / all.Seconds()}, err
		}
	}
	side, err := compareLoads(ctx, r.opts.rounds, load{"relay", many(relay)}, load{"agentd", many(agentd)},
		load{"recording relay", many(recording)})
	if err != nil {
		return nil, err
	}
	return []row{
		timed("P4", "create, one at a time", "relay, durable", alone[1], alone[0], 0).ratioGoal(1.8),
		timed("P4", "the same", "relay with the same files", alone[1], alone[2], 0),
		loaded("P5", "create, sixteen at once", "relay, durable", unitRate, side[1], side[0], 0).leastGoal(0.55),
		loaded("P5", "the same", "relay with the same files", unitRate, side[1], side[2], 0),
	}, nil
}

// chainDepth is the length of the long conversation of P12.
const chainDepth = 1000

// measureChain is P12: what a turn costs that continues a long conversation,
// against one that continues a short one. The relay, which keeps no history, is
// sent all of it each time: that is what telling a model so much costs.
func measureChain(ctx context.Context, r *rig) (_ []row, err error) {
	end := r.scope()
	defer func() { err = errors.Join(err, end()) }()
	relay, agentd, err := r.pair(ctx, 1)
	if err != nil {
		return nil, err
	}
	depth := r.samples(chainDepth, 50)
	short, long := "", ""
	for n := range depth {
		if long, err = agentd.create(ctx, ask{Model: modelName, Input: "Say something.", Previous: long}); err != nil {
			return nil, err
		}
		if n == 0 {
			short = long
		}
	}
	off := func(id string) subject {
		return subject{"agentd", func(ctx context.Context) ([]time.Duration, error) {
			began := time.Now()
			_, err := agentd.create(ctx, ask{Model: modelName, Input: "Say something.", Previous: id})
			return []time.Duration{time.Since(began)}, err
		}}
	}
	sending := func(turns int) subject {
		var input []any
		for range turns {
			input = append(input, object{"type": "message", "role": "user", "content": "Say something."},
				object{"type": "message", "role": "assistant",
					"content": "word word word word word word word word word word "})
		}
		input = append(input, object{"type": "message", "role": "user", "content": "Say something."})
		return subject{"relay", func(ctx context.Context) ([]time.Duration, error) {
			began := time.Now()
			_, err := relay.create(ctx, ask{Model: modelName, Input: input})
			return []time.Duration{time.Since(began)}, err
		}}
	}
	before, count, err := usage(agentd.state)
	if err != nil {
		return nil, err
	}
	n := r.perRound(150, 9)
	got, err := compare(ctx, plan{rounds: r.opts.rounds, samples: n, block: n}, off(short), off(long), sending(1),
		sending(depth))
	if err != nil {
		return nil, err
	}
	after, more, err := usage(agentd.state)
	if err != nil {
		return nil, err
	}
	each := (after - before) / float64(more-count) / 1e3
	return []row{
		timed("P12", "create off a chain of 1,000", "off a chain of 1", got[1], got[0], 0).ratioGoal(2),
		timed("P12", "the relay, sent 1,000 turns", "sent one", got[3], got[2], 0),
		row{ID: "P12", What: "stored for each response of a chain", Against: "nothing", Unit: unitKB,
			Ours: each}.absoluteGoal(4.096),
	}, nil
}

type object = map[string]any

// usage returns the bytes and the number of the stored responses.
func usage(state string) (bytes float64, files int, err error) {
	err = filepath.WalkDir(filepath.Join(state, "responses"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		bytes, files = bytes+float64(info.Size()), files+1
		return nil
	})
	return bytes, files, err
}
