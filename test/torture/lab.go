package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"sync"
	"syscall"
	"time"

	"holon/test/torture/check"
)

// patience bounds everything that is waited for. It says when something hangs,
// not how fast anything has to be.
const patience = time.Minute

// victim is a kind of round: what is hit, and how often it is drawn.
type victim struct {
	kind   string
	name   string
	weight int
	needs  func(ctx context.Context, l *lab) error // nil when it can be played here
	play   func(ctx context.Context, r *round) error
}

// Kinds of rounds: turns that are run once, and agents that live on.
const (
	kindRuns   = "runs"
	kindAgents = "agents"
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
	}
}

func names() []string { return namesOf(victims()) }

func namesOf(list []victim) (all []string) {
	for _, v := range list {
		all = append(all, v.name)
	}
	return all
}

// lab has the programs that rounds run, and the directory they run in.
type lab struct {
	dir  string
	bin  string
	keep bool

	mu   sync.Mutex
	kept bool
}

// openLab builds the programs unless bin has them.
func openLab(ctx context.Context, bin string) (*lab, error) {
	dir, err := os.MkdirTemp("", "torture-") // short: sockets lie in it
	if err != nil {
		return nil, err
	}
	l := &lab{dir: dir, bin: bin}
	if l.bin != "" {
		l.bin, err = filepath.Abs(l.bin)
		return l, err
	}
	l.bin = filepath.Join(dir, "bin")
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", l.bin+string(filepath.Separator),
		"holon/cmd/agentd", "holon/cmd/holon", "holon/test/bench/floor")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, errors.Join(fmt.Errorf("build the programs: %w\n%s", err, out), os.RemoveAll(dir))
	}
	return l, nil
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
func (l *lab) able(ctx context.Context, kind string, only []string) (can []victim, cannot []string) {
	for _, v := range victims() {
		if v.kind != kind || len(only) > 0 && !slices.Contains(only, v.name) {
			continue
		}
		if v.needs != nil {
			if err := v.needs(ctx, l); err != nil {
				cannot = append(cannot, fmt.Sprintf("%s: %v", v.name, err))
				continue
			}
		}
		can = append(can, v)
	}
	return can, cannot
}

func needRoot(context.Context, *lab) error {
	if os.Geteuid() != 0 {
		return errors.New("mounting a file system needs root")
	}
	return nil
}

func needEngineAndRoot(ctx context.Context, l *lab) error {
	return errors.Join(needRoot(ctx, l), needEngine(ctx, l))
}

func needLoop(ctx context.Context, l *lab) error {
	if err := needRoot(ctx, l); err != nil {
		return err
	}
	if _, err := os.Stat("/dev/loop-control"); err != nil {
		return errors.New("there are no loop devices")
	}
	_, err := exec.LookPath("mkfs.ext4")
	return err
}

// round is one of them while it is played. Everything random comes from its rng,
// in one goroutine and in a fixed order, so that a seed repeats it.
type round struct {
	lab    *lab
	number int
	rng    *rand.Rand
	dir    string
	mark   string // in the environment of all that it starts

	mu     sync.Mutex
	story  []string // what was chosen and done, for who has to find a failure
	turns  int      // that were accepted, or messages to agents
	rounds int      // that it counts for, if it is not one
	faults map[string]int
	pids   []int // of processes that run next to the server until the end of the round
	undo   []func() error
}

// result is what came of a round.
type result struct {
	number int
	victim string
	what   string
	dir    string
	rounds int
	turns  int
	faults map[string]int
	story  []string
	err    error
}

// play plays a round.
func (l *lab) play(ctx context.Context, seed uint64, number int, can []victim) result {
	r := &round{lab: l, number: number, rng: rand.New(rand.NewPCG(seed, uint64(number)))}
	v := draw(r.rng, can)
	res := result{number: number, victim: v.name, what: v.name, rounds: 1}
	if r.dir, res.err = os.MkdirTemp(l.dir, fmt.Sprintf("%d-", number)); res.err != nil {
		return res
	}
	r.mark = "HOLON_TORTURE=" + r.dir
	res.dir = r.dir
	ctx, cancel := context.WithTimeout(ctx, 10*patience)
	defer cancel()
	res.err = r.guarded(ctx, v)
	for _, f := range slices.Backward(r.undo) {
		res.err = errors.Join(res.err, f())
	}
	if res.err == nil {
		res.err = errors.Join(check.NoMount(r.dir), check.NoProcess(r.mark, r.dir), check.NoLock(r.dir))
	}
	res.story, res.turns, res.faults, res.rounds = r.story, r.turns, r.faults, max(1, r.rounds)
	if res.err != nil || l.keep {
		l.mu.Lock()
		l.kept = true
		l.mu.Unlock()
		return res
	}
	res.err = os.RemoveAll(r.dir)
	return res
}

// guarded makes an error of a panic of the harness, so that its round is named.
func (r *round) guarded(ctx context.Context, v victim) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the harness panicked: %v\n%s", p, debug.Stack())
		}
	}()
	return v.play(ctx, r)
}

func draw(rng *rand.Rand, can []victim) victim {
	sum := 0
	for _, v := range can {
		sum += v.weight
	}
	at := rng.IntN(sum)
	for _, v := range can {
		if at -= v.weight; at < 0 {
			return v
		}
	}
	return can[0]
}

// struck counts a fault.
func (r *round) struck(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.faults == nil {
		r.faults = make(map[string]int)
	}
	r.faults[name]++
}

// tell adds to the story.
func (r *round) tell(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.story = append(r.story, fmt.Sprintf(format, args...))
}

func (r *round) path(parts ...string) string {
	return filepath.Join(append([]string{r.dir}, parts...)...)
}

// chance is true in one of n cases.
func (r *round) chance(n int) bool { return r.rng.IntN(n) == 0 }

// upTo is a random time below max.
func (r *round) upTo(max time.Duration) time.Duration {
	return time.Duration(r.rng.Int64N(int64(max)))
}

// process is a program that a round started.
type process struct {
	name string
	cmd  *exec.Cmd
	log  *os.File
	done chan struct{} // closed when it has been waited for
}

// start starts a program in a session of its own, so that what kills it kills
// nothing else. It ends with the round.
func (r *round) start(name string, env []string, dir string, args ...string) (*process, error) {
	log, err := os.OpenFile(r.path(name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	p := &process{name: name, log: log, done: make(chan struct{}), cmd: exec.Command(args[0], args[1:]...)}
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = dir, log, log
	p.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), r.mark}, env...)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := p.cmd.Start(); err != nil {
		return nil, errors.Join(err, log.Close())
	}
	go func() {
		defer close(p.done)
		_ = p.cmd.Wait() // ProcessState says how it ended
		_ = log.Close()  // only appended to
	}()
	r.undo = append(r.undo, func() error { p.kill(); return nil })
	return p, nil
}

// kill ends it as nothing can be handled, and waits.
func (p *process) kill() {
	_ = p.cmd.Process.Signal(syscall.SIGCONT)
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.done
}

// end asks it to end and returns its exit code.
func (p *process) end(sig syscall.Signal) (int, error) {
	_ = p.cmd.Process.Signal(sig) // it may have ended
	return p.wait()
}

func (p *process) wait() (int, error) {
	select {
	case <-p.done:
		return p.cmd.ProcessState.ExitCode(), nil
	case <-time.After(patience):
		_ = p.cmd.Process.Signal(syscall.SIGQUIT) // its goroutines tell why
		select {
		case <-p.done:
		case <-time.After(5 * time.Second):
			p.kill()
		}
		return -1, fmt.Errorf("%s did not end within %s", p.name, patience)
	}
}

// eventually waits until f finds nothing wrong and returns what it found last.
func eventually(ctx context.Context, limit time.Duration, f func() error) error {
	for end := time.Now().Add(limit); ; {
		err := f()
		if err == nil || time.Now().After(end) {
			return err
		}
		if err := pause(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// tail is the end of a file, to be shown.
func tail(path string, n int) []byte {
	data, _ := os.ReadFile(path) // it explains, if it is there
	return bytes.TrimSpace(data[max(0, len(data)-n):])
}
