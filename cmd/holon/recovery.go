package main

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net/http"
	"os"

	"github.com/spf13/cobra"

	"holon/runner/credentials"
	"holon/runner/engine"
	"holon/runner/gateway"
	"holon/runner/modelaccess"
	"holon/runner/oneshot"
	"holon/runner/settings"
	"holon/state"
)

// lifecycle is what the commands about runs share: where runs are and how the
// engines are reached that hold their containers.
type lifecycle struct {
	streams Streams
	host
	JSON bool
	home state.Home
	open map[string]engine.Engine
}

// lifecycleCommand makes a command about runs that takes at most max arguments.
// do does the work; engines are closed after it.
func lifecycleCommand(streams Streams, use, short string, max int,
	do func(ctx context.Context, l *lifecycle, args []string) error) *cobra.Command {
	l := &lifecycle{streams: streams, open: map[string]engine.Engine{}}
	cmd := &cobra.Command{Use: use, Short: short, RunE: func(cmd *cobra.Command, args []string) (err error) {
		if err := countArgs(cmd, args, 0, max); err != nil {
			return err
		}
		if err = l.host.fromEnv(); err == nil {
			l.home, err = state.FindHome(l.Home, l.UserHome)
		}
		if err == nil {
			err = errors.Join(do(cmd.Context(), l, args), l.close())
		}
		return err
	}}
	cmd.Flags().SortFlags = false
	cmd.Flags().BoolVar(&l.JSON, "json", false, "print the result as JSON")
	return cmd
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
	e, err := l.newEngine(name, l.home)
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
		Secrets: l.streams.Secrets, Log: log,
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
	keys := &credentials.Keys{Store: credentials.StoreIn(l.home), Environ: os.Environ(), Secrets: l.streams.Secrets}
	host := &modelaccess.Host{Settings: &loaded.Settings, Keys: keys, Proxy: http.ProxyFromEnvironment, Log: log}
	access, err := host.Open(ctx, refs, "--model")
	if err != nil {
		return nil, err
	}
	return access.Gateway, nil
}

// oneRun is the RUN argument.
func oneRun(args []string) (string, error) {
	const hint = `give a run's id, the beginning of it, its name, or "last"`
	switch len(args) {
	case 0:
		return "", usage("RUN", "is missing", hint)
	case 1:
		return args[0], nil
	}
	return "", unexpected(args[1], hint)
}
