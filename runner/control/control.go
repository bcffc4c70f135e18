// Package control serves the control plane of a runtime: HTTP over a Unix socket
// that only its owner can connect to, and over TCP when that is asked for.
//
//	request ─▶ guard (access) ─▶ route ─▶ view of a snapshot        (reads)
//	                          │         └▶ one step of the scheduler (everything else)
//	                          ├▶ /v1/…: Options.Clients                (sessions of other programs)
//	                          └▶ /ui/…: Options.Console                (browsers)
//
// The invariant: reading writes nothing and starts nothing; every change is made by an operator, or with a capability
// for that change; the origin of a message follows from the listener and route that it used, never from its content.
// Requests are bounded in size, time and number, and no client can delay another.
//
// An answer means that a step is in the ledger, not that it was acted on; the agent's events report that.
package control

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"holon/internal/httpserver"
	"holon/responses/tasks"
	"holon/runner/agent/record"
	"holon/runner/agent/scheduler"
	"holon/runner/agent/view"
	"holon/state/ledger"
)

// Host is the part of the runtime that the control plane needs in addition to its
// ledger. All methods are safe for concurrent use.
type Host interface {
	// CreateAgent makes an agent with its home. template "" is the default one.
	CreateAgent(ctx context.Context, id, template string) (ledger.Agent, error)
	// Prompt returns a prompt.Report of a text of the operator, as JSON. It asks no model and records nothing. An agent
	// without a container gets one, as for a turn.
	Prompt(ctx context.Context, agentID, text string) (json.RawMessage, error)
	Models(ctx context.Context) (view.Models, error)
	// CheckModel refuses a model that cannot be asked here. With keyless, one passes whose provider only lacks its key.
	CheckModel(ref string, keyless bool) error
	// CheckImage refuses an image that the engine says it cannot run. Where it cannot say, any image passes.
	CheckImage(ctx context.Context, image string) error
	// Writing returns the message that the model of an agent writes, and a channel that is closed when that changes.
	Writing(agentID string) (record.Writing, <-chan struct{})
	// StartTask starts a command in the container of an agent, once for its key; TaskInput writes to one, StopTask ends
	// one, and StopTasks ends all of an agent.
	StartTask(ctx context.Context, n scheduler.NewTask) (ledger.Task, error)
	TaskInput(ctx context.Context, agentID, id string, in tasks.Input) (tasks.InputResult, error)
	StopTask(ctx context.Context, agentID, id string, force bool) (tasks.StopResult, error)
	StopTasks(ctx context.Context, agentID string) error
	// Retire ends the tasks and the container of an agent that was removed, once its turn is over.
	Retire(ctx context.Context, agentID string)
	// TaskOutput returns what a task has printed, in about so many tokens, 0 for a default, after waiting for its end,
	// but not longer than wait.
	TaskOutput(ctx context.Context, agentID, id string, wait time.Duration, tokens int) (view.TaskOutput, error)
	// SetBudget bounds what an agent and its children may take together.
	SetBudget(ctx context.Context, agentID string, b scheduler.Budget) (ledger.TreeAccount, error)
	Info() view.RuntimeInfo
	// Shutdown asks the process to end. It returns at once.
	Shutdown()
}

// Steps are the scheduler steps that the control plane takes. *scheduler.Scheduler has them.
type Steps interface {
	Admit(ctx context.Context, in ledger.Message) (scheduler.Admission, error)
	AdmitOperator(ctx context.Context, bindingID, token, replyRoute string, draft ledger.Message) (scheduler.Admission,
		error)
	TestBinding(ctx context.Context, agentID, id string) (ledger.Notification, error)
	Acknowledge(ctx context.Context, agentID, notificationID string) (ledger.Notification, error)
	Wake(ctx context.Context, w scheduler.Wake) (scheduler.Disposition, error)
	Deliver(ctx context.Context, d scheduler.Delivery) (scheduler.Receipt, error)
	CreateWork(ctx context.Context, n scheduler.NewWork) (w ledger.WorkItem, made bool, err error)
	PickWork(ctx context.Context, agentID, itemID, key string) (ledger.WorkItem, error)
	UpdateWork(ctx context.Context, agentID, itemID, key string, c scheduler.WorkChange) (ledger.WorkItem, error)
	CompleteWork(ctx context.Context, agentID, itemID, key string, r *scheduler.Round) (scheduler.Completion, error)
	CreateTimer(ctx context.Context, t scheduler.NewTimer) (timer ledger.Timer, made bool, err error)
	CancelTimer(ctx context.Context, timerID string) (ledger.Timer, error)
	Stop(ctx context.Context, agentID, by string) error
	Start(ctx context.Context, agentID, by string) error
	Renew(ctx context.Context, agentID, by string) error
	Archive(ctx context.Context, a scheduler.Archive) (scheduler.Losses, error)
	Remove(ctx context.Context, agentID, messageID, by string) (ledger.Entry, error)
	Promote(ctx context.Context, agentID, messageID, by string) (ledger.Entry, error)
	Abort(ctx context.Context, a scheduler.Abort) (_ ledger.Attempt, changed bool, _ error)
	Exported(ctx context.Context, x scheduler.Export) (int64, error)
	Resume(ctx context.Context, c ledger.Command, by string) (ledger.Command, error)
	Remember(ctx context.Context, c ledger.Command) (ledger.Command, error)
	Recall(ctx context.Context, c ledger.Command) (before ledger.Command, ok bool, err error)
	SetModel(ctx context.Context, agentID, model, effort string) (ledger.Agent, error)
	ClearModel(ctx context.Context, agentID string) (ledger.Agent, error)
	SetImage(ctx context.Context, agentID, image string) (ledger.Agent, error)
	EnsureTrigger(ctx context.Context, agentID string) (ledger.Trigger, string, error)
	RotateTrigger(ctx context.Context, agentID, id string) (ledger.Trigger, string, error)
	RevokeTrigger(ctx context.Context, agentID, id string) (ledger.Trigger, error)
}

// Options of a Server. Store, Steps and Host are needed.
type Options struct {
	Store ledger.Store
	Steps Steps
	Host  Host
	Log   *slog.Logger // nil: none

	Workspaces Workspaces // nil: there are none
	Memory     Memory     // nil: agents have none
	Transports Transports // nil: the operator is notified on this host alone

	// Hide takes known secrets out of JSON that is answered, but for trigger_url; nil: none are known.
	Hide func(data []byte) []byte

	// OpenTurnFile opens a file that a turn of an agent left, and follows no link; nil: there are none.
	OpenTurnFile func(agentID, turnID, name string) (*os.File, error)

	// OpenRunFile opens a file that the record of a run names, and follows no link. An error that is not a *state.Error
	// is about the file. nil: there are none.
	OpenRunFile func(ctx context.Context, runID, name string) (*os.File, error)

	// KeepFile puts a file into the home of an agent, and returns its path there, which is that of before where sent
	// says that the same request put it there; nil: agents take none.
	KeepFile func(agentID, name string, content []byte, sent func(path string) bool) (path string, err error)

	Sessions Sessions // nil: there are none

	// Clients serves what is below /v1/, for every caller, which access.From finds in the context of a request. It bounds
	// bodies itself, and its answers may take any time. nil: there is nothing.
	Clients Clients

	Console Console // serves what is below /ui on the TCP port; nil: there is nothing

	Facts view.Facts // what Host.Info does not tell

	Limits Limits
}

// Console is the web console. It lets in those that it gave a link to, and bounds its bodies itself.
type Console interface {
	http.Handler
	// Login returns the path of a link that lets one browser in, once, until it expires.
	Login() (link string, expires time.Time)
}

// Limits bound what clients can take. Zero fields get the defaults that are named here.
type Limits struct {
	Streams     int           // event streams at a time: 256
	Leaders     int           // snapshots that are computed at a time: 4
	Patience    time.Duration // how long a request waits for one of them: 1 s
	Body        time.Duration // how long a body may take, in addition to a second per KiB: 10 s
	Write       time.Duration // how long a client may take nothing of an answer: 10 s
	KeepAlive   time.Duration // between comments in a stream in which nothing happens: 15 s
	Grace       time.Duration // for requests that run when the server ends: 10 s
	Connections int           // of each listener: 512
	Strangers   int           // … of which no request was let in, capabilities included: 256
	Deliveries  int           // that one capability or webhook may make at once, and again within a minute: 60
	Delivered   int           // bytes of their bodies, likewise: 4 MiB
}

func (l Limits) filled() Limits {
	l.Streams = cmp.Or(l.Streams, 256)
	l.Leaders = cmp.Or(l.Leaders, 4)
	l.Connections = cmp.Or(l.Connections, 512)
	l.Strangers = cmp.Or(l.Strangers, 256)
	l.Deliveries = cmp.Or(l.Deliveries, 60)
	l.Delivered = cmp.Or(l.Delivered, 4<<20)
	l.Patience = cmp.Or(l.Patience, time.Second)
	l.Body = cmp.Or(l.Body, 10*time.Second)
	l.Write = cmp.Or(l.Write, 10*time.Second)
	l.KeepAlive = cmp.Or(l.KeepAlive, 15*time.Second)
	l.Grace = cmp.Or(l.Grace, 10*time.Second)
	return l
}

// Server is the control plane. Its methods are safe for concurrent use.
type Server struct {
	store  ledger.Store
	steps  Steps
	host   Host
	log    *slog.Logger
	opts   Options
	limits Limits
	limit  limiter
	spent  budgets

	streams chan struct{}  // slots
	ending  chan struct{}  // closed when Run ends: streams end
	clients sync.WaitGroup // requests of Clients
	counts  counts

	unusable atomic.Pointer[string] // why the tokens file was last refused
}

// counts are what the server has seen, for its metrics.
type counts struct {
	answers [6]atomic.Int64 // by class of status
	cut     atomic.Int64    // streams whose readers were too slow
	busy    atomic.Int64    // requests that were sent away for a time
}

// New returns a server.
func New(o Options) *Server {
	s := &Server{store: o.Store, steps: o.Steps, host: o.Host, log: o.Log, opts: o, limits: o.Limits.filled(),
		ending: make(chan struct{})}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.opts.Hide == nil {
		s.opts.Hide = func(data []byte) []byte { return data }
	}
	if s.opts.Transports == nil {
		s.opts.Transports = noTransports{}
	}
	s.limit = limiter{make(chan struct{}, s.limits.Leaders), s.limits.Patience}
	s.streams = make(chan struct{}, s.limits.Streams)
	return s
}

// Run serves on the listeners until ctx ends. Then streams end, requests that run have a grace, and the listeners are
// closed and the socket removed. A server runs once. The error is nil when ctx ended it.
func (s *Server) Run(ctx context.Context, l *Listeners) error {
	// Requests outlive ctx: they are drained, not cut.
	base, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	listeners := l.all()
	servers := make([]*http.Server, len(listeners))
	for i, d := range listeners {
		servers[i] = s.serverFor(base, d)
	}
	group, failed := errgroup.WithContext(ctx)
	for i, d := range listeners {
		group.Go(func() error {
			strangers := s.limits.Strangers
			if d.local { // there are none
				strangers = s.limits.Connections
			}
			if err := servers[i].Serve(httpserver.Guard(d.listen(s.limits.Connections), strangers)); !errors.Is(err,
				http.ErrServerClosed) {
				return fmt.Errorf("serve the control plane: %w", err)
			}
			return nil
		})
	}
	group.Go(func() error {
		<-failed.Done()
		close(s.ending)
		return s.drain(servers, cancel)
	})
	err := group.Wait()
	cancel()
	if s.opts.Clients != nil { // no server ends, or waits for, a connection that was taken over
		s.opts.Clients.Close()
	}
	s.clients.Wait()
	return errors.Join(err, l.Close())
}

func (s *Server) serverFor(base context.Context, on listener) *http.Server {
	return &http.Server{
		Handler:                      s.handler(on),
		BaseContext:                  func(net.Listener) context.Context { return base },
		ConnContext:                  httpserver.ConnContext,
		ReadHeaderTimeout:            10 * time.Second,
		IdleTimeout:                  2 * time.Minute,
		MaxHeaderBytes:               32 << 10,
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
}

// drain waits for requests that run, and cuts those off that take too long.
func (s *Server) drain(servers []*http.Server, cancel context.CancelFunc) error {
	ctx, done := context.WithTimeout(context.Background(), s.limits.Grace) // the one that ended the server is over
	defer done()
	var group errgroup.Group
	for _, one := range servers {
		group.Go(func() error {
			if err := one.Shutdown(ctx); err == nil {
				return nil
			}
			cancel()
			return one.Close()
		})
	}
	return group.Wait()
}

// view returns the views of a snapshot, with the current facts.
func (s *Server) view(v ledger.View) view.Snapshot {
	info, facts := s.host.Info(), s.opts.Facts
	facts.DefaultAgent, facts.Model, facts.Fallbacks, facts.Engine, facts.Booting = info.DefaultAgent,
		info.DefaultModel, info.FallbackModels, info.Engine, !info.Ready
	facts.Children = true // enter decides who may see one
	return view.New(v, facts)
}
