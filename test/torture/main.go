// Command torture kills what runs turns at random instants, lets the product
// recover by its own means, and checks what must hold then.
//
//	go run ./test/torture [-rounds N] [-seed S] [-kind runs|agents|trees|sessions|all|endurance|shared]
//	  [-only agentd,…] [-keep]
//
// There are six kinds of rounds: turns that are run once; agents that live under a daemon, of which some rounds share
// one daemon and its home; likewise agents that work in trees of repositories, which the operator and the user change
// meanwhile; likewise sessions of clients that speak Open Responses; many agents that work for minutes, which also
// reports what that costs; and agents of three daemons that share a ledger in PostgreSQL, one of which is killed every
// ten seconds.
//
// A round draws from the seed and its number: the work of the turns, the victim of
// the fault, its kind and its time. A violation prints what was broken, the command that replays
// the round, and the directory of it, which is kept. Replaying repeats every
// choice; what the scheduler does between two instants it cannot repeat, so a
// rare failure may need several rounds: -again N.
//
// Package check has the invariants. docs/explanation/crash-contract.md says what they are
// for. It needs root for the rounds with file systems of their own, and a Docker
// engine with the base image for those with containers; rounds that cannot run
// are said so, not passed over in silence.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

type options struct {
	rounds, strikes, messages int
	kills                     int
	first, again, workers     int
	seed                      uint64
	kinds, only               []string
	link                      string
	kubeconfig                string // "": containers are those of the Docker engine
	image, agentdImage        string // that the cluster has
	keep                      bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	violations, err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "torture:", err)
		os.Exit(2)
	}
	if violations > 0 {
		os.Exit(1)
	}
}

func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	var only, kind string
	fs := flag.NewFlagSet("torture", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.IntVar(&o.rounds, "rounds", 100, "`number` of rounds of each kind")
	fs.IntVar(&o.first, "first", 0, "`number` of the first round, or of the first daemon of agents")
	fs.StringVar(&kind, "kind", "all",
		"`kind` of rounds: runs, agents, trees, sessions, endurance or shared; all are the first four")
	fs.IntVar(&o.strikes, "strikes", 10, "`rounds` of agents, trees or sessions that share a daemon")
	fs.IntVar(&o.messages, "messages", 2000, "`messages` of a round of endurance")
	fs.IntVar(&o.kills, "kills", 6, "`kills` of a round of shared, every ten seconds")
	fs.IntVar(&o.again, "again", 1, "how `often` each round is played")
	fs.IntVar(&o.workers, "workers", 2, "rounds at once")
	fs.Uint64Var(&o.seed, "seed", rand.Uint64(), "`seed` that all choices are drawn from")
	fs.StringVar(&only, "only", "", "comma-separated `victims`: "+strings.Join(names(), ", "))
	fs.StringVar(&o.link, "link", "auto", "how containers are `reached`: mounts, stream or auto")
	fs.StringVar(&o.kubeconfig, "kubeconfig", "", "`file` of a cluster that runs agents, trees and sessions")
	fs.StringVar(&o.image, "image", image, "`image` of agents in the cluster")
	fs.StringVar(&o.agentdImage, "agentd-image", "", "`image` with agentd in the cluster")
	fs.BoolVar(&o.keep, "keep", false, "keep the directories of all rounds")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	o.kinds = []string{kind}
	switch kind {
	case "all":
		o.kinds = []string{kindRuns, kindAgents, kindTrees, kindSessions}
	case kindRuns, kindAgents, kindTrees, kindSessions, kindEndurance, kindShared:
	default:
		return o, fmt.Errorf("-kind: unknown kind %s; use runs, agents, trees, sessions, endurance, shared or all", kind)
	}
	for name := range strings.SplitSeq(only, ",") {
		if name = strings.TrimSpace(name); name == "" {
			continue
		}
		if !slices.Contains(names(), name) {
			return o, fmt.Errorf("-only %s: there is no such victim; they are %s", name, strings.Join(names(), ", "))
		}
		o.only = append(o.only, name)
	}
	if min(o.rounds, o.again, o.workers, o.strikes, o.messages, o.kills) < 1 || fs.NArg() > 0 {
		return o, errors.New("numbers are positive, and there are no arguments; see -help")
	}
	return o, nil
}

// run plays the rounds and returns how many broke an invariant.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) (violations int, err error) {
	opts, err := parse(args, stderr)
	if err != nil {
		return 0, err
	}
	l, err := openLab(opts)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, l.close()) }()
	for _, kind := range opts.kinds {
		n, err := l.playKind(ctx, kind, stdout)
		if violations += n; err != nil {
			return violations, err
		}
	}
	return violations, nil
}

func (l *lab) playKind(ctx context.Context, kind string, stdout io.Writer) (violations int, err error) {
	can, cannot := able(ctx, kind, l.only)
	for _, why := range cannot {
		fmt.Fprintln(stdout, "left out:", why)
	}
	if len(can) == 0 {
		if len(l.kinds) > 1 {
			return 0, nil // the output says so, or they are not asked for
		}
		return 0, errors.New("no round can be played here")
	}
	began := time.Now()
	fmt.Fprintf(stdout, "seed %d, %d rounds of %s\n", l.seed, l.rounds, strings.Join(namesOf(can), ", "))
	count := l.rounds
	if kind == kindAgents || kind == kindTrees || kind == kindSessions {
		count = (l.rounds + l.strikes - 1) / l.strikes
	}
	t := &tally{options: l.options, kind: kind, out: stdout, played: map[string]int{}, faults: map[string]int{}}
	numbers := make(chan int)
	var group sync.WaitGroup
	for range l.workers {
		group.Go(func() {
			for n := range numbers {
				for range l.again {
					t.add(l.play(ctx, n, can))
				}
			}
		})
	}
	for n := l.first; n < l.first+count && ctx.Err() == nil; n++ {
		numbers <- n
	}
	close(numbers)
	group.Wait()
	t.report(time.Since(began))
	return t.violations, ctx.Err()
}

type tally struct {
	options
	kind string
	out  io.Writer

	mu         sync.Mutex
	played     map[string]int
	faults     map[string]int
	total      int
	turns      int
	violations int
}

func (t *tally) add(r *round) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.played[r.victim] += r.rounds
	t.total += r.rounds
	t.turns += r.turns
	for name, n := range r.faults {
		t.faults[name] += n
	}
	if r.err != nil && !errors.Is(r.err, context.Canceled) {
		t.violations++
		fmt.Fprintf(t.out, "VIOLATION in round %d (%s)\n  %s\n  %s\n  kept: %s\n  replay: %s\n", r.number, r.victim,
			strings.ReplaceAll(r.err.Error(), "\n", "\n  "), strings.Join(r.story, "\n  "), r.dir, t.replay(r))
	}
	fmt.Fprint(t.out, r.report)
	if t.total/100 > (t.total-r.rounds)/100 {
		fmt.Fprintf(t.out, "%d rounds, %d turns, %d violations\n", t.total, t.turns, t.violations)
	}
}

func (t *tally) replay(r *round) string {
	command := fmt.Sprintf("go run ./test/torture -kind %s -seed %d -first %d -rounds 1 -again 20", t.kind, t.seed,
		r.number)
	if len(t.only) > 0 {
		command += " -only " + strings.Join(t.only, ",")
	}
	if t.kubeconfig != "" {
		return command + " -kubeconfig FILE -image IMAGE -agentd-image IMAGE"
	}
	if t.link != "auto" {
		command += " -link " + t.link
	}
	return command
}

func (t *tally) report(took time.Duration) {
	parts := []string{}
	for _, name := range names() {
		if n := t.played[name]; n > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", name, n))
		}
	}
	fmt.Fprintf(t.out, "%d rounds (%s), %d turns, %d violations, %.0f s, seed %d\n", t.total, strings.Join(parts, ", "),
		t.turns, t.violations, took.Seconds(), t.seed)
	for _, name := range slices.Sorted(maps.Keys(t.faults)) {
		fmt.Fprintf(t.out, "  %5d × %s\n", t.faults[name], name)
	}
}
