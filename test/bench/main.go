// Command bench measures Holon against floors: programs that do the least the
// job needs, run in the same minutes on the same machine. Figures of one machine
// say little; the ratio of ours to the floor is what has a goal.
//
//	go run ./test/bench [-only P1,P3] [-rounds N] [-quick] [-json]
//
// Ours and the floor take turns, round by round. A ratio is the median over the
// rounds of the ratio within a round. docs/explanation/performance.md defines every metric.
//
// It needs a Docker engine, git, the Go tools and what `make programs` builds. It
// promises to remove what it made, containers and image included, also when it
// is interrupted; a second interrupt ends it at once.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"holon/test/load"
)

type options struct {
	only   []string
	rounds int
	quick  bool
	json   bool
	dir    string
	docker string
}

// metric measures the rows of some ids. They run in this order: what deletes
// many files comes last, because ext4 is slow for minutes after that.
type metric struct {
	ids     []string
	measure func(ctx context.Context, r *rig) []row
}

func metrics() []metric {
	return []metric{
		{[]string{"P11"}, measureSize},
		{[]string{"P10"}, measureMemory},
		{[]string{"P2"}, measureSpawn},
		{[]string{"P4", "P5", "P6"}, measureTurns},
		{[]string{"P12"}, measureChain},
		{[]string{"P7"}, measureFlood},
		{[]string{"P33", "P34", "P35", "P36"}, measureSessions},
		{[]string{"P28"}, measureWork},
		{[]string{"P38"}, measurePostgres},
		{[]string{"P21"}, measureSearch},
		{[]string{"P1", "P19", "P24"}, measureContainer},
		{[]string{"P37"}, measureLink},
		{[]string{"P18"}, measurePause},
		{[]string{"P17"}, measureFleet},
		{[]string{"P29"}, measureSpawnAgent},
		{[]string{"P31"}, measureClaim},
		{[]string{"P32"}, measureBest},
		{[]string{"P30"}, measureUse},
		{[]string{"P30"}, measureFirstRun},
		{[]string{"P3"}, measureRunningTurn},
		{[]string{"P3", "P26"}, measureRunningAgent},
		{[]string{"P16"}, measureDecay},
		{[]string{"P15"}, measureWorkingCopy},
	}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // so that a second signal is not caught
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	opts, err := parse(args, stderr)
	if err != nil {
		return err
	}
	report := report{Machine: describeMachine(opts.dir), Quick: opts.quick, Rounds: opts.rounds, Rows: []row{}}
	r, err := openRig(ctx, opts)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.unwind(0)) }()
	for _, m := range metrics() {
		if !m.wanted(opts.only) {
			continue
		}
		began := time.Now()
		fmt.Fprintf(stderr, "%s …", strings.Join(m.ids, ", "))
		var rows []row
		depth := len(r.undo)
		err := load.Guard(func() { rows = m.measure(ctx, r) })
		err = errors.Join(err, r.unwind(depth))
		fmt.Fprintf(stderr, " %.0f s, load %s\n", time.Since(began).Seconds(), loadAverage())
		if err != nil {
			return fmt.Errorf("measure %s: %w", strings.Join(m.ids, ", "), err)
		}
		for _, row := range rows {
			if len(opts.only) == 0 || slices.Contains(opts.only, row.ID) {
				report.Rows = append(report.Rows, row)
			}
		}
	}
	slices.SortStableFunc(report.Rows, func(a, b row) int { return cmp.Compare(number(a.ID), number(b.ID)) })
	report.Machine.LoadAfter = loadAverage()
	if opts.json {
		enc := json.NewEncoder(stdout)
		enc.SetIndent("", "  ")
		return enc.Encode(report)
	}
	return report.writeTable(stdout)
}

func (m metric) wanted(only []string) bool {
	return len(only) == 0 || slices.ContainsFunc(m.ids, func(id string) bool { return slices.Contains(only, id) })
}

func number(id string) int {
	n, _ := strconv.Atoi(strings.TrimPrefix(id, "P")) // ids are ours
	return n
}

func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	var only string
	fs := flag.NewFlagSet("bench", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.StringVar(&only, "only", "", "comma-separated `ids` of metrics, e.g. P1,P3")
	fs.IntVar(&o.rounds, "rounds", 5, "`rounds` in which ours and the floor take turns, at least 3")
	fs.BoolVar(&o.quick, "quick", false,
		"fewer samples and no tree of 50,000 files: to see that it works, not for the record")
	fs.BoolVar(&o.json, "json", false, "print JSON")
	fs.StringVar(&o.dir, "dir", os.TempDir(), "`directory` to work in; its file system is what is measured")
	fs.StringVar(&o.docker, "docker", cmp.Or(os.Getenv("DOCKER_HOST"), "unix:///var/run/docker.sock"),
		"`address` of the Docker engine, unix:///path")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	if fs.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q; see -help", fs.Arg(0))
	}
	if o.rounds < 3 {
		return o, fmt.Errorf("-rounds %d: a median of ratios needs at least 3", o.rounds)
	}
	known := []string{}
	for _, m := range metrics() {
		known = append(known, m.ids...)
	}
	for id := range strings.SplitSeq(only, ",") {
		if id = strings.ToUpper(strings.TrimSpace(id)); id == "" {
			continue
		}
		if !slices.Contains(known, id) {
			return o, fmt.Errorf("-only %s: there is no such metric; the metrics are %s", id, strings.Join(known, ", "))
		}
		o.only = append(o.only, id)
	}
	return o, nil
}
