package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"holon/test/load"
	"holon/test/postgrestest"
	"holon/test/torture/check"
)

// victim is a kind of round: what is hit, and how often it is drawn.
type victim struct {
	kind   string
	name   string
	weight int
	needs  func(ctx context.Context) error // nil when it can be played here
	play   func(ctx context.Context, r *round)
}

// Kinds of rounds: turns that are run once, agents that live on, those that work in trees, sessions of clients,
// many agents for long, and agents of processes that share a ledger.
const (
	kindRuns      = "runs"
	kindAgents    = "agents"
	kindTrees     = "trees"
	kindSessions  = "sessions"
	kindEndurance = "endurance"
	kindShared    = "shared"
)

// victims are all that can be hit. What has containers takes seconds and is
// drawn seldom.
func victims() []victim {
	return []victim{
		{kindRuns, "agentd", 60, nil, playAgentd},
		{kindRuns, "stop", 10, nil, playStop},
		{kindRuns, "disk", 8, needRoot, playDisk},
		{kindRuns, "readonly", 6, needLoop, playReadOnly},
		{kindRuns, "holon", 6, needEngine, playHolon},
		{kindRuns, "container", 4, needEngine, playContainer},
		{kindRuns, "engine", 3, needEngine, playEngine},
		{kindRuns, "home", 3, needEngineAndRoot, playHome},
		{kindAgents, "agents", 1, needEngine, playAgents},
		{kindTrees, "trees", 1, needEngine, playTrees},
		{kindSessions, "sessions", 5, nil, playSessions},
		{kindSessions, "sessions-contained", 1, needEngine, playSessionsInPlace},
		{kindEndurance, "endurance", 1, needEngine, playEndurance},
		{kindShared, "shared", 1, needEngineAndPostgres, playShared},
	}
}

func names() []string { return namesOf(victims()) }

func namesOf(list []victim) (all []string) {
	for _, v := range list {
		all = append(all, v.name)
	}
	return all
}

type lab struct {
	options
	dir   string
	place place

	mu   sync.Mutex
	kept bool
}

func openLab(o options) (*lab, error) {
	l := &lab{options: o, place: dockers{o.link}}
	if o.kubeconfig != "" {
		cluster, err := o.cluster()
		if err != nil {
			return nil, err
		}
		l.place = cluster
	}
	var err error
	l.dir, err = os.MkdirTemp("", "torture-") // short: sockets lie in it
	return l, err
}

// close removes the lab, unless a round in it is kept.
func (l *lab) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.kept {
		return nil
	}
	return os.RemoveAll(l.dir)
}

// able returns the victims that can be played here, and why others cannot.
func able(ctx context.Context, kind string, only []string) (can []victim, cannot []string) {
	for _, v := range victims() {
		if v.kind != kind || len(only) > 0 && !slices.Contains(only, v.name) {
			continue
		}
		if v.needs != nil {
			if err := v.needs(ctx); err != nil {
				cannot = append(cannot, fmt.Sprintf("%s: %v", v.name, err))
				continue
			}
		}
		can = append(can, v)
	}
	return can, cannot
}

func needRoot(context.Context) error {
	if os.Geteuid() != 0 {
		return errors.New("mounting a file system needs root")
	}
	return nil
}

func needEngineAndRoot(ctx context.Context) error { return errors.Join(needRoot(ctx), needEngine(ctx)) }

func needEngineAndPostgres(ctx context.Context) error {
	if !postgrestest.Installed() {
		return errors.New("PostgreSQL is not installed (Debian: postgresql)")
	}
	return needEngine(ctx)
}

func needLoop(ctx context.Context) error {
	if err := needRoot(ctx); err != nil {
		return err
	}
	if _, err := os.Stat("/dev/loop-control"); err != nil {
		return errors.New("there are no loop devices")
	}
	_, err := exec.LookPath("mkfs.ext4")
	return err
}

// round is one of them while it is played, and what came of it. Everything random comes from its rng,
// in one goroutine and in a fixed order, so that a seed repeats it.
type round struct {
	lab    *lab
	number int
	victim string
	rng    *rand.Rand
	dir    string
	mark   string // in the environment of all that it starts
	undo   []func() error
	pids   []int // of processes that run next to the server until the end of the round
	turns  int   // that were accepted, or messages to agents
	rounds int   // that it counts for
	report string
	err    error

	mu     sync.Mutex
	story  []string // what was chosen and done, for the search of a failure
	faults map[string]int
}

func (l *lab) play(ctx context.Context, number int, can []victim) *round {
	r := &round{lab: l, number: number, rng: rand.New(rand.NewPCG(l.seed, uint64(number))), rounds: 1,
		faults: map[string]int{}}
	v := draw(r.rng, can)
	r.victim = v.name
	if r.dir, r.err = os.MkdirTemp(l.dir, fmt.Sprintf("%d-", number)); r.err != nil {
		return r
	}
	r.mark = "HOLON_TORTURE=" + r.dir
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute+time.Duration(l.kills)*betweenKills)
	defer cancel()
	r.err = load.Guard(func() { v.play(ctx, r) })
	for _, f := range slices.Backward(r.undo) {
		r.err = errors.Join(r.err, f())
	}
	if r.err == nil {
		r.err = errors.Join(check.NoMount(r.dir), check.NoProcess(r.mark, r.dir), check.NoLock(r.dir))
	}
	if r.err == nil && !l.keep {
		r.err = os.RemoveAll(r.dir)
		return r
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kept = true
	return r
}

func draw(rng *rand.Rand, can []victim) victim {
	return drawWeighted(rng, can, func(v victim) int { return v.weight })
}

func drawWeighted[T any](rng *rand.Rand, list []T, weight func(T) int) T {
	sum := 0
	for _, one := range list {
		sum += weight(one)
	}
	at := rng.IntN(sum)
	for _, one := range list {
		if at -= weight(one); at < 0 {
			return one
		}
	}
	return list[0]
}

func (r *round) struck(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.faults[name]++
}

func (r *round) tell(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.story = append(r.story, fmt.Sprintf(format, args...))
}

// later has f called at the end of the round, last first.
func (r *round) later(f func() error) { r.undo = append(r.undo, f) }

func (r *round) path(parts ...string) string {
	return filepath.Join(append([]string{r.dir}, parts...)...)
}

// chance is true in one of n cases.
func (r *round) chance(n int) bool { return r.rng.IntN(n) == 0 }

func (r *round) upTo(max time.Duration) time.Duration {
	return time.Duration(r.rng.Int64N(int64(max)))
}

func one[T any](r *round, of ...T) T { return of[r.rng.IntN(len(of))] }

func (r *round) start(name string, env []string, dir string, args ...string) *load.Process {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir, cmd.Env = dir, append([]string{"PATH=" + os.Getenv("PATH"), r.mark}, env...)
	p := load.Must(load.Start(cmd, r.path(name+".log")))
	r.later(func() error { p.Kill(); return nil })
	return p
}

func pause(ctx context.Context, d time.Duration) { load.Check(load.Pause(ctx, d)) }
