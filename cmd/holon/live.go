package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"time"

	"golang.org/x/sync/errgroup"

	"holon/runner"
	"holon/runner/agent/lane"
	"holon/runner/agent/view"
	"holon/runner/agent/warm"
	"holon/runner/control"
	"holon/runner/credentials"
	"holon/runner/providers"
	"holon/state"
	"holon/state/ledger"
	"holon/state/sqlite"
)

// serve keeps the agents of a home alive until ctx ends, or somebody asks it to
// end. What a process left that was killed is settled before anybody can ask for
// anything.
func serve(ctx context.Context, o *serveOptions) (err error) {
	l := &living{options: o, print: o.fingerprint(), started: time.Now().UTC(),
		log: slog.New(slog.NewTextHandler(o.streams.Err, &slog.HandlerOptions{Level: slog.LevelInfo}))}
	if err := o.makeHome(); err != nil {
		return err
	}
	if err := o.needModel(l.providers()); err != nil {
		return err
	}
	if l.store, err = sqlite.Open(ctx, sqlite.Options{Path: o.Dir.LedgerPath(), Log: l.log}); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.store.Close()) }()
	l.lane = lane.New(l.store, lane.Options{Owner: rand.Text()})
	if err := l.ensureDefault(ctx); err != nil {
		return err
	}
	if l.listeners, err = o.listen(ctx); err != nil {
		return err
	}
	serving, stop := context.WithCancel(ctx)
	defer stop()
	l.stop = stop
	server := control.New(control.Options{Store: l.store, Steps: l.lane, Host: l, Log: l.log, Home: l.homeOf})
	group, serving := errgroup.WithContext(serving)
	group.Go(func() error { return server.Run(serving, l.listeners) })
	l.log.Info("agents live", "home", o.Dir.Dir(), "socket", o.Socket, "http", l.listeners.HTTPAddr())
	return group.Wait()
}

// living is a runtime as its control plane sees it.
type living struct {
	options   *serveOptions
	print     string // fingerprint of the options
	started   time.Time
	log       *slog.Logger
	store     *sqlite.Store
	lane      *lane.Machine
	listeners *control.Listeners
	stop      func()
}

var _ control.Host = (*living)(nil)

// ensureDefault makes the default agent where there is none.
func (l *living) ensureDefault(ctx context.Context) error {
	_, err := l.lane.Create(ctx, lane.NewAgent{ID: l.options.Agent, Default: true})
	if state.IsCode(err, ledger.CodeExists) {
		return nil
	}
	return err
}

// CreateAgent implements control.Host.
func (l *living) CreateAgent(ctx context.Context, id, template string) (ledger.Agent, error) {
	return l.lane.Create(ctx, lane.NewAgent{ID: id, Template: template})
}

// Prompt implements control.Host.
func (l *living) Prompt(context.Context, string, string) (json.RawMessage, error) {
	return nil, errors.New("no frames yet")
}

// Info implements control.Host.
func (l *living) Info() view.RuntimeInfo {
	refs := l.options.Refs()
	return view.RuntimeInfo{
		PID: os.Getpid(), Version: buildVersion(), HomeDir: l.options.Dir.Dir(), SocketPath: l.listeners.SocketPath(), HTTPAddr: l.listeners.HTTPAddr(), AdvertiseURL: l.listeners.AdvertiseURL(),
		StartedAt: l.started, ConfigFingerprint: l.print, Engine: engineName(l.options.Loaded.Engine), DefaultAgent: l.options.Agent, DefaultModel: refs[0], FallbackModels: refs[1:], Ready: true,
	}
}

// Models implements control.Host.
func (l *living) Models(context.Context) (view.Models, error) {
	refs := l.options.Refs()
	out := view.Models{DefaultModel: refs[0], FallbackModels: refs[1:], Available: []view.Model{}, Availability: []view.ModelAvailability{}}
	for _, m := range l.providers().Models() {
		out.Available = append(out.Available, view.Model{Model: m.Ref, Provider: m.Provider, ContextWindow: int64(m.ContextWindow)})
		able := view.ModelAvailability{Model: m.Ref, Available: m.Ready}
		if m.Problem != nil {
			able.Reason = line(*m.Problem)
		}
		out.Availability = append(out.Availability, able)
	}
	return out, nil
}

// Shutdown implements control.Host.
func (l *living) Shutdown() { l.stop() }

func (l *living) homeOf(agentID string) string {
	if state.CheckAgentID(agentID) != nil {
		return ""
	}
	return l.options.Dir.AgentDir(agentID)
}

// providers is what is known of models now: keys may have been stored since the
// start.
func (l *living) providers() *providers.Host {
	o := l.options
	keys := &credentials.Keys{Store: credentials.StoreIn(o.Dir), Environ: os.Environ(), Secrets: o.streams.Secrets}
	return &providers.Host{Settings: &o.Settings, Keys: keys, Proxy: http.ProxyFromEnvironment, Log: l.log}
}

// configure says what the container of an agent needs for a turn: its models, and
// what was set of its confinement and its limits.
func (l *living) configure(ctx context.Context, t warm.Turn) (cfg runner.Config, access io.Closer, err error) {
	o := l.options
	cfg = runner.Config{Skills: o.Skills, Network: o.Network, NanoCPUs: int64(o.CPUs * 1e9), Log: l.log, Secrets: o.streams.Secrets}
	if cfg.Memory, err = o.Memory.Bytes(); err != nil {
		return cfg, nil, err
	}
	if err := o.Confinement.confine(&cfg); err != nil {
		return cfg, nil, err
	}
	refs := o.Refs()
	if t.Model != "" {
		refs = append([]string{t.Model}, t.Fallbacks...)
	}
	opened, err := openModels(ctx, l.providers(), refs, &cfg)
	if err != nil {
		return cfg, nil, err
	}
	cfg.AgentEnv = append(cfg.AgentEnv, o.agentLimits()...)
	return cfg, closer(opened.Close), nil
}

// closer makes an io.Closer of what closes without an error.
type closer func()

func (c closer) Close() error {
	c()
	return nil
}

// keeper makes what keeps the containers.
func (l *living) keeper() (*warm.Keeper, error) {
	o := l.options
	eng, err := o.openEngine(o.Loaded.Engine, o.streams, o.Dir)
	if err != nil {
		return nil, err
	}
	agentd, err := findAgentd(o.Agentd)
	if err != nil {
		return nil, errors.Join(err, eng.Close())
	}
	room, err := o.room()
	if err != nil {
		return nil, errors.Join(err, eng.Close())
	}
	return warm.New(warm.Options{Home: o.Dir, Engine: eng, Agentd: agentd, Image: o.Image, Version: buildVersion(), IdlePause: o.IdlePause, IdleStop: o.IdleStop,
		MaxContainers: o.MaxContainers, Room: room, Configure: l.configure, Secrets: o.streams.Secrets, Log: l.log}), nil
}

// retention is what the ledger keeps.
func (l *living) retention() ledger.Retention {
	o, day := l.options, 24*time.Hour
	return ledger.Retention{Events: time.Duration(o.EventsDays) * day, MaxEvents: o.MaxEvents, Messages: time.Duration(o.MessagesDays) * day}
}
