package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"holon/runner/agent"
	"holon/runner/agent/home"
	"holon/runner/agent/pool"
	"holon/runner/agent/view"
	"holon/runner/control"
	"holon/runner/daemon"
	"holon/runner/engine"
	"holon/state"
	"holon/state/ledger"
	"holon/state/sqlite"
)

// serve keeps the agents of a home alive until ctx ends, or somebody asks it to
// end. What a process left that was killed is settled, or taken up, before anybody
// can ask for anything.
func serve(ctx context.Context, o *serveOptions) (err error) {
	l := &living{options: o, print: o.fingerprint(), owner: rand.Text(), started: time.Now().UTC(),
		log: slog.New(slog.NewTextHandler(o.streams.Err, &slog.HandlerOptions{Level: slog.LevelInfo}))}
	if err := o.makeHome(); err != nil {
		return err
	}
	if err := o.needModel(l.providers()); err != nil {
		return err
	}
	ctx, l.stop = context.WithCancel(ctx)
	defer l.stop()
	l.homes = home.New(home.Options{Home: o.Dir, Templates: filepath.Join(o.UserHome, ".agents", "templates"),
		Log: l.log})
	if err := l.open(ctx); err != nil {
		return errors.Join(err, l.close())
	}
	l.log.Info("agents live", "home", o.Dir.Dir(), "socket", o.Socket, "http", l.listeners.HTTPAddr())
	return errors.Join(l.run(ctx), l.close())
}

// living is a runtime with all that it stands on. It is the control plane's host.
type living struct {
	options *serveOptions
	print   string // fingerprint of the options
	owner   string // of the attempts of this process
	started time.Time
	log     *slog.Logger
	stop    func()
	homes   *home.Homes

	// In the order in which they are opened; those that are not yet are nil.
	store     *sqlite.Store
	engine    engine.Engine
	keeper    *pool.Pool
	runtime   *agent.Runtime
	listeners *control.Listeners
}

var _ control.Host = (*living)(nil)

// open opens the parts. Whoever listens is the last one.
func (l *living) open(ctx context.Context) (err error) {
	o := l.options
	if l.store, err = sqlite.Open(ctx, sqlite.Options{Path: o.Dir.LedgerPath(), Log: l.log}); err != nil {
		return err
	}
	if l.engine, err = o.openEngine(o.Loaded.Engine, o.streams, o.Dir); err != nil {
		return err
	}
	if l.keeper, err = l.newKeeper(); err != nil {
		return err
	}
	refs := o.Refs()
	l.runtime, err = agent.Open(ctx, agent.Config{
		Store: l.store, Turns: l.keeper, Homes: l.homes, Owner: l.owner, Default: o.Agent, Template: home.Default,
		Model: refs[0], Fallbacks: refs[1:], Image: o.Image, MaxRounds: o.MaxRounds, MaxToolCalls: o.MaxToolCalls,
		Budget:      budgetOf(o.Budget),
		TurnTimeout: o.Timeout, Retention: l.retention(), Secrets: o.streams.Secrets, Log: l.log,
	})
	if err != nil {
		return err
	}
	l.listeners, err = o.listen(ctx)
	return err
}

// run serves and drives lanes until ctx ends.
func (l *living) run(ctx context.Context) error {
	server := control.New(control.Options{Store: l.store, Steps: l.runtime.Scheduler(), Host: l, Log: l.log, Home: l.homeOf,
		AgentsMD: l.homes.Loaded})
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return server.Run(ctx, l.listeners) })
	group.Go(func() error { return l.runtime.Run(ctx) })
	group.Go(func() error { l.keeper.Run(ctx); return nil })
	group.Go(func() error {
		if err := daemon.New(daemon.Options{Home: l.options.Dir.Dir(), Socket: l.options.Socket}).KeepLog(ctx,
			os.Stderr); err != nil {
			l.log.Warn("the log is not bounded any more", "err", err) // agents go on
		}
		return nil
	})
	return group.Wait()
}

// closeWithin bounds the end of the containers.
const closeWithin = 30 * time.Second

// close ends the parts, the last one first: turns, then their containers.
func (l *living) close() (err error) {
	// the context of the process is over
	ctx, cancel := context.WithTimeout(context.Background(), agent.DefaultDrain+closeWithin)
	defer cancel()
	if l.listeners != nil {
		err = errors.Join(err, l.listeners.Close())
	}
	if l.runtime != nil {
		err = errors.Join(err, l.runtime.Close(ctx))
	}
	if l.keeper != nil {
		err = errors.Join(err, l.keeper.Close(ctx))
	}
	if l.engine != nil {
		err = errors.Join(err, l.engine.Close())
	}
	if l.store != nil {
		err = errors.Join(err, l.store.Close())
	}
	return err
}

// CreateAgent implements control.Host.
func (l *living) CreateAgent(ctx context.Context, id, template string) (ledger.Agent, error) {
	return l.runtime.CreateAgent(ctx, id, template)
}

// Prompt implements control.Host.
func (l *living) Prompt(ctx context.Context, agentID, text string) (json.RawMessage, error) {
	return l.runtime.Prompt(ctx, agentID, text)
}

// Shutdown implements control.Host.
func (l *living) Shutdown() { l.stop() }

// Info implements control.Host.
func (l *living) Info() view.RuntimeInfo {
	o, refs := l.options, l.options.Refs()
	return view.RuntimeInfo{
		PID: os.Getpid(), Version: buildVersion(), HomeDir: o.Dir.Dir(), SocketPath: l.listeners.SocketPath(),
		HTTPAddr: l.listeners.HTTPAddr(), AdvertiseURL: l.listeners.AdvertiseURL(),
		StartedAt: l.started, ConfigFingerprint: l.print, Engine: engineName(o.Loaded.Engine), DefaultAgent: o.Agent,
		DefaultModel: refs[0], FallbackModels: refs[1:], Ready: true,
	}
}

// Models implements control.Host.
func (l *living) Models(context.Context) (view.Models, error) {
	refs := l.options.Refs()
	out := view.Models{DefaultModel: refs[0], FallbackModels: refs[1:], Available: []view.Model{},
		Availability: []view.ModelAvailability{}}
	for _, m := range l.providers().Models() {
		out.Available = append(out.Available,
			view.Model{Model: m.Ref, Provider: m.Provider, ContextWindow: int64(m.ContextWindow)})
		able := view.ModelAvailability{Model: m.Ref, Available: m.Ready}
		if m.Problem != nil {
			able.Reason = line(*m.Problem)
		}
		out.Availability = append(out.Availability, able)
	}
	return out, nil
}

// homeOf is the directory of an agent.
func (l *living) homeOf(agentID string) string {
	if state.CheckAgentID(agentID) != nil {
		return ""
	}
	return l.options.Dir.AgentDir(agentID)
}

// retention is what the ledger keeps.
func (l *living) retention() ledger.Retention {
	const day = 24 * time.Hour
	return ledger.Retention{Events: time.Duration(l.options.EventsDays) * day, MaxEvents: l.options.MaxEvents,
		Messages: time.Duration(l.options.MessagesDays) * day}
}
