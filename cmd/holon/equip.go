package main

import (
	"context"
	"io"
	"net/http"
	"os"

	"holon/runner"
	"holon/runner/agent/pool"
	"holon/runner/agent/scheduler"
	"holon/runner/agent/tools"
	"holon/runner/agent/view"
	"holon/runner/credentials"
	"holon/runner/hosttools"
	"holon/runner/modelaccess"
)

// providers is what is known of models now: keys may have been stored since the
// start.
func (l *living) providers() *modelaccess.Host {
	o := l.options
	keys := &credentials.Keys{Store: credentials.StoreIn(o.Dir), Environ: os.Environ(), Secrets: o.streams.Secrets}
	return &modelaccess.Host{Settings: &o.Settings, Keys: keys, Proxy: http.ProxyFromEnvironment, Log: l.log}
}

// configure says what the container of an agent needs for a turn: its models, and
// what was set of its confinement and its limits.
func (l *living) configure(ctx context.Context, t pool.Turn) (cfg runner.Config, access io.Closer, err error) {
	o := l.options
	cfg = runner.Config{
		Log: l.log, Secrets: o.streams.Secrets,
		Files:       runner.Files{Skills: o.Skills},
		Confinement: runner.Confinement{Network: o.Network, NanoCPUs: int64(o.CPUs * 1e9)},
	}
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

// newKeeper makes what keeps the containers.
func (l *living) newKeeper() (*pool.Pool, error) {
	o := l.options
	agentd, err := findAgentd(o.Agentd)
	if err != nil {
		return nil, err
	}
	quota, err := o.quota()
	if err != nil {
		return nil, err
	}
	return pool.New(pool.Options{Home: o.Dir, Engine: l.engine, Agentd: agentd, Image: o.Image, Version: buildVersion(),
		IdlePause: o.IdlePause, IdleStop: o.IdleStop,
		MaxContainers: o.MaxContainers, Quota: quota, Configure: l.configure, Tools: l.tools,
		Secrets: o.streams.Secrets,
		Log:     l.log, SetAside: l.tell}), nil
}

// tell notifies the operator about an agent.
func (l *living) tell(agentID, text string) {
	// The turn about which it is may be over, and the operator is told all the same.
	if _, err := scheduler.New(l.store, scheduler.Options{Owner: l.owner}).Notify(context.Background(), agentID, text,
		"", ""); err != nil {
		l.log.Error("the operator cannot be told", "agent", agentID, "err", err)
	}
}

// tools are those that an agent has of the host. They take the steps of their
// agent's lane, as this process.
func (l *living) tools(agentID string) []hosttools.Tool {
	refs := l.options.Refs()
	facts := view.Facts{DefaultAgent: l.options.Agent, Model: refs[0], Fallbacks: refs[1:],
		Engine: l.engine.Name(), Home: l.homeOf, AgentsMD: l.homes.Loaded}
	return tools.New(tools.Options{AgentID: agentID, Scheduler: scheduler.New(l.store, scheduler.Options{Owner: l.owner}),
		Ledger: l.store, Facts: facts})
}
