// Package doctor looks at everything that a run needs, before there is a run:
// the host, the engine and what it does to a container, keys and models.
//
// Each check is a small function that looks at the real thing and says what it
// saw and, where something is wrong, the remedy. Checks that depend on one another
// run in sequence, independent sequences run in parallel, and the results are
// reported in a fixed order.
//
// The invariant: nothing is left behind. The doctor makes one directory in the
// state home, with the sentinel that shows whether host and container share
// files, and containers that carry the home's label; all are removed again, and
// so are directories of the home that were not there before.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"holon/internal/visible"
	"holon/runner"
	"holon/runner/engine"
	"holon/runner/modelaccess"
	"holon/runner/settings"
	"holon/state"
)

// How a check went.
const (
	statusOK      = "ok"
	statusWarning = "warning" // a run works, but less well than it could
	statusFailed  = "failed"  // a run does not work, or does not keep what it promises
	statusSkipped = "skipped" // it was not asked for, or needs what failed
)

// Result is one line of what the doctor says.
type Result struct {
	Check      string `json:"check"`
	Status     string `json:"status"`
	Seen       string `json:"seen"`   // what was found, in one line
	Remedy     string `json:"remedy"` // "" where nothing is to be done
	DurationMS int64  `json:"duration_ms"`
}

// Doctor knows what a run would use.
type Doctor struct {
	HolonHome, UserHome string // as for state.MakeHome
	Version             string // of holon
	Agentd              func() (string, error)
	Engine              func(state.Home) (engine.Engine, error)
	Image               string
	Workspace           string       // absolute; what a run would work on
	User                *engine.User // nil: the default
	Runtime             string       // "": the engine's
	Accept              []string     // axes that may be weaker
	Memory, NanoCPUs    int64        // 0: the defaults
	Quota               runner.Quota

	Loaded    *settings.Loaded
	Providers *modelaccess.Host
	Refs      []string // models that a run would ask
	Chosen    bool     // it was chosen
	Offline   bool     // ask no provider
}

// checkTime bounds one check.
const checkTime = 60 * time.Second

// Examine makes all checks and calls report with each result, in order. It returns
// whether a run can work. When ctx ends, checks end soon; what they could not see
// is reported as failed.
func (d *Doctor) Examine(ctx context.Context, report func(Result)) bool {
	well := true
	add := func(list []Result) {
		for _, r := range list {
			well = well && r.Status != statusFailed
			report(r)
		}
	}
	e := &examination{Doctor: d}
	add(timed(ctx, "home", e.checkHome))
	lanes := [][]named{e.hostChecks(), e.engineChecks(), e.modelChecks()}
	results := make([]chan []Result, len(lanes))
	for i, lane := range lanes {
		results[i] = make(chan []Result, 1)
		go func() { // sends once, and is waited for below
			var list []Result
			for _, c := range lane {
				do := c.do
				if why := e.lacks(c.needs); why != "" {
					do = func(context.Context) []Result { return skipped(why) }
				}
				list = append(list, timed(ctx, c.name, do)...)
			}
			results[i] <- list
		}()
	}
	for _, list := range results {
		add(<-list)
	}
	// cleaning up must not end with the caller's context
	finishing, cancel := context.WithTimeout(context.WithoutCancel(ctx), checkTime)
	defer cancel()
	if err := errors.Join(e.place.close(finishing), e.tidy()); err != nil {
		add([]Result{failed(fmt.Errorf("remove what the doctor made: %w", err)).of("home")})
	}
	return well
}

// check looks at one thing. Most have one result.
type check func(context.Context) []Result

type named struct {
	name  string
	needs need
	do    check
}

// need is what a check cannot do without: what checks before it have to find. Each includes those before it.
type need int

const (
	needsNothing need = iota
	needsHome
	needsEngine
	needsContainer
	needsReport // of the program that ran there
)

// lacks returns why a check cannot be made, "" if it can.
func (e *examination) lacks(what need) string {
	switch p := &e.place; {
	case what >= needsHome && e.home == nil:
		return "there is no state home"
	case what >= needsEngine && p.info == nil:
		return "the engine cannot be used"
	case what >= needsContainer && p.state == nil:
		return "there is no container"
	case what >= needsReport && p.seen == nil:
		return "nothing ran in a container"
	}
	return ""
}

// timed makes a check within its time.
func timed(ctx context.Context, name string, do check) []Result {
	ctx, cancel := context.WithTimeoutCause(ctx, checkTime, fmt.Errorf("there was no answer within %s", checkTime))
	defer cancel()
	begin := time.Now()
	list := do(ctx)
	for i := range list {
		list[i].Check, list[i].DurationMS = name, time.Since(begin).Milliseconds()
		list[i].Seen, list[i].Remedy = visible.OneLine(list[i].Seen, 1000), visible.OneLine(list[i].Remedy, 500)
	}
	return list
}

// examination is what checks find out for those after them.
type examination struct {
	*Doctor
	home  *state.Home // nil: there is none to use
	made  []string    // directories of the home that were not there, the outermost first
	place place
}

func seen(format string, args ...any) Result {
	return Result{Status: statusOK, Seen: fmt.Sprintf(format, args...)}
}

func (r Result) but(status string, remedy string) Result {
	r.Status, r.Remedy = status, remedy
	return r
}

func (r Result) of(check string) Result {
	r.Check = check
	return r
}

func one(r Result) []Result { return []Result{r} }

func skipped(why string) []Result { return one(seen("%s", why).but(statusSkipped, "")) }

// failed is the result of an error, with its remedy where it has one.
func failed(err error) Result {
	f := runner.Describe(err)
	if f.Param != "" {
		f.Message = f.Param + ": " + f.Message
	}
	return seen("%s", f.Message).but(statusFailed, f.Hint)
}

// ended gives an error of a call that ran out of time its reason.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return context.Cause(ctx)
	}
	return err
}

// checkSystem reports what the system lacks for a run.
func (e *examination) checkSystem(context.Context) []Result {
	return one(judgeSystem(runtime.GOOS, runtime.GOARCH))
}

func judgeSystem(system, arch string) Result {
	if system != "linux" {
		return seen("%s/%s: nothing bounds the memory of git, which reads repositories and results, and runs were never "+
			"tried here", system, arch).but(statusWarning, "run holon on Linux for repositories that you do not trust")
	}
	return seen("%s/%s", system, arch)
}

// checkSupport reports the properties of the engine before anything is tried with it.
func (e *examination) checkSupport(ctx context.Context) []Result {
	if e.place.info.Product == "" {
		return skipped("the engine is holon's own")
	}
	streams := false
	if linker, ok := e.place.eng.(engine.Linker); ok {
		var err error
		if streams, err = linker.Streams(ctx); err != nil {
			return one(failed(err))
		}
	}
	return one(judgeEngine(e.place.info, streams))
}

// judgeEngine holds what docs/reference/platforms.md says of engines, with the reasons.
func judgeEngine(info *engine.Info, streams bool) Result {
	const other = "use a Docker Engine that runs as root on this machine: set DOCKER_HOST"
	switch {
	case info.Product == engine.ProductPodman:
		return seen("Podman works only with less isolation: %s", ofPodman).but(statusWarning, other)
	case info.Product == engine.ProductKubernetes:
		return seen("a cluster does not say whether its network plugin enforces NetworkPolicy, nor how its nodes limit "+
			"processes").but(statusWarning, "look at the cluster's network plugin, and at podPidsLimit of its nodes")
	case info.Product == engine.ProductDesktop:
		return seen("%s is reached by a stream, which was not tried with it", info.Product).but(statusWarning, other)
	case streams:
		return seen("%s is reached by a stream: files are copied, and an idle container is not paused", info.Product)
	}
	return seen("%s as root is what holon is tested with", info.Product)
}

const ofPodman = "it does not show, or does not apply, part of the limits that are asked for (tried with 4.3), and " +
	"runs and agents are refused unless that is accepted"
