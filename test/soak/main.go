// Command soak runs many agents for a while: messages of every kind arrive at a
// steady rate, the daemon is stopped and killed in between, and at the end all
// agents sleep. It makes the checks of package check and reports the cost.
//
//	go run ./test/soak [-agents 20] [-messages 2000] [-pace 12] [-idle 1m] [-seed S] [-json]
//
// It needs a Docker engine with the base image. It removes everything that it made,
// also when it is interrupted.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"holon/state/ledger"
	"holon/test/longlived"
)

type options struct {
	agents, messages, restarts int
	pace                       float64
	idle                       time.Duration
	seed                       uint64
	json                       bool
	bin                        string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
}

func parse(args []string, stderr io.Writer) (o options, err error) {
	fs := flag.NewFlagSet("soak", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.IntVar(&o.agents, "agents", 20, "`number` of agents")
	fs.IntVar(&o.messages, "messages", 2000, "`number` of messages in all")
	fs.IntVar(&o.restarts, "restarts", 6, "how `often` the daemon ends in between; every second time it is killed")
	fs.Float64Var(&o.pace, "pace", 12, "messages a `second`, while the daemon is there")
	fs.DurationVar(&o.idle, "idle", time.Minute, "for how `long` the sleeping agents are watched")
	fs.Uint64Var(&o.seed, "seed", rand.Uint64(), "`seed` that all choices are drawn from")
	fs.BoolVar(&o.json, "json", false, "print one line of JSON")
	fs.StringVar(&o.bin, "bin", "bin", "`directory` of agentd and holon")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	if o.agents < 1 || o.messages < 1 || o.restarts < 0 || o.pace <= 0 || o.idle < time.Second || fs.NArg() > 0 {
		return o, errors.New("numbers are positive, -idle is a second at least, and there are no arguments; see -help")
	}
	o.bin, err = filepath.Abs(o.bin)
	return o, err
}

// soak is a run of the program.
type soak struct {
	opts    options
	rng     *rand.Rand
	serve   *longlived.Server
	agents  []string
	letters []*longlived.Letter
	log     io.Writer
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	opts, err := parse(args, stderr)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "soak-") // short: sockets lie in it
	if err != nil {
		return err
	}
	s := &soak{opts: opts, rng: rand.New(rand.NewPCG(opts.seed, 0)), log: stderr}
	defer func() {
		if err != nil {
			fmt.Fprintf(stderr, "seed %d; kept: %s\n", opts.seed, dir)
			return
		}
		err = os.RemoveAll(dir)
	}()
	s.serve, err = longlived.New(longlived.Options{Dir: dir, Bin: opts.bin,
		Env: []string{"HOLON_IDLE_PAUSE=3s", "HOLON_MAX_CONTAINERS=" + fmt.Sprint(opts.agents)}})
	if err != nil {
		return err
	}
	defer func() { s.serve.Close(); err = errors.Join(err, s.serve.RemoveContainers()) }()
	f, err := s.live(ctx)
	if err != nil {
		return fmt.Errorf("%w\n%s", err, s.serve.Tail())
	}
	f.Seed = opts.seed
	if opts.json {
		return json.NewEncoder(stdout).Encode(f)
	}
	return f.table(stdout)
}

// live is the whole life of the agents.
func (s *soak) live(ctx context.Context) (*figures, error) {
	empty, err := s.populate(ctx)
	if err != nil {
		return nil, err
	}
	f := &figures{Agents: s.opts.agents}
	if err := s.work(ctx, f); err != nil {
		return nil, err
	}
	if err := f.latency(ctx, s.serve.Ledger(), s.letters); err != nil {
		return nil, err
	}
	if err := f.watch(ctx, s.serve, s.opts.idle); err != nil {
		return nil, err
	}
	if f.LedgerBytes, err = s.restart(ctx, 0); err != nil {
		return nil, err
	}
	f.BytesPerMessage = float64(f.LedgerBytes-empty) / float64(f.Messages)
	if err := s.serve.End(); err != nil {
		return nil, err
	}
	left, err := s.serve.Containers(ctx, "")
	if err == nil && len(left) > 0 {
		err = fmt.Errorf("containers are left: %v", left)
	}
	return f, err
}

// populate starts the daemon and makes the agents. It returns the size of their
// ledger before anything came.
func (s *soak) populate(ctx context.Context) (int64, error) {
	if err := s.serve.Start(ctx); err != nil {
		return 0, err
	}
	for n := range s.opts.agents {
		s.agents = append(s.agents, fmt.Sprintf("agent-%02d", n))
		if err := s.serve.Create(ctx, s.agents[n]); err != nil {
			return 0, err
		}
	}
	return s.restart(ctx, 0) // in good order, so that the ledger is one file
}

// work sends all messages, waits until they are worked off, and checks
// everything.
func (s *soak) work(ctx context.Context, f *figures) error {
	listeners := make(map[string]*longlived.Listener, len(s.agents))
	for _, agent := range s.agents {
		listeners[agent] = s.serve.Listen(ctx, agent)
		defer listeners[agent].Stop()
	}
	began := time.Now()
	if err := s.load(ctx); err != nil {
		return err
	}
	newest, err := s.verify(ctx)
	if err != nil {
		return err
	}
	f.Seconds = time.Since(began).Seconds()
	for agent, l := range listeners {
		if err := l.Through(ctx, newest[agent]); err != nil {
			return err
		}
		f.Events += newest[agent]
	}
	return nil
}

// restart ends the daemon in good order, or kills it, and starts it again. It
// returns the size of the ledger in between.
func (s *soak) restart(ctx context.Context, n int) (int64, error) {
	if n%2 == 1 {
		s.serve.Kill()
	} else if err := s.serve.End(); err != nil {
		return 0, err
	}
	info, err := os.Stat(s.serve.Ledger())
	if err != nil {
		return 0, err
	}
	return info.Size(), s.serve.Start(ctx)
}

// load sends the messages at the pace, and restarts the daemon in between.
func (s *soak) load(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var senders sync.WaitGroup
	if err := s.send(ctx, &senders, cancel); err != nil {
		cancel(err)
	}
	senders.Wait()
	return context.Cause(ctx)
}

func (s *soak) send(ctx context.Context, senders *sync.WaitGroup, failed context.CancelCauseFunc) error {
	tick := time.NewTicker(time.Duration(float64(time.Second) / s.opts.pace))
	defer tick.Stop()
	every := max(1, s.opts.messages/(s.opts.restarts+1))
	for n := 1; n <= s.opts.messages; n++ {
		l := s.draw(n)
		s.letters = append(s.letters, l)
		senders.Go(func() {
			if err := s.serve.Send(ctx, l); err != nil {
				failed(err)
			}
		})
		if n%every == 0 && n/every <= s.opts.restarts {
			fmt.Fprintf(s.log, "%d messages are sent; the daemon is restarted\n", n)
			if _, err := s.restart(ctx, n/every); err != nil {
				return err
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil // the cause is known
		}
	}
	return nil
}

// draw makes a message.
func (s *soak) draw(n int) *longlived.Letter {
	ways, words := longlived.Ways(), longlived.Words()
	l := &longlived.Letter{
		Agent: s.agents[s.rng.IntN(len(s.agents))], Way: ways[s.rng.IntN(len(ways))],
		Word: words[s.rng.IntN(len(words))],
		Key:  fmt.Sprintf("letter-%06d", n), After: time.Duration(50+s.rng.IntN(500)) * time.Millisecond,
	}
	if l.Way == longlived.Interval { // its ticks are messages beyond the number
		l.Way = longlived.Timer
	}
	switch l.Way {
	case longlived.Prompt:
		l.Priority = []ledger.Priority{ledger.Interject, ledger.Next, ledger.Normal, ledger.Background}[s.rng.IntN(4)]
	case longlived.Enqueue:
		l.Priority = []ledger.Priority{ledger.Next, ledger.Normal, ledger.Background}[s.rng.IntN(3)]
	}
	return l
}

// verify waits until all agents sleep, and checks everything.
func (s *soak) verify(ctx context.Context) (map[string]int64, error) {
	for _, l := range s.letters {
		if !l.Acked && l.Way.Keyed() {
			return nil, fmt.Errorf("%s to %s was refused: %s", l.Way, l.Agent, l.Refused)
		}
	}
	return s.serve.Verify(ctx, s.agents, s.letters)
}
