package main

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"holon/responses/turns"
	"holon/runner"
	"holon/runner/agent"
	"holon/runner/agent/deliver"
	"holon/runner/agent/home"
	"holon/runner/agent/memorysearch"
	"holon/runner/agent/scheduler"
	"holon/runner/agent/trees"
	"holon/runner/agent/view"
	"holon/runner/console"
	"holon/runner/control"
	"holon/runner/control/client"
	"holon/runner/daemon"
	"holon/runner/engine"
	"holon/runner/openresponses"
	"holon/runner/pool"
	"holon/runner/sessions"
	"holon/runner/settings"
	"holon/runner/telemetry"
	"holon/state"
	"holon/state/files"
	"holon/state/ledger"
)

// agentHost is what `holon serve` runs: the agents of one home, and what their containers and the control plane need to
// know of it. It is the control plane's host.
type agentHost struct {
	*agent.Runtime
	options     *serveOptions
	fingerprint string
	started     time.Time
	log         *slog.Logger
	stop        func()
	settings    atomic.Pointer[settings.Settings] // those of providers and models as they are now

	reading sync.Mutex
	files   settingsFiles // that settings was read from

	homes      *home.Homes
	memory     *memorysearch.Service
	engine     engine.Engine
	containers *pool.Pool
	transports *deliver.Deliverer
	clients    *clients
	// Files of turns, and those that are sent with messages, wherever they are.
	openTurnFile func(agentID, turnID, name string) (*os.File, error)
	keepFile     func(agentID, name string, content []byte, sent func(string) bool) (string, error)
	trees        *trees.Trees
	ledger       ledger.Store
	leases       ledger.Leases
	stored       *agentFiles          // nil: files are in the home alone
	claim        *sessions.Claim      // nil: likewise
	steps        *scheduler.Scheduler // of notices and tools; it owns the same attempts as the Runtime's
	listeners    *control.Listeners
	opened       chan struct{}       // closed when Runtime is set
	listening    chan struct{}       // closed when listeners is set
	telemetry    *telemetry.Exporter // nil for none
	supervisor   daemon.Supervisor
}

var _ control.Host = (*agentHost)(nil)

// closeWithin bounds the end of the runtime, and that of its containers.
const closeWithin = agent.DefaultDrain + 30*time.Second

// serve runs the agents of a home until ctx ends or a client asks for the end. It settles or takes up the leftovers of
// a killed process before it listens. Parts are closed in the reverse of the order in which they were opened: requests
// end before turns, turns before containers, and the ledger is closed last.
func serve(ctx context.Context, o *serveOptions) (err error) {
	h := &agentHost{options: o, fingerprint: o.fingerprint(), started: time.Now().UTC(),
		files: o.files, opened: make(chan struct{}), listening: make(chan struct{}),
		log:        slog.New(slog.NewTextHandler(o.streams.Err, &slog.HandlerOptions{Level: slog.LevelInfo})),
		supervisor: daemon.SupervisorOf(os.Getenv)}
	_ = os.Unsetenv("NOTIFY_SOCKET") // what is started here does not speak for it; it never fails
	h.settings.Store(&o.Settings)
	if err := o.makeHome(); err != nil {
		return err
	}
	if err := o.checkModels(h.providers()); err != nil {
		return err
	}
	h.hideKeys()
	if err := o.checkImage(ctx); err != nil {
		return err
	}
	ctx, h.stop = context.WithCancel(ctx)
	defer h.stop()
	closing := func(end func() error) { err = errors.Join(err, end()) }
	closingWithin := func(end func(context.Context) error) {
		ctx, cancel := context.WithTimeout(context.Background(), closeWithin) // the context of the process is over
		defer cancel()
		err = errors.Join(err, end(ctx))
	}

	if h.ledger, h.leases, err = o.openLedger(ctx, h.log); err != nil {
		return err
	}
	defer closing(h.ledger.Close)
	go h.endWithLease(ctx)
	if o.Store != "" {
		if h.stored, err = o.openFiles(ctx, h.leases, h.ledger.(lockedLedger).ID, h.log); err != nil {
			return err
		}
		h.leases, h.claim = h.stored, h.stored.claim
	}
	key, err := o.home.TriggerKey()
	if err != nil {
		return err
	}
	owner := rand.Text()
	h.steps = scheduler.New(h.ledger, scheduler.Options{Owner: owner, TriggerKey: key, Hide: h.hide, Bounds: h.bounds})
	h.transports = h.newTransports()
	h.homes = home.New(home.Options{Home: o.home, Templates: filepath.Join(o.UserHome, ".agents", "templates"),
		Fetch: fetchDirectory, Secrets: o.streams.Secrets, Log: h.log})
	h.memory = memorysearch.New(memorysearch.Options{Ledger: h.ledger, Files: h.homes, Dir: o.home.AgentPrivateDir,
		Key: key, Secrets: o.streams.Secrets, Log: h.log})
	if h.engine, err = o.openEngine(&o.Loaded.Settings, o.streams, o.home); err != nil {
		return err
	}
	defer closing(h.engine.Close)
	h.telemetry = openTelemetry(ctx, o.streams.Secrets, h.log)
	defer closing(h.telemetry.Close)
	h.telemetry.Gauge("holon.queue.length", "{message}", "Messages that wait for agents.", h.queued)
	if h.containers, err = h.newPool(); err != nil {
		return err
	}
	openTurnFile, keepFile, kept := h.containers.OpenTurnFile, h.homes.Keep, agent.Files(nil)
	if h.stored != nil {
		h.stored.containers, kept = h.containers, h.stored
		openTurnFile, keepFile = h.stored.openTurnFile, h.stored.keeping(h.homes.Keep)
		defer closingWithin(h.saveFiles) // once the containers are closed
	}
	h.openTurnFile, h.keepFile = openTurnFile, keepFile
	defer closingWithin(h.containers.Close)
	if h.clients, err = h.newClients(ctx, key); err != nil {
		return err
	}
	defer closingWithin(h.clients.close)
	h.trees = h.newTrees()
	checks, err := h.newChecks()
	if err != nil {
		return err
	}
	refs := o.Refs()
	h.Runtime, err = agent.Open(ctx, agent.Config{
		Store: h.ledger, Files: kept, Turns: h.containers, Containers: h.containers, Homes: h.homes,
		Plan: h.homes.Plan, Owner: owner, HomeText: h.homes.Text, ChangedFiles: h.homes.Changed,
		ExportEpisodes:     h.homes.ExportEpisodes,
		ConversationBudget: o.ConversationBudget,
		Default:            o.Agent, Template: home.Default, ChildTemplate: home.Child,
		Model: refs[0], Fallbacks: refs[1:], Image: o.Image, MaxRounds: o.MaxRounds, MaxToolCalls: o.MaxToolCalls,
		Reminding: o.reminding(), Budget: budgetOf(o.Budget), TurnTimeout: o.Timeout,
		ClientCallTimeout: o.ClientCallTimeout, Retention: h.retention(),
		Secrets:    o.streams.Secrets,
		Isolation:  h.containers.Isolation,
		Workspaces: h.trees, Trees: h.trees, Facts: h.facts(), Checks: checks,
		TriggerKey: key, Log: h.log,
		Leases: h.leases, Taken: func(ctx context.Context, is func(string) bool) error {
			return errors.Join(h.containers.Inherit(is), h.trees.Recover(ctx, is))
		},
		WithoutContainers: h.containers.WithoutContainers,
	})
	if err != nil {
		return err
	}
	close(h.opened)
	defer closingWithin(h.Runtime.Close)
	if err := h.clients.open(ctx, loadFirst); err != nil {
		return err
	}
	// agents live without it
	if err := errors.Join(h.transports.BindHost(ctx, o.Agent), h.transports.Forget(ctx)); err != nil {
		h.log.Error("the operator is not notified on this host", "err", err)
	}
	if h.listeners, err = o.listen(ctx); err != nil {
		return err
	}
	defer closing(h.listeners.Close)
	close(h.listening)
	h.log.Info("agents live", "home", o.home.Dir(), "socket", o.Socket, "http", h.listeners.HTTPAddr())
	return h.run(ctx)
}

// run serves requests and dispatches work until ctx ends.
func (h *agentHost) run(ctx context.Context) error {
	door := openresponses.New(openresponses.Options{Sessions: sharedSessions{h.clients}, Agents: h.answers(),
		Models: h.clients.models, HoldEnds: h.stored != nil, Log: h.log})
	pages, err := console.New(console.Options{Client: client.Unix(h.listeners.SocketPath()),
		Path: filepath.Join(h.options.home.Dir(), "run", "console.sessions"), URL: h.listeners.AdvertiseURL(), Log: h.log})
	if err != nil {
		return err
	}
	server := control.New(control.Options{Store: h.ledger, Steps: h.Scheduler(), Host: h, Log: h.log,
		Hide: h.hideAnswer, Facts: h.facts(), Workspaces: h.trees, Memory: h.memory, Transports: h.transports,
		OpenTurnFile: h.openTurnFile, OpenRunFile: files.New(h.options.home).OpenResult,
		KeepFile: h.keepFile, Sessions: operatorSessions{h.clients}, Clients: door, Console: pages})
	logs := daemon.New(daemon.Options{Home: h.options.home.Dir(), Socket: h.options.Socket})
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return server.Run(ctx, h.listeners) })
	group.Go(func() error { return h.Run(ctx) })
	group.Go(func() error { h.transports.Run(ctx); return nil })
	group.Go(func() error { h.containers.Run(ctx); return nil })
	group.Go(func() error { return h.clients.run(ctx) })
	if h.stored != nil {
		group.Go(func() error { h.stored.run(ctx, h.log); return nil })
	}
	group.Go(func() error { h.followSettings(ctx); return nil })
	group.Go(func() error {
		return h.supervisor.Watch(ctx, func(ctx context.Context) error {
			err := h.ledger.View(ctx, func(ledger.View) error { return nil })
			if state.IsCode(err, ledger.CodeLedgerAway) { // which another start would not mend
				return nil
			}
			return err
		})
	})
	group.Go(func() error {
		if err := logs.KeepLog(ctx, os.Stderr); err != nil {
			h.log.Warn("the log is not bounded any more", "err", err) // agents go on
		}
		return nil
	})
	return group.Wait()
}

// saveFiles saves the files of all agents of this process, before others take them.
func (h *agentHost) saveFiles(ctx context.Context) error {
	agents, err := ledger.Read(ctx, h.ledger, ledger.View.Agents)
	if err = errors.Join(err, h.stored.saveAll(ctx, agents)); err != nil { // what is settled is saved
		h.log.Error("files of agents that changed since their last turns are not saved", "err", err)
	}
	return nil
}

// endWithLease ends this process once others have taken its agents, at once, and as if it was killed: what it has begun
// is theirs.
func (h *agentHost) endWithLease(ctx context.Context) {
	select {
	case <-h.leases.Lost():
		h.log.Error("this holon serve ends: others run its agents, for it was silent for too long, or the database of its " +
			"ledger was restored or failed over")
		os.Exit(exitFailure)
	case <-ctx.Done():
	}
}

func (h *agentHost) Shutdown() { h.stop() }

func (h *agentHost) Info() view.RuntimeInfo {
	o, refs := h.options, h.options.Refs()
	info := view.RuntimeInfo{
		PID: os.Getpid(), Version: buildVersion(), HomeDir: o.home.Dir(), SocketPath: h.listeners.SocketPath(),
		HTTPAddr: h.listeners.HTTPAddr(), AdvertiseURL: h.listeners.AdvertiseURL(),
		StartedAt: turns.At(h.started), ConfigFingerprint: h.fingerprint, Engine: engineName(o.Loaded.Engine),
		DefaultAgent: o.Agent,
		DefaultModel: refs[0], FallbackModels: refs[1:], Ready: true,
	}
	if err := h.leases.Problem(); err != nil {
		e, phase := runner.Describe(err), "store" // turns go on without the bucket, if not for long
		if h.stored == nil || h.stored.Leases.Problem() != nil {
			info.Ready, phase = false, "ledger" // nothing can be written
		}
		info.LastFailure = &ledger.Failure{OccurredAt: time.Now().UTC(), Phase: phase, Code: e.Code, Param: e.Param,
			Summary: e.Message, Hint: e.Hint}
	}
	return info
}

// info is Info for tools of agents, whose turns may go on before anything listens.
func (h *agentHost) info(ctx context.Context) (view.RuntimeInfo, error) {
	select {
	case <-h.listening:
		return h.Info(), nil
	case <-ctx.Done():
		return view.RuntimeInfo{}, context.Cause(ctx)
	}
}

func (h *agentHost) Models(context.Context) (view.Models, error) {
	refs := h.options.Refs()
	out := view.Models{DefaultModel: refs[0], FallbackModels: refs[1:], Available: []view.Model{},
		Availability: []view.ModelAvailability{}}
	for _, m := range h.providers().Models() {
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

func (h *agentHost) homeOf(agentID string) string {
	if state.CheckAgentID(agentID) != nil {
		return ""
	}
	return h.options.home.AgentDir(agentID)
}

func (h *agentHost) retention() ledger.Retention {
	const day = 24 * time.Hour
	return ledger.Retention{Events: time.Duration(h.options.EventsDays) * day, MaxEvents: h.options.MaxEvents,
		Messages: time.Duration(h.options.MessagesDays) * day}
}
