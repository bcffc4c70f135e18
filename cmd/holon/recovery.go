package main

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"holon/runner/engine"
	"holon/runner/gateway"
	"holon/runner/oneshot"
	"holon/runner/settings"
	"holon/state/files"
)

// lifecycle is what the commands about runs share: where runs are and how the engines are reached that hold their
// containers.
type lifecycle struct {
	base
	open    map[string]engine.Engine
	attempt int // of the run; 0: the best
}

// lifecycleCommand makes a command about runs. do does the work; engines are closed after it.
func lifecycleCommand(streams Streams, use, short string, do func(context.Context, *lifecycle) error) *cobra.Command {
	l := &lifecycle{base: base{streams: streams}, open: map[string]engine.Engine{}}
	return l.command(use, short, func(ctx context.Context) error { return errors.Join(do(ctx, l), l.close()) })
}

// run finds the run of the argument, by default the last one.
func (l *lifecycle) run(ctx context.Context) (*files.Entry, error) {
	return findRun(ctx, l.home, l.ref(), "")
}

// ref is the argument RUN.
func (l *lifecycle) ref() string {
	if len(l.args) == 0 {
		return files.Last
	}
	return l.args[0]
}

// engine opens an engine once. The local one, whose opening makes its directory,
// is nil where it was never used.
func (l *lifecycle) engine(name string) (engine.Engine, error) {
	if e, ok := l.open[name]; ok {
		return e, nil
	}
	if name == settings.EngineLocal {
		if _, err := os.Stat(localDir(l.home)); errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
	}
	e, err := l.newEngine(name, engine.LinkAuto, l.home)
	if err != nil {
		return nil, err
	}
	l.open[name] = e
	return e, nil
}

func (l *lifecycle) close() error {
	var errs []error
	for _, e := range l.open {
		errs = append(errs, e.Close())
	}
	return errors.Join(errs...)
}

// recovery is what takes up and settles runs here.
func (l *lifecycle) recovery() oneshot.Recovery {
	log := slog.New(slog.NewTextHandler(l.streams.Err, &slog.HandlerOptions{Level: slog.LevelWarn}))
	return oneshot.Recovery{Home: l.home, Borrowing: l.borrowing(l.home), Engines: l.engine, Version: buildVersion(),
		Engine: engineName(l.load(l.home, "").Engine), Secrets: l.streams.Secrets, Log: log,
		Gateway: func(ctx context.Context, refs []string, workspace string) (*gateway.Gateway, error) {
			return l.gateway(ctx, refs, workspace, log)
		}}
}

// gateway makes the gateway that a run's models need, from what is set and stored
// now: no record of a run holds a key.
func (l *lifecycle) gateway(ctx context.Context, refs []string, workspace string, log *slog.Logger) (*gateway.Gateway,
	error) {
	loaded := l.load(l.home, workspace)
	if err := loaded.Err(); err != nil {
		return nil, err
	}
	access, err := modelsOf(l.home, &loaded.Settings, keysOf(l.home, l.streams.Secrets), log).Open(ctx, refs, "--model")
	if err != nil {
		return nil, err
	}
	return access.Gateway, nil
}
