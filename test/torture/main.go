// Command torture kills what runs turns at random instants, lets the product
// recover by its own means, and checks what must hold then.
//
//	go run ./test/torture [-rounds N] [-seed S] [-kind runs|agents|all] [-only agentd,container,…] [-keep]
//
// There are two kinds of rounds: turns that are run once, and agents that live
// under a daemon, of which ten rounds share one daemon and its home.
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
	rounds  int
	first   int
	again   int
	workers int
	seed    uint64
	kinds   []string
	only    []string
	keep    bool
	bin     string
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
	fs.StringVar(&kind, "kind", "all", "`kind` of rounds: runs, agents or all")
	fs.IntVar(&o.again, "again", 1, "how `often` each round is played")
	fs.IntVar(&o.workers, "workers", 2, "rounds at once")
	fs.Uint64Var(&o.seed, "seed", rand.Uint64(), "`seed` that all choices are drawn from")
	fs.StringVar(&only, "only", "", "comma-separated `victims`: "+strings.Join(names(), ", "))
	fs.BoolVar(&o.keep, "keep", false, "keep the directories of all rounds")
	fs.StringVar(&o.bin, "bin", "", "`directory` of agentd and holon; built when it is not given")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	switch kind {
	case "all":
		o.kinds = []string{kindRuns, kindAgents}
	case kindRuns, kindAgents:
		o.kinds = []string{kind}
	default:
		return o, fmt.Errorf("-kind %s: there is no such kind; they are runs, agents, all", kind)
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
	if o.rounds < 1 || o.again < 1 || o.workers < 1 || fs.NArg() > 0 {
		return o, errors.New("-rounds, -again and -workers are positive, and there are no arguments; see -help")
	}
	return o, nil
}

// run plays the rounds and returns how many broke an invariant.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) (violations int, err error) {
	opts, err := parse(args, stderr)
	if err != nil {
		return 0, err
	}
	lab, err := openLab(ctx, opts.bin)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, lab.close()) }()
	lab.keep = opts.keep
	for _, kind := range opts.kinds {
		n, err := runKind(ctx, lab, opts, kind, stdout)
		if violations += n; err != nil {
			return violations, err
		}
	}
	return violations, nil
}

// runKind plays the rounds of one kind.
func runKind(ctx context.Context, lab *lab, opts options, kind string, stdout io.Writer) (violations int, err error) {
	can, cannot := lab.able(ctx, kind, opts.only)
	for _, why := range cannot {
		fmt.Fprintln(stdout, "left out:", why)
	}
	if len(can) == 0 {
		if len(opts.kinds) > 1 {
			return 0, nil // said, or not asked for
		}
		return 0, errors.New("no round can be played here")
	}
	began := time.Now()
	fmt.Fprintf(stdout, "seed %d, %d rounds of %s\n", opts.seed, opts.rounds, strings.Join(namesOf(can), ", "))
	tally := newTally()
	numbers := make(chan int)
	var group sync.WaitGroup
	for range opts.workers {
		group.Go(func() {
			for n := range numbers {
				for range opts.again {
					tally.add(stdout, opts, lab.play(ctx, opts.seed, n, can))
				}
			}
		})
	}
	count := opts.rounds
	if kind == kindAgents {
		count = (opts.rounds + roundsPerDaemon - 1) / roundsPerDaemon
	}
	for n := opts.first; n < opts.first+count && ctx.Err() == nil; n++ {
		numbers <- n
	}
	close(numbers)
	group.Wait()
	tally.report(stdout, opts, time.Since(began))
	return tally.violations, ctx.Err()
}

// tally counts what came of the rounds.
type tally struct {
	mu         sync.Mutex
	played     map[string]int
	faults     map[string]int
	turns      int
	violations int
}

func newTally() *tally { return &tally{played: map[string]int{}, faults: map[string]int{}} }

func (t *tally) add(w io.Writer, o options, r result) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.played[r.victim] += r.rounds
	t.turns += r.turns
	for name, n := range r.faults {
		t.faults[name] += n
	}
	total := 0
	for _, n := range t.played {
		total += n
	}
	if r.err != nil && !errors.Is(r.err, context.Canceled) {
		t.violations++
		fmt.Fprintf(w, "VIOLATION in round %d (%s)\n%s\n  %s\n  kept: %s\n  replay: go run ./test/torture -kind %s "+
			"-seed %d -first %d -rounds 1 -again 20%s\n",
			r.number, r.what, indent(r.err.Error()), strings.Join(r.story, "\n  "), r.dir, kindOf(r.victim), o.seed,
			r.number, only(o))
	}
	if total/100 > (total-r.rounds)/100 {
		fmt.Fprintf(w, "%d rounds, %d turns, %d violations\n", total, t.turns, t.violations)
	}
}

func (t *tally) report(w io.Writer, o options, took time.Duration) {
	total := 0
	parts := []string{}
	for _, name := range names() {
		if n := t.played[name]; n > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", name, n))
			total += n
		}
	}
	fmt.Fprintf(w, "%d rounds (%s), %d turns, %d violations, %.0f s, seed %d\n", total, strings.Join(parts, ", "),
		t.turns, t.violations, took.Seconds(), o.seed)
	for _, name := range slices.Sorted(maps.Keys(t.faults)) {
		fmt.Fprintf(w, "  %5d × %s\n", t.faults[name], name)
	}
}

func kindOf(victim string) string {
	for _, v := range victims() {
		if v.name == victim {
			return v.kind
		}
	}
	return kindRuns
}

func only(o options) string {
	if len(o.only) == 0 {
		return ""
	}
	return " -only " + strings.Join(o.only, ",")
}

func indent(s string) string { return "  " + strings.ReplaceAll(s, "\n", "\n  ") }
