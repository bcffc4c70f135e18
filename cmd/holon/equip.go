package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"holon/runner"
	"holon/runner/agent/childcheck"
	"holon/runner/agent/deliver"
	"holon/runner/agent/prompt"
	"holon/runner/agent/tools"
	"holon/runner/agent/trees"
	"holon/runner/agent/view"
	"holon/runner/control/wire"
	"holon/runner/credentials"
	"holon/runner/hosttools"
	"holon/runner/modelaccess"
	"holon/runner/pool"
	"holon/runner/workspace/git"
	"holon/skills"
	"holon/state"
	"holon/state/ledger"
)

// providers is how models are asked now: providers may have been set and keys stored since the start.
func (h *agentHost) providers() *modelaccess.Host {
	return modelsOf(h.options.home, h.settings.Load(), keysOf(h.options.home, h.options.streams.Secrets), h.log)
}

func (h *agentHost) CheckModel(ref string, keyless bool) error {
	h.takeUp()
	err := checkModel(h.providers(), ref)
	if err == nil || keyless && state.IsCode(err, credentials.CodeMissing) {
		return nil
	}
	f := describe(err)
	if f.Param != "--model" {
		f.Message = f.Param + " " + f.Message // the variable or the setting that the message is about
	}
	if state.IsCode(err, credentials.CodeMissing) {
		f.Hint += "; or set the model all the same with --force"
	}
	return &state.Error{Code: wire.CodeInvalidValue, Param: "model", Message: f.Message, Hint: f.Hint}
}

func (h *agentHost) CheckImage(ctx context.Context, image string) error {
	e, ok := errors.AsType[*state.Error](checkImage(ctx, h.engine, image))
	if !ok {
		return nil
	}
	return &state.Error{Code: wire.CodeInvalidValue, Param: "image", Message: e.Message,
		Hint: strings.TrimSuffix(e.Hint, " with --image"), Err: e.Err}
}

// configure returns what the container of an agent, or of a session, needs for a turn: its models, and
// what was set of its confinement and its limits.
func (h *agentHost) configure(ctx context.Context, t pool.Turn) (cfg runner.Config, access io.Closer, err error) {
	o := h.options
	cfg = runner.Config{
		Log: h.log, Secrets: o.streams.Secrets, Telemetry: h.telemetry,
		Files: runner.Files{Skills: o.Skills},
	}
	role := skills.RoleNamed
	switch {
	case state.IsChild(t.AgentID): // which has those of its home and its workspaces alone
		cfg.Skills, role = nil, skills.RoleChild
	case t.AgentID == o.Agent:
		role = skills.RoleDefault
	}
	if err := confine(&o.Settings, &cfg); err != nil {
		return cfg, nil, err
	}
	refs := o.Refs()
	if t.Model != "" {
		refs = append([]string{t.Model}, t.Fallbacks...)
	}
	opened, err := openModels(ctx, h.providers(), refs, &cfg)
	if err != nil {
		return cfg, nil, err
	}
	cfg.Providers, cfg.AgentEnv = h.providers().Tell(refs)
	cfg.AgentEnv = append(append(cfg.AgentEnv, o.agentLimits(false)...), "HOLON_AGENT_ROLE="+string(role))
	return cfg, opened, nil
}

// poolOptions are those of the pools of agents and of sessions.
func (h *agentHost) poolOptions() (opts pool.Options, err error) {
	o := h.options
	opts = pool.Options{Home: o.home, Engine: h.engine, Image: o.Image, Version: buildVersion(),
		MaxContainers: o.MaxContainers, Secrets: o.streams.Secrets, Log: h.log}
	if opts.Agentd, err = findAgentd(o.Agentd); err != nil {
		return opts, err
	}
	opts.Quota, err = o.quota()
	opts.Claim = h.claim
	return opts, err
}

func (h *agentHost) newPool() (*pool.Pool, error) {
	o := h.options
	opts, err := h.poolOptions()
	if err != nil {
		return nil, err
	}
	if opts.MaxBytes, err = o.MaxTurnFiles.Bytes(); err != nil {
		return nil, err
	}
	opts.IdlePause, opts.IdleStop, opts.Configure, opts.Tools = o.IdlePause, o.IdleStop, h.configure, h.tools
	opts.Outputs, opts.Tasks, opts.Changes, opts.Removed = h.steps, h.steps, h.steps, h.steps.Removed
	if opts.SetAside = h.notify; o.Ledger != "" {
		opts.Leases = h.leases
	}
	if h.stored != nil {
		// One that no process runs now may come back to this one, with its container.
		opts.Elsewhere = func(id string) bool {
			return !h.stored.Leases.Held(id) && time.Since(h.started) > elsewhereAfter
		}
	}
	return pool.New(opts), nil
}

// newTrees are the copies of workspaces in which the agents work.
func (h *agentHost) newTrees() *trees.Trees {
	o := h.options
	return trees.New(trees.Options{Home: o.home, Store: h.ledger, Steps: h.steps, Containers: h.containers,
		Leases:       h.leases,
		Borrowing:    func() git.Borrowing { return git.Borrowing{Allow: o.AllowAlternates, StateHome: o.home.Dir()} },
		IncludeDirty: o.IncludeDirty, Roots: o.WorkspaceRoots, Local: engineName(o.Loaded.Engine) == "local", Log: h.log})
}

// newChecks makes the checks of children, in containers that are confined as those of agents.
func (h *agentHost) newChecks() (*childcheck.Checks, error) {
	o := h.options
	c := &childcheck.Checks{Home: o.home, Engine: h.engine, Trees: h.trees, Claim: h.claim, Session: runner.Config{
		Log: h.log, Secrets: o.streams.Secrets, Version: buildVersion(),
		Labels: map[string]string{runner.LabelHome: o.home.Dir()}}}
	var err error
	if c.Session.Confinement, err = confinementOf(&o.Settings); err != nil {
		return nil, err
	}
	if c.Session.Agentd, err = findAgentd(o.Agentd); err != nil {
		return nil, err
	}
	c.Quota, err = o.quota()
	return c, err
}

// newTransports bring notifications to the operator outside of this host.
func (h *agentHost) newTransports() *deliver.Deliverer {
	o := h.options
	d := deliver.Options{Store: h.ledger, Steps: h.steps, Leases: h.leases,
		Secrets: credentials.StoreIn(o.home), Known: o.streams.Secrets, Command: o.NotifyCommand, Environ: os.Environ(),
		Log: h.log}
	if o.NotifyDesktop {
		d.Bus = cmp.Or(os.Getenv("DBUS_SESSION_BUS_ADDRESS"), fmt.Sprintf("unix:path=/run/user/%d/bus", os.Getuid()))
	}
	return deliver.New(d)
}

func (h *agentHost) notify(agentID, text string) {
	// The notification outlives the turn that it is about.
	if err := h.steps.Notify(context.Background(), agentID, text); err != nil {
		h.log.Error("the operator cannot be notified", "agent", agentID, "err", err)
	}
}

// reminding is when models are reminded of what their agents work on.
func (o *serveOptions) reminding() prompt.Reminding {
	r := o.Reminder
	return prompt.Reminding{Rounds: r.Rounds, CooldownRounds: r.Pause, MaxTokens: r.Tokens}
}

// tools are those that an agent has of the host. They take the steps of their
// agent's lane, as this process. A container that is taken up may call them before the runtime is open.
func (h *agentHost) tools(agentID string) []hosttools.Tool {
	list := tools.New(tools.Options{AgentID: agentID, Scheduler: h.steps, Plans: h.homes,
		Ledger: h.ledger, Facts: h.facts(), Reminder: h.options.reminding().Text,
		Triggers: h, Children: h, Workspaces: h.trees, Memory: h.memory, Secrets: h.options.streams.Secrets,
		Info: h.info})
	for i, tool := range list {
		list[i].Call = func(ctx context.Context, c hosttools.Call) (hosttools.Result, error) {
			select {
			case <-h.opened:
				return tool.Call(ctx, c)
			case <-ctx.Done():
				return hosttools.Result{}, context.Cause(ctx)
			}
		}
	}
	return list
}

// facts are what views show of the agents that is not in the ledger.
func (h *agentHost) facts() view.Facts {
	o, refs := h.options, h.options.Refs()
	return view.Facts{DefaultAgent: o.Agent, Model: refs[0], Fallbacks: refs[1:],
		Engine: engineName(o.Loaded.Engine), Network: o.Network, Weaker: o.AcceptWeaker, Home: h.homeOf,
		AgentsMD: h.homes.Loaded, Plan: h.homes.Plan, Isolation: h.containers.Isolation, TreesDir: h.trees.Dir,
		Guidance: h.trees.Guidance, Worktrees: h.trees.Isolates(), Bounds: h.bounds, HostBudget: h.hostBudget}
}

// bounds are what the settings allow agents for which nothing else was set.
func (h *agentHost) bounds() ledger.TreeBounds {
	b := h.settings.Load().Budgets
	return ledger.TreeBounds{MaxTokens: b.AgentTokens, MaxCost: state.Amount(b.AgentCost)}
}

// hostBudget is what everything of this home has taken, nil where that cannot be read.
func (h *agentHost) hostBudget() *view.HostBudget {
	total := h.providers().Total
	day, all := total.Budgets()
	s, err := total.Read()
	if err != nil {
		h.log.Warn("what was spent cannot be shown", "err", err)
		return nil
	}
	return &view.HostBudget{Day: s.Day, DayTokens: s.DayTokens, DayCost: s.DayCost, Tokens: s.Tokens, Cost: s.Cost,
		MaxDayTokens: day.MaxTokens, MaxDayCost: day.MaxCost, MaxTokens: all.MaxTokens, MaxCost: all.MaxCost}
}
