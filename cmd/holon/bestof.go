package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/pflag"

	"holon/internal/duration"
	"holon/internal/visible"
	"holon/runner"
	"holon/runner/modelaccess"
	"holon/runner/oneshot"
	"holon/state"
)

// maxAttempts bounds the attempts of a run: each has a container and a tree at the same time.
const maxAttempts = 16

// checked are the options of a run about its check and its attempts.
type checked struct {
	Check      string
	CheckPaths []string
	CheckTime  time.Duration
	BestOf     int
	Models     []string
	Judge      string
	KeepGoing  bool
}

func (c *checked) flags(f *pflag.FlagSet) {
	f.StringVar(&c.Check, "check", "", "`command` that decides whether the result is good")
	f.StringArrayVar(&c.CheckPaths, "check-paths", nil,
		"`pattern` of files that the check gets as they were (default what common runners of tests read)")
	c.CheckTime = 10 * time.Minute
	timeVar(f, &c.CheckTime, "check-timeout", "`time` that the check may take, at most 1h")
	f.IntVar(&c.BestOf, "best-of", 0, "make `N` attempts and rank them by --check")
	f.StringSliceVar(&c.Models, "models", nil, "`models` of the attempts, in turn")
	f.StringVar(&c.Judge, "judge", "", "`model` that chooses between attempts that are equal")
	f.BoolVar(&c.KeepGoing, "keep-going", false, "let all attempts end when one has passed the check")
	rarely(f, "check-paths", "check-timeout", "models", "judge", "keep-going")
}

// checkAttempts refuses options about checks and attempts that contradict each other.
func (o *runOptions) checkAttempts(f *pflag.FlagSet) error {
	c, given := &o.checked, f.Changed
	if !given("best-of") {
		c.BestOf = max(1, len(c.Models))
	}
	var pathsErr error
	if c.CheckPaths != nil { // those of common runners are right, and take a while to compile
		_, pathsErr = oneshot.NewPaths(c.CheckPaths)
	}
	err := firstBad([]badOption{
		{c.BestOf < 1 || c.BestOf > maxAttempts, "--best-of", fmt.Sprintf("cannot be %d", c.BestOf),
			fmt.Sprintf("choose 1 to %d", maxAttempts)},
		{given("check") && strings.TrimSpace(c.Check) == "", "--check", "is empty",
			"give the command that checks the result, such as: make test"},
		{given("model") && given("models"), "--models", "cannot be combined with --model", "leave one of them out"},
		{c.Check == "" && c.BestOf > 1, "--best-of", "needs a check to rank attempts by",
			"give the command that checks the result with --check"},
		{len(c.Models) > c.BestOf, "--models", fmt.Sprintf("names %d models for %s", len(c.Models),
			count(c.BestOf, "attempt")), "name no more models than --best-of has attempts"},
		{c.BestOf > 1 && o.Format == formatStream, "--output-format", "stream-json has the events of one turn",
			"follow an attempt with: holon logs --events -f --attempt N"},
		{c.CheckTime <= 0 || c.CheckTime > oneshot.MaxCheckTimeout, "--check-timeout",
			"cannot be " + duration.Text(c.CheckTime), "choose up to 1h"},
		{pathsErr != nil, "--check-paths", fmt.Sprint(pathsErr),
			"write names with *, ? for one character, ** for directories and {a,b} for alternatives"},
	})
	return cmp.Or(err, c.alone("--judge", given("judge")), c.alone("--keep-going", given("keep-going")),
		c.unchecked("--check-paths", given("check-paths")), c.unchecked("--check-timeout", given("check-timeout")))
}

// alone refuses an option for several attempts where there is one.
func (c *checked) alone(flag string, given bool) error {
	return firstBad([]badOption{{given && c.BestOf == 1, flag, "is for several attempts", "give --best-of too"}})
}

// unchecked refuses an option for a check where there is none.
func (c *checked) unchecked(flag string, given bool) error {
	return firstBad([]badOption{{given && c.Check == "", flag, "is for a check", "give --check too"}})
}

// badOption is a usage error where it holds.
type badOption struct {
	is               bool
	flag, what, hint string
}

func firstBad(list []badOption) error {
	for _, bad := range list {
		if bad.is {
			return usage(bad.flag, bad.what, bad.hint)
		}
	}
	return nil
}

// check is what checks the result, nil for none.
func (c *checked) check() *oneshot.Check {
	if c.Check == "" {
		return nil
	}
	paths, _ := oneshot.NewPaths(c.CheckPaths) // whose error checkAttempts has returned
	return &oneshot.Check{Command: c.Check, Paths: paths, Timeout: c.CheckTime}
}

// attempts makes the runs of a best-of.
type attempts struct {
	*runOptions
	home   state.Home
	models *modelaccess.Host
	log    *slog.Logger
	view   *progress // of the whole
	begin  func()    // called when the first of them works
	opened []*modelaccess.Access
}

// runBest makes several attempts, ranks them, and prints the ranking.
func (o *runOptions) runBest(ctx context.Context, a *attempts) error {
	defer a.close()
	best := &oneshot.Best{ID: state.NewRunID(), Home: a.home, Name: o.Name, OutputDir: o.Output, Version: buildVersion(),
		Check: *o.check(), KeepGoing: o.KeepGoing}
	var whole oneshot.Watcher = a.view
	if o.Detached {
		whole = &leaving{a.view, best.ID}
	}
	a.begin = sync.OnceFunc(func() { whole.Phase("turn") })
	if err := a.make(ctx, best); err != nil {
		return err
	}
	eng, err := o.openEngine(&o.Loaded.Settings, a.view.notices(), a.home)
	if err != nil {
		return err
	}
	defer eng.Close()
	first := best.Attempts[0]
	best.Workspace, best.Quota = first.Workspace, first.Quota
	if eng.Name() == "docker" {
		best.Workspace.ContainerObjects = runner.ObjectsPath
	}
	telemetry := openTelemetry(ctx, o.streams.Secrets, a.log)
	defer telemetry.Close()
	for _, shot := range append(slices.Clone(best.Attempts), best.Judge) {
		if shot != nil {
			shot.Session.Engine, shot.Session.Telemetry = eng, telemetry
		}
	}
	a.view.opening = fmt.Sprintf("making %d attempts in %s%s", o.BestOf, eng.Name(), looser(&first.Session))
	manifest, err := best.Do(ctx)
	a.view.end()
	if err != nil {
		return err
	}
	return showEnd(o.streams, o.JSON, manifest, best.ResultDir(), a.view)
}

// make makes the attempts and the judge.
func (a *attempts) make(ctx context.Context, best *oneshot.Best) (err error) {
	for i := range a.BestOf {
		model, flag := a.Model, "--model"
		if len(a.Models) > 0 {
			model, flag = a.Models[i%len(a.Models)], "--models"
		}
		shot, err := a.attempt(ctx, model, fmt.Sprintf("[%d] ", i+1))
		if err != nil {
			return naming(err, flag)
		}
		best.Attempts = append(best.Attempts, shot)
	}
	if a.Judge != "" {
		if best.Judge, err = a.attempt(ctx, a.Judge, "[judge] "); err != nil {
			return naming(err, "--judge")
		}
		best.Judge.Session.Responses, best.Judge.Session.SessionID = "", "" // of a run that is continued
	}
	return nil
}

// naming names in an error about a model the flag that chose it.
func naming(err error, flag string) error {
	if e, ok := errors.AsType[*state.Error](err); ok && e.Param == "--model" {
		e.Param = flag
	}
	return err
}

// attempt is a run that asks model. What it prints begins with label.
func (a *attempts) attempt(ctx context.Context, model, label string) (*oneshot.Run, error) {
	shot, err := a.shot(a.home, a.log)
	if err != nil {
		return nil, err
	}
	refs := a.Refs()
	refs[0] = model
	access, err := openModels(ctx, a.models, refs, &shot.Session)
	if err != nil {
		return nil, err
	}
	a.opened = append(a.opened, access)
	shot.Session.AgentEnv = append(shot.Session.AgentEnv, a.agentLimits(false)...)
	shot.Watch = &attemptWatch{a.view.attemptView(label), a.begin}
	return shot, nil
}

// attemptView shows an attempt below a label, above the status line of the whole. Its answer is not printed.
func (p *progress) attemptView(label string) *progress {
	s := p.streams
	s.Err, s.ErrTTY, s.OutTTY = &labelled{to: p, label: label}, false, false
	view := newProgress(s, p.quiet)
	view.json = true
	return view
}

func (a *attempts) close() {
	for _, access := range a.opened {
		_ = access.Close() // nothing asks through it any more
	}
}

// attemptWatch is the watcher of an attempt. With the first turn of one of them the whole begins to work.
type attemptWatch struct {
	*progress
	begin func()
}

// Phase implements oneshot.Watcher.
func (w *attemptWatch) Phase(name string) {
	w.progress.Phase(name)
	if name == "turn" {
		w.begin()
	}
}

// labelled passes whole lines on, behind a label.
type labelled struct {
	to    *progress
	label string
	held  []byte
}

func (l *labelled) Write(data []byte) (int, error) {
	lines := bytes.Split(append(l.held, data...), []byte{'\n'})
	for _, line := range lines[:len(lines)-1] {
		l.to.println(l.label + string(line))
	}
	l.held = bytes.Clone(lines[len(lines)-1])
	return len(data), nil
}

// printAttempts prints the ranking of a run, the best first.
func printAttempts(streams Streams, m *state.Manifest) error {
	return printTable(streams, oneshot.Ranked(m.Attempts),
		[]string{"RANK", "ATTEMPT", "CHECK", "FILES", "LINES", "TOOK", "MODEL*"}, func(a state.Attempt) []string {
			return []string{oneshot.RankText(a), fmt.Sprint(a.Number), oneshot.CheckText(a), fmt.Sprint(a.Files),
				fmt.Sprint(a.Lines), elapsed(a.Took), a.Model}
		})
}

// summarizeAttempts says which attempt is the best, and what to do with it.
func (p *progress) summarizeAttempts(m *state.Manifest, dir string) {
	p.println(fmt.Sprintf("%s in %s: %d attempts", m.Status, elapsed(m.Timings.TotalMS), len(m.Attempts)))
	for _, a := range m.Attempts {
		label := fmt.Sprintf("[%d] ", a.Number)
		if p.showCheck(label, a.Checked); a.Checked != nil && a.Checked.Status == state.CheckChanged {
			p.println(label + line(*a.Checked.Error)) // that of a single run is its error
		}
	}
	p.summarizeUse(m)
	if j := m.Judge; j != nil {
		text := fmt.Sprintf("chose attempt %d", j.Choice)
		if j.Error != nil {
			text = "did not choose: " + visible.OneLine(j.Error.Message, 300)
		}
		p.println("judge    " + visible.OneLine(j.Model, 100) + " " + text)
	}
	p.println("results  " + dir)
	if m.Winner > 0 {
		p.println(fmt.Sprintf("best     attempt %d", m.Winner))
		p.println("diff     holon diff " + m.RunID)
		p.println("apply    holon apply " + m.RunID)
	} else if tied := oneshot.Tied(m); len(tied) > 0 {
		p.println(fmt.Sprintf("tie      attempts %s are equal: holon diff --attempt N %s, holon apply --attempt N %s",
			listed(tied), m.RunID, m.RunID))
	}
}

// listed are numbers with commas between.
func listed(numbers []int) string {
	return strings.Join(strings.Fields(strings.Trim(fmt.Sprint(numbers), "[]")), ", ")
}

// showCheck says how a check ended, what of the result it did not see, and the end of what it printed if it failed.
func (p *progress) showCheck(label string, c *state.Check) {
	if c == nil {
		return
	}
	text := string(c.Status)
	if c.ExitCode != nil && *c.ExitCode != 0 {
		text += fmt.Sprintf(" (exit code %d)", *c.ExitCode)
	}
	p.println(fmt.Sprintf("%scheck    %s in %s: %s", label, text, elapsed(c.DurationMS), visible.OneLine(c.Command, 200)))
	for _, pattern := range c.Unused {
		p.println(label + "warning: --check-paths " + visible.Name(pattern) + " fits no file, before or after the run")
	}
	for _, list := range []struct {
		what  string
		paths []string
	}{{"restored ", c.Restored}, {"changed  ", c.Changed}} {
		for i, path := range list.paths {
			if i == maxDetails {
				p.println(fmt.Sprintf("%s%s … and %d more", label, list.what, len(list.paths)-i))
				break
			}
			p.println(label + list.what + visible.Name(path))
		}
	}
	if c.Status == state.CheckPassed {
		return
	}
	lines := strings.Split(strings.TrimSpace(c.Output), "\n")
	for _, line := range lines[max(0, len(lines)-2*maxDetails):] {
		if line != "" {
			p.println(label + "  " + visible.OneLine(line, maxCell))
		}
	}
}
