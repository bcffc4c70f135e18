package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"holon/internal/providers"
	"holon/responses"
	"holon/runner"
	agentanswers "holon/runner/agent/answers"
	"holon/runner/control"
	"holon/runner/control/wire"
	"holon/runner/conversation"
	"holon/runner/openresponses"
	"holon/runner/pool"
	"holon/runner/sessions"
	"holon/runner/settings"
	"holon/runner/workspace/git"
	"holon/state"
	"holon/state/ledger"
)

// clients are the sessions of other programs, with their containers.
type clients struct {
	host       *agentHost
	containers *pool.Pool
	options    conversation.Options
	files      *sessionFiles                         // nil: they are in the home alone
	sessions   atomic.Pointer[conversation.Sessions] // nil while another process has them
}

// newClients reads the sessions of the home, unless another process may have them. Their containers are made when they
// are asked for something.
func (h *agentHost) newClients(ctx context.Context, key []byte) (*clients, error) {
	o, c := h.options, &clients{host: h}
	opts, err := h.poolOptions()
	if err != nil {
		return nil, err
	}
	opts.Key, opts.AtOnce, opts.KeepTurns, opts.KeepBytes = sessions.OfConversation, true, -1, -1
	opts.IdlePause, opts.IdleStop, opts.Configure = o.SessionPause, o.SessionStop, c.configure
	limits, err := tokenLimits(&o.Settings)
	if err != nil {
		return nil, err
	}
	if h.stored != nil { // other hosts see none of the containers
		opts.Elsewhere = func(string) bool { return !h.leases.Held(ledger.SessionsLease) }
	}
	c.containers = pool.New(opts)
	c.options = conversation.Options{Home: o.home, Pool: c.containers,
		Roots: o.WorkspaceRoots, Image: o.Image, Engine: engineName(o.Loaded.Engine), Version: buildVersion(),
		Local: engineName(o.Loaded.Engine) == "local", IncludeDirty: o.IncludeDirty,
		Borrowing: func() git.Borrowing { return git.Borrowing{Allow: o.AllowAlternates, StateHome: o.home.Dir()} },
		Key:       key, Max: o.MaxSessions, Limits: limits, Pause: o.SessionPause, TTL: o.SessionTTL, Log: h.log}
	if h.stored != nil {
		c.files = &sessionFiles{h.stored, c.containers, h.log}
		c.options.Files = c.files
	}
	return c, c.open(ctx, loadFirst)
}

// open reads the sessions of the home if this process has their lease, and has loaded what other hosts saved of them:
// while that fails it is success, for run tries again.
func (c *clients) open(ctx context.Context, within time.Duration) error {
	if !c.host.leases.Held(ledger.SessionsLease) || c.sessions.Load() != nil {
		return nil
	}
	if c.files != nil {
		within, cancel := context.WithTimeout(ctx, within)
		defer cancel()
		var err error
		if c.options.Left, err = c.files.load(within); err != nil {
			c.host.log.Error("the sessions of clients cannot be loaded; trying again", "err", err)
			return nil
		}
	}
	opened, err := conversation.Open(ctx, c.options)
	if err == nil {
		c.sessions.Store(opened)
	}
	return err
}

// close ends the containers of the sessions, unless they are another process's, and saves what they left.
func (c *clients) close(ctx context.Context) error {
	opened := c.sessions.Load()
	if opened == nil {
		return nil
	}
	err := c.containers.Close(ctx)
	if unsaved := opened.Save(ctx); unsaved != nil {
		c.host.log.Error("sessions that changed are not saved for other hosts", "err", unsaved)
	}
	return err
}

// opened are the sessions; an error names the process that has them.
func (c *clients) opened(ctx context.Context) (*conversation.Sessions, error) {
	if s := c.sessions.Load(); s != nil {
		return s, nil
	}
	if err := c.host.leases.Check(ctx, ledger.SessionsLease); err != nil {
		if e, ok := errors.AsType[*state.Error](err); ok && e.Code == ledger.CodeElsewhere {
			e.Param, e.Message = "", "another holon serve has the sessions of clients, or is about to have them"
		}
		return nil, err
	}
	return nil, &state.Error{Code: wire.CodeNotReady, Message: "the sessions of clients are being loaded",
		Hint: "try again in a moment"}
}

// find finds a session in one of the ways of conversation.Sessions.
func (c *clients) find(by func(s *conversation.Sessions, owner, id string) (*conversation.Session, error), owner,
	id string) (*conversation.Session, error) {
	opened, err := c.opened(context.Background()) // a local look unless another process has them
	if err != nil {
		return nil, err
	}
	return by(opened, owner, id)
}

// run looks after the sessions, once this process has them.
func (c *clients) run(ctx context.Context) error {
	var elsewhere <-chan time.Time
	if c.files != nil {
		elsewhere = time.After(elsewhereAfter)
	}
	look := time.NewTicker(time.Second) // for the lease, which changes nothing in the ledger, and at the bucket
	defer look.Stop()
	for {
		if err := c.open(ctx, loadWithin); err != nil {
			return err
		}
		if c.sessions.Load() != nil {
			break
		}
		select {
		case <-ctx.Done():
			return nil
		case <-look.C:
		case <-elsewhere:
			if err := c.files.discard(ctx); err != nil && ctx.Err() == nil {
				c.host.log.Warn("containers of sessions that another host has are not all removed", "err", err)
			}
		}
	}
	var both sync.WaitGroup
	both.Go(func() { c.containers.Run(ctx) })
	both.Go(func() { c.sessions.Load().Run(ctx) })
	both.Wait()
	return nil
}

// tokenLimits are what the sessions of one token may take. One token never has all places, unless there is one alone.
func tokenLimits(s *settings.Settings) (l conversation.Limits, err error) {
	l.Sessions = cmp.Or(s.TokenSessions, max(1, s.MaxSessions/2))
	l.Owner = conversation.Usage{Turns: s.TokenTurns, Tokens: s.TokenTokens, Cost: state.Amount(s.TokenCost)}
	l.Disk, err = s.TokenDisk.Bytes()
	return l, err
}

// configure is agentHost.configure with the tree of a session. The model may be the client's choice in each turn.
func (c *clients) configure(ctx context.Context, t pool.Turn) (cfg runner.Config, access io.Closer, err error) {
	if t.Model != "" {
		if err := c.checkScript(t.Model); err != nil {
			return cfg, nil, err
		}
	}
	if cfg, access, err = c.host.configure(ctx, t); err != nil {
		return cfg, nil, err
	}
	cfg.TreeCache = c.host.options.home.CacheDir()
	opened, err := c.opened(ctx)
	if err == nil {
		err = opened.Configure(ctx, t.AgentID, &cfg)
	}
	if err != nil {
		return cfg, nil, errors.Join(err, access.Close())
	}
	return cfg, access, nil
}

// checkScript refuses a scripted model that the operator did not choose: it names a file of the host.
func (c *clients) checkScript(ref string) error {
	provider, _, _ := providers.SplitRef(ref)
	if provider != providers.Scripted || slices.Contains(c.host.options.Refs(), ref) {
		return nil
	}
	return &state.Error{Code: responses.CodeModelNotFound, Param: "model", Message: "the model is not known",
		Hint: "choose one that GET /v1/models lists"}
}

// model checks the model of a session, "" for that of the runtime.
func (c *clients) model(ref string) (string, error) {
	ref = cmp.Or(ref, c.host.options.Refs()[0])
	if err := c.checkScript(ref); err != nil {
		return "", err
	}
	return ref, c.host.CheckModel(ref, false)
}

// start opens a session.
func (c *clients) start(ctx context.Context, a conversation.Ask) (*conversation.Session, error) {
	var err error
	if a.Model, err = c.model(a.Model); err != nil {
		return nil, err
	}
	if home := c.host.options.UserHome; a.Workspace == "~" || strings.HasPrefix(a.Workspace, "~/") {
		a.Workspace = filepath.Join(home, a.Workspace[1:])
	}
	if a.Image != "" {
		if err := c.host.CheckImage(ctx, a.Image); err != nil {
			return nil, err
		}
	}
	opened, err := c.opened(ctx)
	if err != nil {
		return nil, err
	}
	return opened.Start(ctx, a)
}

// models are the models of providers, the default first.
func (c *clients) models(ctx context.Context) ([]responses.Model, error) {
	all, err := c.host.Models(ctx)
	if err != nil {
		return nil, err
	}
	names := append([]string{all.DefaultModel}, all.FallbackModels...)
	for _, m := range all.Available {
		names = append(names, m.Model)
	}
	var list []responses.Model
	for _, name := range names {
		if !slices.ContainsFunc(list, func(m responses.Model) bool { return m.ID == name }) {
			provider, _, _ := providers.SplitRef(name)
			list = append(list, responses.Model{ID: name, Object: "model", OwnedBy: provider})
		}
	}
	return list, nil
}

// sharedSessions are the sessions as clients of the Open Responses API use them.
type sharedSessions struct{ *clients }

func sharedSession(x *conversation.Session, err error) (openresponses.Session, error) {
	if err != nil {
		return nil, err
	}
	return clientSession{x}, nil
}

func (d sharedSessions) Start(ctx context.Context, a openresponses.Ask) (openresponses.Session, error) {
	x, err := d.start(ctx, conversation.Ask(a))
	if e, ok := errors.AsType[*state.Error](err); ok && e.Param == "image" {
		e.Param = "holon.image" // as a request has it
	}
	return sharedSession(x, err)
}

func (d sharedSessions) Find(owner, name string) (openresponses.Session, error) {
	return sharedSession(d.find((*conversation.Sessions).Find, owner, name))
}

func (d sharedSessions) OfResponse(owner, id string) (openresponses.Session, error) {
	return sharedSession(d.find((*conversation.Sessions).OfResponse, owner, id))
}

func (d sharedSessions) OfTurn(owner, id string) (openresponses.Session, error) {
	return sharedSession(d.find((*conversation.Sessions).OfTurn, owner, id))
}

func (d sharedSessions) OfItem(owner, id string) (openresponses.Session, error) {
	return sharedSession(d.find((*conversation.Sessions).OfItem, owner, id))
}

// clientSession is a session of sharedSessions.
type clientSession struct{ *conversation.Session }

func (x clientSession) Info() openresponses.Info {
	i := x.Session.Info()
	return openresponses.Info{ID: i.ID, Name: i.Name, Model: i.Model, Closed: i.Status == conversation.StatusClosed}
}

// operatorSessions are the sessions for the control plane.
type operatorSessions struct{ *clients }

func (s operatorSessions) Start(ctx context.Context, owner string, a wire.StartSession) (wire.Session, error) {
	x, err := s.start(ctx, conversation.Ask{Owner: owner, Name: a.Name, Model: a.Model, Workspace: a.Workspace,
		Image: a.Image})
	if err != nil {
		return wire.Session{}, err
	}
	return wireSession(x.Info()), nil
}

func (s operatorSessions) List(owner string) (list []wire.Session, err error) {
	opened, err := s.opened(context.Background()) // a local look unless another process has them
	if err != nil {
		return nil, err
	}
	for _, info := range opened.List(owner) {
		list = append(list, wireSession(info))
	}
	return list, nil
}

func (s operatorSessions) Find(owner, name string) (control.Session, error) {
	x, err := s.find((*conversation.Sessions).Find, owner, name)
	if err != nil {
		return nil, err
	}
	return operatorSession{x}, nil
}

func wireSession(i conversation.Info) wire.Session {
	return wire.Session{ID: i.ID, Name: i.Name, Owner: i.Owner, Status: i.Status, Activity: i.Activity, Model: i.Model,
		Workspace: i.Workspace, CreatedAt: i.CreatedAt, LastUsedAt: i.LastUsedAt, ClosedAt: i.ClosedAt,
		ResponseIDs: i.ResponseIDs, Current: i.Current, Rewound: i.Rewound, TreeLostAt: i.TreeLostAt,
		Usage: wire.SessionUsage(i.Usage)}
}

// operatorSession is a session for the control plane.
type operatorSession struct{ *conversation.Session }

func (x operatorSession) Info() wire.Session { return wireSession(x.Session.Info()) }

func (x operatorSession) Apply(ctx context.Context, a wire.ApplySession, by string) (wire.SessionApplied, error) {
	done, err := x.Session.Apply(ctx, a.AllowExecuted, a.ResultTrees, by)
	if err != nil {
		return wire.SessionApplied{}, err
	}
	return wire.SessionApplied{SessionID: x.Session.Info().ID, Path: done.Path, Written: done.Written,
		Deleted: done.Deleted, Warnings: done.Warnings}, nil
}

func (x operatorSession) Checkout(ctx context.Context, c wire.CheckoutSession, by string) (wire.SessionCheckout,
	error) {
	made, err := x.Session.Checkout(ctx, conversation.Checkout{Branch: c.Branch, Path: c.Path,
		AllowExecuted: c.AllowExecuted}, by)
	if err != nil {
		return wire.SessionCheckout{}, err
	}
	return wire.SessionCheckout{SessionID: x.Session.Info().ID, Branch: made.Branch, Base: made.Base,
		Commit: made.Commit, Commits: made.Commits, Worktree: made.Path, Warnings: made.Warnings}, nil
}

func (x operatorSession) Turns() ([]wire.SessionTurn, error) {
	made, err := x.Session.Turns()
	list := make([]wire.SessionTurn, len(made))
	for i, t := range made {
		list[i] = wire.SessionTurn{TurnID: t.TurnID, ResponseID: t.ResponseID, PreviousResponseID: t.PreviousResponseID,
			CreatedAt: t.CreatedAt, Status: string(t.Status), InputPreview: t.Input, TextPreview: t.Text, TreeKept: t.Kept,
			Current: t.Current}
	}
	return list, err
}

func (x operatorSession) Rewind(ctx context.Context, w wire.RewindSession, by string) (wire.SessionRewound, error) {
	done, err := x.Session.Rewind(ctx, w.ResponseID, w.ConversationOnly, by)
	if err != nil {
		return wire.SessionRewound{}, err
	}
	return wire.SessionRewound{SessionID: x.Session.Info().ID, ResponseID: done.ResponseID,
		TreeRestored: done.TreeRestored, Warnings: done.Warnings}, nil
}

func (x operatorSession) Close(ctx context.Context, by string) error {
	_, err := x.Session.Close(ctx, by)
	return err
}

// answers are the turns of agents, as responses.
func (h *agentHost) answers() *agentanswers.Answers {
	return agentanswers.New(agentanswers.Options{Store: h.ledger, Steps: h.Scheduler(), Log: h.log,
		OpenTurnFile: h.openTurnFile})
}
