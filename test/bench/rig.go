package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"holon/runner"
	"holon/runner/engine"
	"holon/runner/engine/docker"
	"holon/runner/gateway"
	"holon/test/load"
	"holon/test/programs"
)

// label marks every container of a run of this program.
const label = "holon.bench"

// modelName is the model of every measured turn: ten text deltas at once.
const modelName = "openai/fake-10"

const modelKey = "sk-bench-0123456789abcdef"

// rig is what the measurements stand on. It belongs to one goroutine.
type rig struct {
	opts   options
	id     string // of this run, part of every name
	dir    string // everything that is made lies beneath it
	agentd string // the programs, absolute
	holon  string
	floor  string // the floors, absolute
	image  string // holds the floor as /floor and /bin/sh, and nothing else
	daemon *daemon
	engine engine.Engine
	model  string // base URL of the model

	next int            // makes names unique
	undo []func() error // run backwards by unwind
}

// openRig makes the image of the floors and starts the model. All
// building is over when it returns. On error nothing is left behind.
func openRig(ctx context.Context, opts options) (*rig, error) {
	r := &rig{opts: opts, id: strings.ToLower(rand.Text()[:8])}
	if err := load.Guard(func() { r.open(ctx) }); err != nil {
		return nil, errors.Join(err, r.unwind(0))
	}
	return r, nil
}

func (r *rig) open(ctx context.Context) {
	r.daemon = load.Must(newDaemon(r.opts.docker))
	// The user's git settings would change what is measured, ours and floor alike.
	load.Check(errors.Join(os.Setenv("GIT_CONFIG_GLOBAL", "/dev/null"), os.Setenv("GIT_CONFIG_NOSYSTEM", "1")))
	r.agentd, r.holon = load.Must(programs.Path("agentd")), load.Must(programs.Path("holon"))
	r.floor = load.Must(programs.Path("floor"))
	r.dir = load.Must(os.MkdirTemp(r.opts.dir, "hb-")) // short, because paths of sockets must be
	r.later(func() error { return os.RemoveAll(r.dir) })
	r.image = "holon-bench-" + r.id
	r.later(func() error { return r.daemon.removeImage(r.image) })
	load.Check(r.daemon.importImage(r.image, r.floor, r.newDir()))
	r.later(func() error { return r.daemon.removeLabelled(label + "=" + r.id) })
	e := load.Must(docker.New(r.opts.docker, ""))
	r.engine = e
	r.later(e.Close)
	p, url, err := load.StartModel(ctx, r.dir)
	load.Check(err)
	r.model = url
	r.laterKill(p)
}

// later has f called by unwind, last first.
func (r *rig) later(f func() error) { r.undo = append(r.undo, f) }

func (r *rig) laterKill(p *load.Process) { r.later(func() error { p.Kill(); return nil }) }

// unwind undoes what was put off since there were depth things to undo, as after a measurement.
func (r *rig) unwind(depth int) error {
	var errs []error
	for len(r.undo) > depth {
		last := len(r.undo) - 1
		f := r.undo[last]
		r.undo = r.undo[:last]
		errs = append(errs, f())
	}
	return errors.Join(errs...)
}

func (r *rig) newDir() string {
	r.next++
	dir := filepath.Join(r.dir, fmt.Sprint(r.next))
	load.Check(os.Mkdir(dir, 0o700))
	return dir
}

// samples returns n, or few for a quick run.
func (r *rig) samples(n, few int) int {
	if r.opts.quick {
		return few
	}
	return n
}

// plan is one of n samples in all, or few for a quick run, in blocks; a block of 0 is a whole round.
func (r *rig) plan(n, few, block int) plan {
	p := plan{rounds: r.opts.rounds, samples: (r.samples(n, few) + r.opts.rounds - 1) / r.opts.rounds, block: block}
	if block == 0 {
		p.block = p.samples
	}
	return p
}

func (r *rig) newGateway() *gateway.Gateway {
	gw := load.Must(gateway.New(gateway.Options{Providers: map[string]gateway.Provider{
		"openai": {BaseURL: r.model, Credential: gateway.NewSecret(modelKey)},
	}}))
	r.later(func() error { gw.Close(); return nil })
	return gw
}

// session is the configuration of a session as `holon run` would make it, on
// the floor's image.
func (r *rig) session(gw *gateway.Gateway) runner.Config {
	dir := r.newDir()
	return runner.Config{
		ID: fmt.Sprintf("bench-%s-%d", r.id, r.next), Engine: r.engine, Agentd: r.agentd, Image: r.image, Dir: dir,
		SocketDir: filepath.Join(dir, "ipc"), Labels: map[string]string{label: r.id},
		Log:    slog.New(slog.DiscardHandler),
		Models: runner.Models{Model: modelName, Gateway: gw},
		Files:  runner.Files{TreeName: "repository"},
	}
}

// startSession starts one that is closed with the measurement.
func (r *rig) startSession(ctx context.Context, config runner.Config) *runner.Session {
	session := load.Must(runner.Start(ctx, config))
	r.later(func() error { return session.Close(context.Background()) }) // also when the run was interrupted
	return session
}

// environment is that of a holon of the rig, in front of the model.
func (r *rig) environment() []string {
	return []string{"HOLON_IMAGE=" + r.image, "HOLON_AGENTD=" + r.agentd, "OPENAI_BASE_URL=" + r.model,
		"OPENAI_API_KEY=" + modelKey}
}
