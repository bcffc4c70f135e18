package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"holon/runner"
	"holon/runner/workspace"
	"holon/test/load"
)

const bareContainer = "bare container, network none"

// measureContainer is P1 and P19: from create to the first answer, and from the
// stop to a container that is gone. The floor is a bare container without a
// network; ours is hardened, prepared and started by package runner. P24 is a whole run.
func measureContainer(ctx context.Context, r *rig) []row {
	gw := r.newGateway()
	source := load.Must(workspace.Open(ctx, r.newRepository(ctx, 100).workspace()))
	life := func(source *workspace.Source) func(context.Context) []float64 {
		return func(ctx context.Context) []float64 {
			config := r.session(gw)
			config.Source = source
			return sessionLife(ctx, config)
		}
	}
	got := compare(ctx, r.plan(25, 3, 1), subject{"bare container", r.bareLife}, subject{"session", life(nil)},
		subject{"session with a tree", life(source)})
	bare, empty, tree := got[0], got[1], got[2]
	runs := compare(ctx, r.plan(15, 3, 1), subject{"docker run", r.dockerRun}, subject{"holon run", r.holonRun})
	return []row{
		versus("P1", "create → ready, hardened, gateway", bareContainer, unitMS, empty[0], bare[0]).ratioGoal(1.1),
		versus("P1", "the same with a tree of 100 files", bareContainer, unitMS, tree[0], bare[0]).ratioGoal(1.1),
		versus("P19", "stop, no turn running → removed", bareContainer, unitMS, empty[1], bare[1]).ratioGoal(1.5),
		versus("P24", "holon run, a scripted answer", "docker run --rm --network none", unitMS, runs[1][0],
			runs[0][0]).ratioGoal(1.15),
	}
}

// bareLife is one life of the floor's container: ready, gone.
func (r *rig) bareLife(ctx context.Context) []float64 {
	dir := r.newDir()
	var id string
	ready := timed(func() {
		id = r.startBare(ctx, label+"="+r.id, dir)
	})
	gone := timed(func() {
		load.Check(r.daemon.do(ctx, "stop", id))
		load.Check(r.daemon.remove(ctx, id))
	})
	return []float64{ms(ready), ms(gone)}
}

func (r *rig) startBare(ctx context.Context, mark, dir string) (id string) {
	id = load.Must(r.daemon.create(ctx, r.image, mark, dir))
	answered := make(chan error, 1)
	go func() { answered <- awaitAnswer(ctx, filepath.Join(dir, "floor.sock"), "/") }()
	load.Check(r.daemon.do(ctx, "start", id))
	load.Check(<-answered)
	return id
}

// sessionLife is one life of a session: ready, gone.
func sessionLife(ctx context.Context, config runner.Config) []float64 {
	began := time.Now()
	session := load.Must(runner.Start(ctx, config))
	ready := time.Since(began)
	began = time.Now()
	err := session.Stop(ctx)
	load.Check(session.Close(context.WithoutCancel(ctx))) // also after an error, or the container stays
	load.Check(err)
	return []float64{ms(ready), ms(time.Since(began))}
}

// dockerRun is the floor of a whole run.
func (r *rig) dockerRun(ctx context.Context) []float64 {
	return r.command(ctx, r.newDir(), "docker", "run", "--rm", "--network", "none", "--entrypoint", "/floor", r.image,
		"true")
}

func (r *rig) holonRun(ctx context.Context) []float64 {
	dir, script := r.newDir(), filepath.Join(r.dir, "run.yaml")
	load.Check(os.WriteFile(script, []byte(`{"rounds":[{"text":"Done."}]}`), 0o644))
	return r.command(ctx, dir, r.holon, "run", "--quiet", "--model", "scripted/"+script, "x")
}

// command times a program, whose home is that of the rig.
func (r *rig) command(ctx context.Context, dir, name string, args ...string) []float64 {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(r.environment(), "PATH="+os.Getenv("PATH"), "HOME="+r.dir,
		"HOLON_HOME="+filepath.Join(r.dir, "home"), "DOCKER_HOST="+r.opts.docker)
	return laps(func() {
		if out, err := cmd.CombinedOutput(); err != nil {
			load.Failf("%s: %w\n%s", name, err, out)
		}
	})[:1]
}

// measurePause is P18: an idle container is paused and asked again.
func measurePause(ctx context.Context, r *rig) []row {
	config := r.session(r.newGateway())
	config.Labels["bench.pause"] = r.id
	r.startSession(ctx, config)
	ids := load.Must(r.daemon.labelled("bench.pause=" + r.id))
	if len(ids) != 1 {
		load.Failf("the containers of a session are %v", ids)
	}
	dir := r.newDir()
	bare := r.startBare(ctx, label+"="+r.id, dir)
	sample := func(id, socket, path string) func(context.Context) []float64 {
		return func(ctx context.Context) []float64 {
			load.Check(r.daemon.do(ctx, "pause", id))
			return laps(func() {
				load.Check(r.daemon.do(ctx, "unpause", id))
				load.Check(awaitAnswer(ctx, socket, path))
			})[:1]
		}
	}
	got := compare(ctx, r.plan(50, 3, 1), subject{bareContainer, sample(bare, filepath.Join(dir, "floor.sock"), "/")},
		subject{"agent", sample(ids[0], filepath.Join(config.SocketDir, "ipc", "agent.sock"), "/health")})
	return []row{versus("P18", "a paused agent resumed → /health", bareContainer, unitMS, got[1][0],
		got[0][0]).ratioGoal(1.3)}
}

// fleet is what is launched for P17, ours or the floor.
type fleet struct {
	rate   float64 // launches a second, four at a time
	cpu    float64 // percent of a core when nothing is asked
	memory float64 // MB for each: proportional set of all its processes and its shim
}

// measureFleet is P17: agents that run at once, each in a container of its own,
// and what they cost when they have nothing to do.
func measureFleet(ctx context.Context, r *rig) []row {
	n := r.samples(50, 6)
	dirs, configs := make([]string, n), make([]runner.Config, n)
	gw := r.newGateway()
	for i := range n {
		dirs[i], configs[i] = r.newDir(), r.session(gw)
		configs[i].Labels["bench.fleet"] = "ours"
	}
	bare := r.measureLaunch(ctx, n, "bench.bare="+r.id, func(ctx context.Context, i int) {
		r.startBare(ctx, "bench.bare="+r.id, dirs[i])
	})
	load.Check(r.daemon.removeLabelled("bench.bare=" + r.id))
	var mu sync.Mutex
	ours := r.measureLaunch(ctx, n, "bench.fleet=ours", func(ctx context.Context, i int) {
		session := load.Must(runner.Start(ctx, configs[i]))
		mu.Lock()
		defer mu.Unlock()
		r.later(func() error { return session.Close(context.Background()) })
	})
	what, against := fmt.Sprintf("%d agents in containers", n), bareContainer
	return []row{
		versus("P17", what+": launches, four at a time", against, unitRate, []float64{ours.rate},
			[]float64{bare.rate}).leastGoal(0.85),
		row{ID: "P17", What: what + ": percent of a core when idle, all together", Against: against, Unit: unitCount,
			Floor: bare.cpu, Ours: ours.cpu}.absoluteGoal(1),
		row{ID: "P17", What: what + ": memory of each beyond that of a bare one", Against: against, Unit: unitMB,
			Floor: bare.memory, Ours: ours.memory - bare.memory}.absoluteGoal(10),
	}
}

// measureLaunch launches a fleet, whose containers have a label, and looks at it while it has nothing to do.
func (r *rig) measureLaunch(ctx context.Context, n int, mark string, launch func(context.Context, int)) (f fleet) {
	r.later(func() error { return r.daemon.removeLabelled(mark) })
	_, took := parallel(ctx, n, 4, launch)
	f.rate = float64(n) / took.Seconds()
	ids := load.Must(r.daemon.labelled(mark))
	load.Check(load.Pause(ctx, 3*time.Second))
	pids := load.InContainers(ids)
	if len(ids) != n || len(pids) < n {
		load.Failf("%d of %d containers and %d processes of them run", len(ids), n, len(pids))
	}
	for _, pid := range pids {
		f.memory += load.Proportional(pid) / 1e6 / float64(n)
	}
	idle := 10 * time.Second
	before := cpuTime(pids)
	load.Check(load.Pause(ctx, idle))
	f.cpu = 100 * (cpuTime(pids) - before).Seconds() / idle.Seconds()
	return f
}

// cpuTime is what the processes and this one, the runner, have used.
func cpuTime(pids []int) time.Duration {
	all := load.Time(pids)
	var used unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &used) == nil {
		all += time.Duration(used.Utime.Nano() + used.Stime.Nano())
	}
	return all
}
