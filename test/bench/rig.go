package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"holon/runner"
	"holon/runner/engine"
	"holon/runner/engine/docker"
	"holon/runner/gateway"
)

// label marks every container of a run of this program.
const label = "holon.bench"

// modelName is the model of every measured turn: ten text deltas at once.
const modelName = "openai/fake-10"

// patience bounds every wait for something that should happen at once.
const patience = 30 * time.Second

// rig is what the measurements stand on. It belongs to one goroutine.
type rig struct {
	opts   options
	id     string // of this run, part of every name
	dir    string // everything that is made lies beneath it
	agentd string // the program, absolute
	floor  string // the floors, absolute
	image  string // holds the floor as /floor and nothing else
	daemon *daemon
	engine engine.Engine
	model  string // base URL of the model

	next int            // makes names unique
	undo []func() error // run backwards by close
}

// openRig builds the floors, makes their image and starts the model. All
// building is over when it returns. On error nothing is left behind.
func openRig(ctx context.Context, opts options) (_ *rig, err error) {
	r := &rig{opts: opts, id: strings.ToLower(rand.Text()[:8])}
	if r.daemon, err = newDaemon(opts.docker); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.close())
		}
	}()
	// The user's git settings would change what is measured, ours and floor alike.
	if err := errors.Join(os.Setenv("GIT_CONFIG_GLOBAL", "/dev/null"),
		os.Setenv("GIT_CONFIG_NOSYSTEM", "1")); err != nil {
		return nil, err
	}
	if r.agentd, err = program(opts.agentd); err != nil {
		return nil, err
	}
	// Short, because paths of sockets must be.
	if r.dir, err = os.MkdirTemp(opts.dir, "hb-"); err != nil {
		return nil, fmt.Errorf("make the working directory: %w", err)
	}
	r.later(func() error { return os.RemoveAll(r.dir) })
	if r.floor, err = r.buildFloor(ctx); err != nil {
		return nil, err
	}
	r.image = "holon-bench-" + r.id
	r.later(func() error { return r.daemon.removeImage(cleanupContext(), r.image) })
	if err := r.daemon.importImage(ctx, r.image, r.floor); err != nil {
		return nil, err
	}
	r.later(func() error { return r.daemon.removeLabelled(cleanupContext(), label+"="+r.id) })
	e, err := docker.New(opts.docker, "")
	if err != nil {
		return nil, err
	}
	r.engine = e
	r.later(e.Close)
	r.model, err = r.startModel(ctx)
	return r, err
}

// program returns the absolute path of an existing program.
func program(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err == nil {
		_, err = os.Stat(abs)
	}
	if err != nil {
		return "", fmt.Errorf("-agentd: %w; build it with make build", err)
	}
	return filepath.EvalSymlinks(abs)
}

// buildFloor compiles the floors as agentd is compiled: static and stripped.
func (r *rig) buildFloor(ctx context.Context) (string, error) {
	path := filepath.Join(r.dir, "floor")
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", path, "holon/test/bench/floor")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the floors: %w\n%s", err, text)
	}
	return path, nil
}

// startModel starts the model and returns its base URL.
func (r *rig) startModel(ctx context.Context) (string, error) {
	cmd := exec.CommandContext(ctx, r.floor, "model")
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", err
	}
	stop, err := r.start(cmd)
	if err != nil {
		return "", fmt.Errorf("start the model: %w", err)
	}
	r.later(stop)
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return "", fmt.Errorf("start the model: %w", err)
	}
	return "http://" + strings.TrimSpace(address) + "/v1", nil
}

// start starts a program that dies with this one. stop ends it and waits.
func (r *rig) start(cmd *exec.Cmd) (stop func() error, err error) {
	// its own group: the terminal's Ctrl-C is ours
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = patience
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	done := false
	return func() error {
		if done {
			return nil
		}
		done = true
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		kill := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
		defer kill.Stop()
		_ = cmd.Wait() // its status only says that our signal ended it
		return nil
	}, nil
}

// later has f called by close, last first.
func (r *rig) later(f func() error) { r.undo = append(r.undo, f) }

// scope lets a measurement clean up after itself: the returned function undoes
// what was put off since.
func (r *rig) scope() (end func() error) {
	depth := len(r.undo)
	return func() error { return r.unwind(depth) }
}

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

// close undoes everything.
func (r *rig) close() error { return r.unwind(0) }

// cleanupContext is for calls that must be made although the run was
// interrupted; each has its own time limit.
func cleanupContext() context.Context { return context.Background() }

// newDir makes a directory for one sample.
func (r *rig) newDir() (string, error) {
	r.next++
	dir := filepath.Join(r.dir, fmt.Sprint(r.next))
	return dir, os.Mkdir(dir, 0o700)
}

// samples returns n, or few for a quick run.
func (r *rig) samples(n, few int) int {
	if r.opts.quick {
		return few
	}
	return n
}

// perRound returns how many samples a round needs for n in all.
func (r *rig) perRound(n, few int) int {
	return (r.samples(n, few) + r.opts.rounds - 1) / r.opts.rounds
}

// newGateway is a gateway to the model.
func (r *rig) newGateway() (*gateway.Gateway, error) {
	return gateway.New(gateway.Options{Providers: map[string]gateway.Provider{
		"openai": {BaseURL: r.model, Credential: gateway.NewSecret("sk-bench-0123456789abcdef")},
	}})
}

// session is the configuration of a session as `holon run` would make it, on
// the floor's image.
func (r *rig) session(gw *gateway.Gateway) (runner.Config, error) {
	dir, err := r.newDir()
	if err != nil {
		return runner.Config{}, err
	}
	return runner.Config{
		ID: fmt.Sprintf("bench-%s-%d", r.id, r.next), Engine: r.engine, Agentd: r.agentd, Image: r.image, Dir: dir,
		SocketDir: filepath.Join(dir, "ipc"), Labels: map[string]string{label: r.id},
		Log:    slog.New(slog.DiscardHandler),
		Models: runner.Models{Model: modelName, Gateway: gw},
		Files:  runner.Files{TreeName: "repository"},
	}, nil
}
