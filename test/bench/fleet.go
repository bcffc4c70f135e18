package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"holon/runner"
	"holon/test/procs"
)

// fleet is what is launched for P17, ours or the floor.
type fleet struct {
	label  string // that its containers have
	launch func(ctx context.Context, i int) error
	rate   float64 // launches a second, four at a time
	cpu    float64 // percent of a core when nothing is asked
	memory float64 // MB for each: proportional set of all its processes and its shim
}

// measureFleet is P17: agents that run at once, each in a container of its own,
// and what they cost when they have nothing to do.
func measureFleet(ctx context.Context, r *rig) (_ []row, err error) {
	n := r.samples(50, 6)
	bare, err := r.measureBare(ctx, n)
	if err != nil {
		return nil, err
	}
	ours, err := r.measureAgents(ctx, n)
	if err != nil {
		return nil, err
	}
	what := fmt.Sprintf("%d agents in containers", n)
	const against = "bare containers, network none"
	return []row{
		row{ID: "P17", What: what + ": launches, four at a time", Against: against, Unit: unitRate, Floor: bare.rate,
			Ours: ours.rate, Ratio: ours.rate / bare.rate}.leastGoal(0.8),
		row{ID: "P17", What: what + ": percent of a core when idle, all together", Against: against, Unit: unitCount,
			Floor: bare.cpu, Ours: ours.cpu}.absoluteGoal(1),
		row{ID: "P17", What: what + ": memory of each beyond that of a bare one", Against: against, Unit: unitMB,
			Floor: bare.memory, Ours: ours.memory - bare.memory}.absoluteGoal(10),
	}, nil
}

// measureAgents launches sessions, looks at them and closes them.
func (r *rig) measureAgents(ctx context.Context, n int) (_ *fleet, err error) {
	end := r.scope()
	defer func() { err = errors.Join(err, end()) }()
	gw, err := r.newGateway()
	if err != nil {
		return nil, err
	}
	r.later(func() error { gw.Close(); return nil })
	configs := make([]runner.Config, n)
	for i := range configs {
		if configs[i], err = r.session(gw); err != nil {
			return nil, err
		}
		configs[i].Labels["bench.fleet"] = "ours"
	}
	var mu sync.Mutex
	f := &fleet{label: "bench.fleet=ours", launch: func(ctx context.Context, i int) error {
		session, err := runner.Start(ctx, configs[i])
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		r.later(func() error { return session.Close(cleanupContext()) })
		return nil
	}}
	return f, f.measure(ctx, r, n)
}

// measureBare does the same with the floor's containers.
func (r *rig) measureBare(ctx context.Context, n int) (_ *fleet, err error) {
	end := r.scope()
	defer func() { err = errors.Join(err, end()) }()
	dirs := make([]string, n)
	for i := range dirs {
		if dirs[i], err = r.newDir(); err != nil {
			return nil, err
		}
	}
	f := &fleet{label: "bench.bare=" + r.id}
	r.later(func() error { return r.daemon.removeLabelled(cleanupContext(), f.label) })
	f.launch = func(ctx context.Context, i int) error {
		id, err := r.daemon.create(ctx, r.image, f.label, dirs[i])
		if err == nil {
			err = r.daemon.start(ctx, id)
		}
		if err != nil {
			return err
		}
		return awaitAnswer(ctx, filepath.Join(dirs[i], "floor.sock"), "/")
	}
	return f, f.measure(ctx, r, n)
}

// measure launches the fleet and looks at it while it has nothing to do.
func (f *fleet) measure(ctx context.Context, r *rig, n int) error {
	_, took, err := parallel(ctx, n, 4, f.launch)
	if err != nil {
		return err
	}
	f.rate = float64(n) / took.Seconds()
	ids, err := r.daemon.labelled(ctx, f.label)
	if err != nil {
		return err
	}
	if len(ids) != n {
		return fmt.Errorf("%d of %d containers run", len(ids), n)
	}
	if err := rest(ctx, 3*time.Second); err != nil {
		return err
	}
	pids, err := processesOf(ids)
	if err != nil {
		return err
	}
	for _, pid := range pids {
		f.memory += procs.Proportional(pid) / 1e6 / float64(n)
	}
	idle := 10 * time.Second
	before := cpuTime(pids)
	if err := rest(ctx, idle); err != nil {
		return err
	}
	f.cpu = 100 * (cpuTime(pids) - before).Seconds() / idle.Seconds()
	return nil
}

// labelled lists the containers with a label, "key=value".
func (d *daemon) labelled(ctx context.Context, mark string) (ids []string, err error) {
	filter, err := json.Marshal(map[string][]string{"label": {mark}})
	if err != nil {
		return nil, err
	}
	var found []struct{ ID string }
	if err := d.call(ctx, http.MethodGet, "/containers/json?filters="+url.QueryEscape(string(filter)), "", nil,
		&found); err != nil {
		return nil, err
	}
	for _, c := range found {
		ids = append(ids, c.ID)
	}
	return ids, nil
}

// processesOf finds the processes of containers and their shims.
func processesOf(ids []string) ([]int, error) {
	pids := procs.InContainers(ids)
	if len(pids) < len(ids) {
		return nil, fmt.Errorf("%d processes of %d containers are found", len(pids), len(ids))
	}
	return pids, nil
}

// cpuTime is what the processes and this one, the runner, have used.
func cpuTime(pids []int) time.Duration {
	all := procs.Time(pids)
	var used unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &used) == nil {
		all += time.Duration(used.Utime.Nano() + used.Stime.Nano())
	}
	return all
}

// measurePause is P18: an idle container is paused and asked again.
func measurePause(ctx context.Context, r *rig) (_ []row, err error) {
	end := r.scope()
	defer func() { err = errors.Join(err, end()) }()
	gw, err := r.newGateway()
	if err != nil {
		return nil, err
	}
	r.later(func() error { gw.Close(); return nil })
	config, err := r.session(gw)
	if err != nil {
		return nil, err
	}
	config.Labels["bench.pause"] = r.id
	session, err := runner.Start(ctx, config)
	if err != nil {
		return nil, err
	}
	r.later(func() error { return session.Close(cleanupContext()) })
	ids, err := r.daemon.labelled(ctx, "bench.pause="+r.id)
	if err != nil || len(ids) != 1 {
		return nil, fmt.Errorf("the containers of a session are %v: %w", ids, err)
	}
	dir, err := r.newDir()
	if err != nil {
		return nil, err
	}
	bare, err := r.daemon.create(ctx, r.image, label+"="+r.id, dir)
	if err == nil {
		r.later(func() error { return r.daemon.remove(cleanupContext(), bare) })
		err = r.daemon.start(ctx, bare)
	}
	floor := filepath.Join(dir, "floor.sock")
	if err = errors.Join(err, awaitAnswer(ctx, floor, "/")); err != nil {
		return nil, err
	}
	sample := func(id, socket, path string) func(context.Context) ([]time.Duration, error) {
		return func(ctx context.Context) ([]time.Duration, error) {
			began := time.Now()
			if err := r.daemon.call(ctx, http.MethodPost, "/containers/"+id+"/pause", "", nil, nil); err != nil {
				return nil, err
			}
			paused := time.Since(began)
			began = time.Now()
			if err := r.daemon.call(ctx, http.MethodPost, "/containers/"+id+"/unpause", "", nil, nil); err != nil {
				return nil, err
			}
			err := awaitAnswer(ctx, socket, path)
			return []time.Duration{time.Since(began), paused}, err
		}
	}
	figures, err := compare(ctx, plan{rounds: r.opts.rounds, samples: r.perRound(50, 3), block: 1},
		subject{"bare container", sample(bare, floor, "/")},
		subject{"agent", sample(ids[0], filepath.Join(config.SocketDir, "ipc", "agent.sock"), "/health")})
	if err != nil {
		return nil, err
	}
	return []row{
		timed("P18", "a paused agent resumed → /health", "bare container, network none", figures[1], figures[0],
			0).ratioGoal(1.3),
		timed("P18", "pausing it", "bare container, network none", figures[1], figures[0], 1),
	}, nil
}
