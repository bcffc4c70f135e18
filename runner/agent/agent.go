// Package agent runs long-lived agents: one turn after another for each agent,
// different agents concurrently.
//
//	ledger ─▶ dispatch ─▶ run loop: claim ─▶ prompt ─▶ turn in the container ─▶ settle
//	   ▲                              │ turn watcher: aborts, interjections
//	   └───────── progress ◀──────────┘
//
// Every step is a transaction of package scheduler; this package decides when to
// take it. It keeps no state that a restart would lose: the work to do is read
// from the ledger, and a commit wakes the dispatcher. Open returns after every
// turn that a killed process left behind is settled or taken up again, so a
// listener that starts afterwards sees no half-done step. Agents share only the
// store.
package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"holon/internal/redact"
	"holon/responses/turns"
	"holon/runner"
	"holon/runner/agent/prompt"
	"holon/runner/agent/record"
	"holon/runner/agent/scheduler"
	"holon/runner/agent/view"
	"holon/runner/gateway"
	"holon/runner/pool"
	"holon/state"
	"holon/state/ledger"
)

// turnRunner runs turns of agents in their containers: *pool.Pool.
type turnRunner interface {
	// Turn runs a turn to its end. began is called once, when agentd has accepted
	// it. An error means that no turn was begun.
	Turn(ctx context.Context, t pool.Turn, began func(), watch runner.Observer) (runner.End, error)
	// Recover finds what became of a turn that another process asked for. While
	// it runs on, attached is called and it is watched to its end. An error means
	// that nothing could be found out; then it may be asked again.
	Recover(ctx context.Context, t pool.Turn, attached func(), watch runner.Observer) (runner.End, error)
	// Preview returns what a model would be asked first in a turn, which is not made.
	Preview(ctx context.Context, t pool.Turn) (turns.Preview, error)
	// Stored reports whether this host has a response of an agent.
	Stored(agentID, responseID string) bool
	// Interject hands a message to a running turn, once for its id.
	Interject(ctx context.Context, agentID, turnID, id, text string) error
}

// Homes makes the home directories of agents: *home.Homes.
type Homes interface {
	// Create makes the home of a new agent from a template, or leaves nothing.
	// A home that is there already is ledger.CodeExists.
	Create(ctx context.Context, id, template string) error
	// EnsureDefault makes what is missing of the home of the default agent.
	EnsureDefault(ctx context.Context, id string) error
	// CheckTemplate refuses a template from which no home can be made.
	CheckTemplate(template string) error
	// Digest says whether what the home of an agent holds has changed.
	Digest(ctx context.Context, id string) (string, error)
}

// Config says what a Runtime runs on. Store, Turns, Homes, Owner, Default and Log
// are required.
type Config struct {
	Store ledger.Store
	Turns turnRunner
	Homes Homes
	// Containers are those of tasks; nil: there are no tasks.
	Containers Containers
	// Workspaces are where agents work; nil: in their homes alone.
	Workspaces Workspaces
	Facts      view.Facts // what is shown of where agents work
	// Leases say which agents this process runs; nil: it has its ledger for itself.
	Leases ledger.Leases
	// Files are those of agents where each host has its own; nil: all processes have the same. Leases.Held is true once
	// those of an agent are loaded.
	Files Files
	// Taken is called before anything is done with agents whose leases were taken: it cleans up what another process left
	// of them. It may be nil, and be called again after an error.
	Taken func(ctx context.Context, is func(agentID string) bool) error
	// WithoutContainers calls job while an agent and those below it have no container and can get none, or does nothing.
	// It may be nil.
	WithoutContainers func(root string, job func() error) error
	// Trees are those of children; nil: there are no workspaces.
	Trees  childTrees
	Checks Checks // nil: children are not checked
	// Plan describes the plan of a work item, nil when it has none. It may be nil.
	Plan func(agentID, itemID string) *view.PlanArtifact
	// HomeText returns a text file of an agent's home and when it changed, fs.ErrNotExist for none. Nil: homes have none.
	HomeText func(agentID, name string) (text string, changed time.Time, err error)
	// ChangedFiles are those of some files that are not in the agent's home any more as they were sent: Changed of
	// *home.Homes. It may be nil.
	ChangedFiles func(agentID string, sent []string) []string
	// ExportEpisodes writes the episodes of an agent that an export does not have yet: *home.Homes. It may be nil.
	ExportEpisodes func(agentID string, after func(number int64) ([]ledger.Episode, error)) error
	// ConversationBudget is how many tokens the conversation of an agent may have before it begins anew from memory; 0:
	// any number.
	ConversationBudget int64
	// Isolation is what is in force for the container of an agent, nil when it has none. It may be nil.
	Isolation func(agentID string) *state.Isolation

	Owner         string // boot id, new with every process; names the owner of attempts
	Default       string // id of the default agent, made when it does not exist
	Template      string // of agents for which none is named
	ChildTemplate string // the template of private children for which none is named; "": Template

	Model        string // that agents without one of their own ask first
	Fallbacks    []string
	Image        string
	MaxRounds    int              // of a turn
	MaxToolCalls int              // of a turn; 0: no bound
	Reminding    prompt.Reminding // of the current work item; zero: never
	Budget       gateway.Budget   // of a turn
	TurnTimeout  time.Duration    // 0: agentd's
	Drain        time.Duration    // 0: DefaultDrain
	// ClientCallTimeout is how long an agent waits for outputs of its client's functions; 0: the scheduler's default.
	ClientCallTimeout time.Duration
	Retention         ledger.Retention
	Secrets           *redact.Set // known values that no record may show; nil for none
	TriggerKey        []byte      // what tokens of external triggers are derived from
	Now               func() time.Time
	Log               *slog.Logger
}

// hide takes known secrets out of JSON that is recorded or shown.
func (c *Config) hide(data []byte) []byte { return c.Secrets.JSON(data, turns.Recorded) }

// DefaultDrain is how long a runtime that ends lets turns end by themselves.
const DefaultDrain = 10 * time.Second

// settleGrace is how long one step may take that ends something.
const settleGrace = 15 * time.Second

// Why the context of a turn ended.
var (
	errAborted  = fmt.Errorf("the run was aborted: %w", runner.ErrInterrupted)
	errPaused   = errors.New("the turn is suspended")
	errShutdown = fmt.Errorf("the runtime is shutting down: %w", runner.ErrInterrupted)
)

// Runtime runs all agents. All methods are safe for concurrent use.
type Runtime struct {
	cfg       Config
	scheduler *scheduler.Scheduler
	store     ledger.Store
	log       *slog.Logger
	writings  writings // what models write now

	turns   context.Context // of every turn; ends when the runtime has drained
	halt    context.CancelCauseFunc
	workers sync.WaitGroup // run loops
	idle    chan struct{}  // receives when a run loop has ended

	checkable chan struct{} // receives when a child may have ended that is to be checked

	ending  sync.Mutex // the trees of a removed agent
	mu      sync.Mutex
	loops   map[string]bool            // agents with a run loop
	broken  map[string]bool            // agents that are skipped until the next start
	shared  map[string]*gateway.Shared // accounts of trees, by their public agents
	closing bool

	taken   map[string]bool // agents whose leases were taken and that are not taken up yet; the dispatcher's alone
	loading map[string]bool // agents of taken whose files are being loaded, or were; alike
}

// Open makes the default agent where there is none and settles or takes up what
// the last process left. It starts no turn of its own: Run does.
func Open(ctx context.Context, cfg Config) (*Runtime, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Leases == nil {
		cfg.Leases = ledger.Alone{}
	}
	r := &Runtime{cfg: cfg, store: cfg.Store, log: cfg.Log, loops: make(map[string]bool),
		taken: make(map[string]bool), loading: make(map[string]bool),
		broken: make(map[string]bool), idle: make(chan struct{}, 1), checkable: make(chan struct{}, 1)}
	r.scheduler = scheduler.New(cfg.Store, scheduler.Options{Owner: cfg.Owner, Now: cfg.Now, Damaged: r.damaged,
		TriggerKey: cfg.TriggerKey, Hide: cfg.hide, ClientCallTimeout: cfg.ClientCallTimeout,
		ConversationBudget: cfg.ConversationBudget})
	r.turns, r.halt = context.WithCancelCause(context.WithoutCancel(ctx)) // turns outlive the call; Close ends them
	if err := r.ensureDefault(ctx); err != nil {
		return nil, err
	}
	if err := r.takeFirst(ctx); err != nil {
		return nil, err
	}
	settled, err := r.takeUpAll(ctx, r.cfg.Leases.Held)
	if err == nil {
		err = settled(ctx)
	}
	if err == nil {
		err = r.takeUpChildren(ctx, r.cfg.Leases.Held)
	}
	if err != nil {
		return nil, errors.Join(err, r.Close(context.WithoutCancel(ctx)))
	}
	return r, r.Unblock(ctx)
}

// Unblock lets all agents try again what is blocked: settings may have changed.
func (r *Runtime) Unblock(ctx context.Context) error {
	return r.eachAgent(ctx, r.cfg.Leases.Held, r.scheduler.Unblock)
}

// eachAgent takes a step of the agents for which is reports true. One whose records are damaged is left alone.
func (r *Runtime) eachAgent(ctx context.Context, is func(id string) bool,
	step func(ctx context.Context, id string) error) error {
	agents, err := ledger.Read(ctx, r.store, ledger.View.Agents)
	for _, a := range agents {
		if !is(a.ID) {
			continue
		}
		if failed := step(ctx, a.ID); scheduler.Damaged(failed) {
			r.damaged(a.ID, failed)
		} else if failed != nil {
			return failed
		}
	}
	return err
}

// Scheduler returns the scheduler, for callers that take steps themselves.
func (r *Runtime) Scheduler() *scheduler.Scheduler { return r.scheduler }

// Writing returns the message that the model of an agent writes, and a channel that is closed when that changes.
func (r *Runtime) Writing(agentID string) (record.Writing, <-chan struct{}) {
	return r.writings.look(agentID)
}

// Run dispatches work until ctx ends.
func (r *Runtime) Run(ctx context.Context) error {
	var group sync.WaitGroup
	defer group.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	group.Go(func() { r.retain(ctx) })
	group.Go(func() { r.endTrees(ctx) })
	if r.cfg.Containers != nil {
		group.Go(func() { r.attendTasks(ctx) })
	}
	if r.cfg.Checks != nil {
		group.Go(func() { r.attendChecks(ctx) })
	}
	return r.dispatch(ctx)
}

// Close lets running turns end for Config.Drain, interrupts those that have not,
// and waits until each is settled. Their messages come back when the runtime is
// opened again. Run must have returned.
func (r *Runtime) Close(ctx context.Context) error {
	r.mu.Lock()
	r.closing = true
	r.mu.Unlock()
	done := make(chan struct{})
	go func() { // ends with the run loops, which halt ends
		defer close(done)
		r.workers.Wait()
	}()
	drain, cancel := context.WithTimeout(ctx, cmp.Or(r.cfg.Drain, DefaultDrain))
	defer cancel()
	select {
	case <-done:
	case <-drain.Done():
	}
	r.halt(errShutdown)
	<-done
	return nil
}
