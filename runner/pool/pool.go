// Package pool keeps the containers of agents: one for each agent that has work. A container is made when a turn needs
// it, paused while its agent is idle, and stopped when the agent stays idle. With another Options.Key it keeps those of
// the conversations of clients in the same way; what is said of agents holds for them too.
//
//	Turn ─▶ ready ─▶ ask ─▶ ended        Recover ─▶ adopt ─▶ rejoin ─▶ ended
//	          │       │       │             Sweep ─▶ pause, stop, remove orphans
//	     container  POST    Result
//
// A turn has its agent locked from its begin to its end. With Options.AtOnce it has it locked only until its gateway
// and tools know it, and counts as a user of the container from then on:
//
//	lock ─▶ ready ─▶ admitted ─▶ unlock, users+1 ─▶ POST ─▶ ended ─▶ users-1
//	                                                        └▶ its end was not seen: users-1, lock, close, read its files
//
// agentd queues the turns. A container that has users is neither paused, stopped, given away nor made anew, unless it
// has ended or does not answer: closing waits, with the lock, until its users are gone, whose connections broke.
//
// The state of an agent is in its directory on the host's disk: its conversation, which agentd keeps, and its home. A
// container is made from it and may be killed at any moment; the next turn gets another. The invariants: an
// agent has at most one container that can write its state; a turn whose begin was reported has a Result,
// even when its end is not known; and no turn is posted again to an agentd that may have begun it. Files that
// a container left are read with bounds, and trusted only for what they say about that container.
//
// Turns of one agent run one after another, unless AtOnce, turns of several agents concurrently. When there are too
// many, waiting agents get a container in the order in which they came. The package does not decide what an agent
// should do.
package pool

import (
	"cmp"
	"context"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"

	"holon/internal/redact"
	"holon/responses"
	"holon/runner"
	"holon/runner/engine"
	"holon/runner/hosttools"
	"holon/runner/sessions"
	"holon/state"
)

// Defaults of Options.
const (
	defaultIdlePause     = time.Minute
	defaultIdleStop      = 15 * time.Minute
	defaultMaxContainers = 16
	defaultKeepTurns     = 200
	defaultKeepBytes     = 1 << 30
)

// Options say what a Pool works with. Home, Engine, Agentd, Configure and Log
// are needed.
type Options struct {
	// Key is whose containers these are, by id; nil: sessions.OfAgent. What an agent has in addition, a home with
	// directories of workspaces and a conversation that is set aside when agentd cannot use it, others have not.
	Key    func(id string) sessions.Key
	AtOnce bool // an owner makes several turns at a time

	Home    state.Home
	Engine  engine.Engine
	Agentd  string // absolute path of the static agentd
	Image   string // of agents that have none of their own
	Version string // of holon; containers that another version made are replaced

	IdlePause     time.Duration // 0: defaultIdlePause; negative: never
	IdleStop      time.Duration // 0: defaultIdleStop; negative: never
	MaxContainers int           // at once; 0: defaultMaxContainers
	Quota         runner.Quota  // Run bounds what one turn may write, the rest when a container is made
	KeepTurns     int           // directories of ended turns of an agent; 0: defaultKeepTurns; negative: all
	KeepBytes     int64         // in them; 0: defaultKeepBytes; negative: no bound
	MaxBytes      int64         // in them, whatever the record needs; 0: no bound
	Outputs       outputs       // what the record needs of them; nil for none
	Tasks         taskLog       // receives the reports of tasks in the containers; nil for none
	Changes       changesLog    // receives what becomes of the containers; nil for none

	// Leases say which agents this process runs; nil: all of them.
	Leases leases

	Claim *sessions.Claim // of containers that other homes may see; nil: there are none

	// Elsewhere says that another host runs an agent, with containers of its own: what is left of it here is removed, and
	// no container is left with its tasks for another process. nil: all processes have the same containers.
	Elsewhere func(agentID string) bool

	// Removed says whether an agent was removed: a sweep ends its container. nil: none ever is.
	Removed func(ctx context.Context, agentID string) (bool, error)

	// Configure says what the container of an agent needs in addition to what the pool
	// knows: gateway and providers, scenario, environment, limits, network, user.
	// It is called when a container is made or taken up. The closer, which may be
	// nil, is closed when that container is given up.
	Configure func(ctx context.Context, t Turn) (runner.Config, io.Closer, error)

	// Tools are those of the host that an agent is given; nil for none. They act
	// for that agent only.
	Tools func(agentID string) []hosttools.Tool

	Secrets *redact.Set // taken out of everything that is reported; nil for none
	Log     *slog.Logger

	// SetAside notifies the operator that an agent's conversation begins anew, and why; it may be nil.
	SetAside func(agentID, text string)
	Now      func() time.Time // nil: time.Now
}

// leases are ledger.Leases. Others run the agents of which this process has none: it touches none of their containers.
type leases interface {
	Held(agentID string) bool
	Check(ctx context.Context, agentID string) error
}

func (k *Pool) ours(agentID string) bool { return k.opts.Leases == nil || k.opts.Leases.Held(agentID) }

// Turn is a turn that an agent is to make, and what its container is made from.
type Turn struct {
	runner.Turn // with an ID, chosen by the caller, once

	AgentID   string // or the id of another owner
	Image     string // "": Options.Image
	Model     string // provider/model; "": what Configure chooses
	Fallbacks []string

	First          bool // its agent gets a container before agents that came earlier: its operator waits
	TreeContainers int  // that the agents of its tree may have at a time; 0: no bound
}

// Pool keeps the containers of the agents of one home. Its methods are safe
// for concurrent use.
type Pool struct {
	opts     Options
	sessions *sessions.Manager
	swept    time.Time // when Sweep last looked for orphans; under sweeper
	sweeper  sync.Mutex
	tidied   sync.Once

	mu      sync.Mutex
	agents  map[string]*agent
	held    int           // containers that count against MaxContainers
	waiting []*waiter     // agents that wait for one, the next first
	crowded bool          // an agent waits for one to become idle
	changed chan struct{} // closed when held changed or an agent was unlocked
	closed  bool

	revision revision // of the settings; under mu

	broken chan struct{} // receives when a container has broken off: it may have ended
}

// agent is what the pool knows of one agent, or another owner. The holder of its lock may use and
// replace its container.
type agent struct {
	id   string
	key  sessions.Key
	lock chan struct{} // holds a token while it is locked

	// Under lock.
	session  *sessions.Session // nil: no container
	follow   *follower         // of the session's tasks
	access   io.Closer         // of the session; may be nil
	made     sessions.Made     // what the session was made from
	models   []string          // that the session asks, the first one first
	unknown  string            // of models, one whose provider the container does not have
	revision revision          // of the settings that the session has
	stale    string            // why the session cannot stay, "" if it can
	paused   bool
	checked  time.Time // agentd answered
	unheard  time.Time // since when it did not, by a link; zero: it did
	dirty    bool      // a turn was made since its directories were counted
	left     bool      // an earlier process left a record of its container, not looked at while it has none
	unready  error     // why that container could not be taken up
	tries    int       // in a row to take it up in which it did not answer
	trusted  bool      // AtOnce: the container that is gone had files that were agentd's alone

	unrecorded int // turns in a row that agentd could not record

	// Under Pool.mu.
	users   int               // of the container, in addition to the holder of the lock
	live    *sessions.Session // session, while turn is asked of it
	turn    string
	silent  bool             // its agentd did not answer when it was last used
	idle    time.Time        // when the container was last used
	holds   bool             // counts in Pool.held
	tasks   int              // that ran when the container was last asked
	inForce *state.Isolation // of the container; nil: there is none
}

// String names the owner in what people read: "agent main", "session ses_…".
func (a *agent) String() string { return strings.Replace(a.key.String(), "/", " ", 1) }

// revision counts how often what Configure says has changed.
type revision struct{ models, providers int }

// Reconfigure says that Configure may say something else now: containers ask their models anew from their next turn on.
// With providers, what agentd gets of them is different too, so that each agent gets another container.
func (k *Pool) Reconfigure(providers bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.revision.models++
	if providers {
		k.revision.providers++
	}
}

func (k *Pool) current() revision {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.revision
}

// New returns a pool without containers.
func New(o Options) *Pool {
	o.IdlePause, o.IdleStop = cmp.Or(o.IdlePause, defaultIdlePause), cmp.Or(o.IdleStop, defaultIdleStop)
	o.MaxContainers = cmp.Or(o.MaxContainers, defaultMaxContainers)
	o.KeepTurns, o.KeepBytes = cmp.Or(o.KeepTurns, defaultKeepTurns), cmp.Or(o.KeepBytes, defaultKeepBytes)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Key == nil {
		o.Key = sessions.OfAgent
	}
	return &Pool{opts: o, sessions: &sessions.Manager{Home: o.Home, Secrets: o.Secrets, Log: o.Log, AtOnce: o.AtOnce,
		Claim: o.Claim},
		agents:  make(map[string]*agent),
		changed: make(chan struct{}), broken: make(chan struct{}, 1)}
}

// check refuses an id that can be of no agent, and an agent that another process runs.
func (k *Pool) check(ctx context.Context, id string) error {
	if err := k.opts.Key(id).Check(); err != nil || k.opts.Leases == nil {
		return err
	}
	return k.opts.Leases.Check(ctx, id)
}

// lock locks an agent, and waits for its present holder.
func (k *Pool) lock(ctx context.Context, id string) (*agent, error) {
	if err := k.check(ctx, id); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	k.tidyOnce()
	a := k.agent(id)
	select {
	case a.lock <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	k.mu.Lock()
	closed := k.closed
	k.mu.Unlock()
	err := k.check(ctx, id) // again: its lease may have been given up
	if closed {
		err = errClosed()
	}
	if err != nil {
		<-a.lock
		return nil, err
	}
	return a, nil
}

func (k *Pool) agent(id string) *agent {
	k.mu.Lock()
	defer k.mu.Unlock()
	a := k.agents[id]
	if a == nil {
		a = &agent{id: id, key: k.opts.Key(id), lock: make(chan struct{}, 1)}
		k.agents[id] = a
	}
	return a
}

// tryLock locks the agent if it is not locked.
func (a *agent) tryLock() bool {
	select {
	case a.lock <- struct{}{}:
		return true
	default:
		return false
	}
}

// unlock unlocks an agent. used says that its container was used, so that its idle time begins anew.
func (k *Pool) unlock(a *agent, used bool) {
	k.mu.Lock()
	if used {
		a.idle = k.opts.Now()
	}
	<-a.lock // before it is announced: what looks at once must find it free
	k.announce()
	k.mu.Unlock()
}

// announce wakes what waits for a container. The caller holds mu.
func (k *Pool) announce() {
	close(k.changed)
	k.changed = make(chan struct{})
}

// begin says which turn is asked of the agent's container, for what may be done there meanwhile.
func (k *Pool) begin(a *agent, turnID string) {
	if k.opts.AtOnce {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	a.live, a.turn = a.session, turnID
	k.announce() // what waits for the container may share it now
}

func (k *Pool) end(a *agent) {
	k.mu.Lock()
	defer k.mu.Unlock()
	a.live, a.turn = nil, ""
}

// all lists the agents that the pool knows.
func (k *Pool) all() []*agent {
	k.mu.Lock()
	defer k.mu.Unlock()
	list := make([]*agent, 0, len(k.agents))
	for _, a := range k.agents {
		list = append(list, a)
	}
	return list
}

// The codes of Error, in addition to those of engines, gateway and agentd.
const (
	CodeClosed  state.Code = "runtime_closing" // no turn is begun any more
	CodeLeft    state.Code = "turn_left"       // the turn goes on; Recover takes it up
	CodeNoHome  state.Code = "agent_no_home"   // the agent's directory is not there
	CodeNoTurn  state.Code = "no_current_run"  // Interject: the agent does not make that turn
	CodeUnclear state.Code = "start_unclear"   // StartTask: the container was asked, and its answer did not come
	codeBusy    state.Code = "container_busy"  // the turn needs another container, and a task runs in this one
)

// Error is the error of every method; Param names the setting at fault.
type Error = state.Error

// typed makes an *Error of the reason why something was not done, without known
// secrets.
func (k *Pool) typed(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return &Error{Code: responses.CodeCancelled, Message: "it was ended before it was done",
			Err: context.Cause(ctx)}
	}
	f := runner.Describe(err)
	code := state.Code(f.Code)
	if f.Code == "internal_error" {
		code = runner.CodeNotReady
	}
	return &Error{Code: code, Message: k.opts.Secrets.Text(f.Message), Param: f.Param,
		Hint: k.opts.Secrets.Text(f.Hint), Err: nil}
}
