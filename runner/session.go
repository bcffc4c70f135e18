// Package runner drives agentd from the host, by one pipeline for all uses.
//
//	prepare ─▶ start ─▶ turn … turn ─▶ stop ─▶ collect
//	   │          │        │            │         │
//	 tree,      container  POST        container  diff, turn directory,
//	 sockets,   answers    /responses  gone       manifest
//	 gateway    /health
//
// A Session is a container with a private working tree and its sockets; `holon
// run` is a session with one turn ([OneShot]). agentd is driven only through
// its published API. Collecting comes after stopping because what a container
// could still write cannot be read consistently.
//
// Everything that a session makes, a container, a tree, sockets, directories, is
// removed by Close, also when a step before failed; a tree of Files.Resume is
// not the session's. Nothing that comes back from the container is trusted: the
// event stream is decoded with bounds and the turn directory is read without
// following a link.
package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"holon/responses"
	"holon/responses/client"
	"holon/responses/turns"
	"holon/runner/egress"
	"holon/runner/engine"
	"holon/runner/gateway"
	"holon/runner/hosttools"
	"holon/runner/socket"
	"holon/runner/workspace"
	"holon/skills"
	"holon/state"
)

// How long starting and stopping may take. agentd has StopGrace to end in good order: it lets turns go on for turnGrace
// of that, and settles the rest.
const (
	readyTimeout = 60 * time.Second
	// servicesTimeout is longer than agentd waits for services.
	servicesTimeout = 75 * time.Second
	StopGrace       = 10 * time.Second
	turnGrace       = 2 * time.Second
)

// Session is a running container with its tree. It belongs to one goroutine, but for turns: others may begin once
// Turn.Admitted was called of the one before.
type Session struct {
	cfg       Config
	tree      *workspace.Tree // nil when there is none
	seam      seam
	barrier   *socket.Barrier // of the sockets, until it is known what agentd may ask for
	awaited   map[string]bool // turns that are to be rejoined before the barrier opens
	gateway   *gateway.Server
	scenario  fs.FileInfo    // of the file whose copy the container has, nil for none
	egress    *egress.Server // nil: the container has no way out
	hostTools *hosttools.Server
	mcpConfig string // cfg.MCPConfig, where the container's user can read it
	mounts    []engine.Mount
	handle    engine.Handle
	created   bool
	resumed   bool        // another process made it, and agentd has not answered this one
	asked     atomic.Bool // for a turn, by this process or the one that made it
	gone      error       // why a session that was taken up has no turn to join
	stopped   bool
	removed   chan error    // of the container, which Discard removes; nil before
	exited    chan struct{} // closed when the container is gone, as last says
	last      engine.Exit
	forget    func()     // ends the wait for that; nil before there is one
	ending    sync.Mutex // over exit
	exit      *engine.Exit
	pausing   sync.Mutex // over what pauses the container and resumes it
	paused    bool       // as far as this process did that
	client    *client.Client
	id        string       // session id for agentd
	server    *engine.User // agentd's, apart from that of its commands; nil where both are one
	services  services
	link      link
	streams   bool // the container will have a link of its own

	// Warnings tell what the container's user can't reach.
	Warnings []string
	// Programs are those of package toolchain that the container has, by name. Not of a session that was taken up.
	Programs []string
	Versions map[string]string // of Programs, as far as they are known
	// Services are what runs next to the agent. Not of a session that was taken up.
	Services []state.Service
	// Spec is what the container was made from, with every default filled in.
	Spec engine.Spec
	// Isolation is what the engine says is in force, read back after the start.
	Isolation engine.Isolation
	// Runtime is what runs the container in the engine.
	Runtime string
	// Timings of the phases so far.
	Prepared, Started time.Duration
}

// Start prepares and starts a session: it returns when agentd answers that it
// is ready. On error nothing is left behind.
func Start(ctx context.Context, cfg Config) (*Session, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	s := &Session{cfg: cfg, id: cmp.Or(cfg.SessionID, responses.NewID(responses.PrefixSession)),
		barrier: socket.NewBarrier(), exited: make(chan struct{})}
	begin := time.Now()
	err := s.prepare(ctx)
	s.Prepared = time.Since(begin)
	if err == nil {
		begin = time.Now()
		err = s.start(ctx)
		s.Started = time.Since(begin)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close(context.WithoutCancel(ctx)))
	}
	return s, nil
}

// prepare makes what the container will see: tree, directories, sockets.
func (s *Session) prepare(ctx context.Context) (err error) {
	if err := s.checkLink(ctx); err != nil {
		return err
	}
	if err := s.seam.make(s.cfg.SocketDir); err != nil {
		return err
	}
	if err := s.borrowTree(ctx); err != nil {
		return err
	}
	if err := s.chooseUsers(); err != nil {
		return err
	}
	if s.cfg.Source != nil {
		s.cfg.Source.For(treeOwner(s.cfg.User))
		if s.tree, err = s.cfg.Source.Acquire(ctx); err != nil {
			return err
		}
	}
	if err := s.makeDirs(); err != nil {
		return err
	}
	if err := s.openAgentHome(); err != nil {
		return err
	}
	if len(s.cfg.Skills) > 0 {
		if _, err := skills.Stage(ctx, s.cfg.Skills, filepath.Join(s.cfg.Dir, "skills")); err != nil {
			return err
		}
	}
	if err := s.placeMCPConfig(); err != nil {
		return err
	}
	if err := s.findServices(ctx); err != nil {
		return err
	}
	if err := s.serve(ctx); err != nil {
		return err
	}
	if err := s.handOver(ctx); err != nil {
		return err
	}
	s.mounts = s.planMounts()
	return nil
}

// serve serves what the container reaches of the host, each on its socket. A
// session that is taken up again is served at the same paths.
func (s *Session) serve(ctx context.Context) (err error) {
	if err := s.serveModels(ctx); err != nil {
		return err
	}
	if err := s.openHostTools(ctx); err != nil {
		return err
	}
	return s.openEgress(ctx)
}

// start creates the container, starts it and waits until agentd answers.
func (s *Session) start(ctx context.Context) (err error) {
	if s.Spec, err = s.spec().Complete(); err != nil {
		return err
	}
	if err := s.hold(); err != nil {
		return err
	}
	if s.handle, err = s.cfg.Engine.Create(ctx, s.Spec); err != nil {
		return err
	}
	s.created = true
	s.changed(state.ContainerCreated, state.ContainerChange{})
	s.awaitExit(ctx)
	if err := s.hold(); err != nil { // until then the container is found by its labels
		return err
	}
	if err := s.checkConfined(ctx); err != nil {
		return err
	}
	if err := s.cfg.Engine.Start(ctx, s.handle); err != nil {
		return err
	}
	found, err := s.cfg.Engine.Inspect(ctx, s.handle)
	if err != nil {
		return err
	}
	s.Isolation, s.Runtime = found.Isolation, found.Runtime
	s.started(found)
	if err := s.openLink(ctx); err != nil {
		return err
	}
	if err := s.startServices(ctx); err != nil {
		return err
	}
	s.client = s.newClient()
	s.barrier.Open()
	if err := s.awaitReady(ctx); err != nil {
		return err
	}
	s.changed(state.ContainerReady, state.ContainerChange{})
	return nil
}

// ID returns Config.ID, which the container has as a label.
func (s *Session) ID() string { return s.cfg.ID }

// awaitExit waits for the container's end in a goroutine of its own.
func (s *Session) awaitExit(ctx context.Context) {
	// The container may outlive the caller's context; its end must be seen all
	// the same. Close removes it, which ends this wait; Leave gives it up.
	ctx, s.forget = context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		exit, err := s.cfg.Engine.Wait(ctx, s.handle)
		if err != nil {
			exit = engine.Exit{Code: -1, Error: err.Error()}
		}
		s.last = exit
		close(s.exited)
	}()
}

// awaitReady waits for the socket and then for /health.
func (s *Session) awaitReady(ctx context.Context) error {
	timeout := readyTimeout
	if len(s.services.asked) > 0 { // which agentd waits for
		timeout += servicesTimeout
	}
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, errors.New("agentd did not answer in time"))
	defer cancel()
	if err := s.awaitSocket(ctx); err != nil {
		return err
	}
	health, err := s.client.Health(ctx)
	if err != nil {
		return err
	}
	if health.Status != turns.HealthReady {
		return &Error{Code: CodeNotReady, Message: fmt.Sprintf("agentd answers that it is %s", health.Status)}
	}
	s.Programs, s.Versions = health.Programs, health.Versions
	return nil
}

// awaitSocket waits until agentd listens. The socket appears under its name only when agentd listens on it, so the
// first connection that succeeds is the right one.
func (s *Session) awaitSocket(ctx context.Context) error {
	retry := time.NewTicker(time.Millisecond)
	defer retry.Stop()
	for {
		conn, err := s.seam.dial(ctx)
		if err == nil {
			return conn.Close()
		}
		select {
		case err := <-s.services.failed:
			return err
		case <-s.exited:
			s.ended(s.last)
			return s.diedError(ctx, "agentd ended before it answered")
		case <-ctx.Done():
			return &Error{Code: CodeNotReady, Message: "agentd did not become ready",
				Hint: "look at the container's log with --keep", Err: context.Cause(ctx)}
		case <-retry.C:
		}
	}
}

// Stop ends the container and waits until it is gone. What it wrote stays. When
// the engine cannot stop it, it is removed by force, with its log.
func (s *Session) Stop(ctx context.Context) error {
	if s.stopped || !s.created {
		return nil
	}
	if s.shares() || !s.link.settled { // of a run, the end of its turn did it
		s.link.settled = false
		syncing, cancel := context.WithTimeout(ctx, stopSyncTime)
		s.warnUnsynced(s.sync(syncing)) // what is missing is fetched
		cancel()
	}
	s.stopped = true
	removed := make(chan error, 1)
	go func() { removed <- s.removeServices(ctx) }()
	err := s.cfg.Engine.Stop(ctx, s.handle, StopGrace)
	if servicesErr := <-removed; servicesErr != nil { // Close tries again
		s.cfg.Log.Warn("services cannot be removed", "run", s.cfg.ID, "err", servicesErr)
	}
	if err != nil {
		if fetchErr := s.Fetch(context.WithoutCancel(ctx)); fetchErr != nil {
			return errors.Join(err, fetchErr)
		}
		if removeErr := s.cfg.Engine.Remove(context.WithoutCancel(ctx), s.handle); removeErr != nil {
			return errors.Join(err, removeErr)
		}
		s.noContainer()
		s.changed(state.ContainerRemoved, state.ContainerChange{})
		return nil
	}
	if s.noted() == nil {
		select {
		case <-s.exited:
			s.ended(s.last)
		case <-ctx.Done():
			return fmt.Errorf("wait for the container's end: %w", context.Cause(ctx))
		}
	}
	if s.shares() { // what is fetched of a run, its caller knows
		return s.fetch(context.WithoutCancel(ctx), s.link.settled)
	}
	return nil
}

// Discard begins to remove a container that was stopped, of which nothing but its files is needed any more. Close waits
// for it.
func (s *Session) Discard(ctx context.Context) {
	if !s.stopped || s.removed != nil {
		return
	}
	s.removed = make(chan error, 1)
	go func() { s.removed <- s.remove(ctx) }()
}

// Close removes everything that the session made but its Dir, which belongs to
// the caller. It may be called at any point and more than once.
func (s *Session) Close(ctx context.Context) error {
	if s.link.owes {
		return s.Leave(ctx)
	}
	var errs []error
	if s.Discard(ctx); s.removed == nil { // it may run, and write until it is removed
		errs = append(errs, s.remove(ctx))
		s.stopped = true
	}
	errs = append(errs, s.closeServices(ctx), s.closeLink(), s.seam.remove())
	if s.tree != nil {
		errs = append(errs, s.tree.Release(ctx))
		s.tree = nil
	}
	if s.removed != nil {
		errs = append(errs, <-s.removed)
		s.removed = nil
	}
	return errors.Join(errs...)
}

// remove removes the container, if there is one, and those of the services.
func (s *Session) remove(ctx context.Context) error {
	servicesErr := s.removeServices(ctx)
	if !s.created {
		return servicesErr
	}
	s.Ended() // notes an end that was not seen before
	err := s.cfg.Engine.Remove(ctx, s.handle)
	if err == nil {
		s.changed(state.ContainerRemoved, state.ContainerChange{})
	}
	s.noContainer()
	s.forget()
	return errors.Join(err, servicesErr)
}

// noContainer notes that there is nothing left to pause.
func (s *Session) noContainer() {
	s.pausing.Lock()
	defer s.pausing.Unlock()
	s.created = false
}

// Tree returns the session's working tree, nil when it has none.
func (s *Session) Tree() *workspace.Tree { return s.tree }

// ContainerID returns the engine's id of the container, "" when the session has none.
func (s *Session) ContainerID() string {
	if !s.created {
		return ""
	}
	return s.handle.ID
}

// Logs returns the end of what the container's first process printed, at most limit bytes.
func (s *Session) Logs(ctx context.Context, limit int64) ([]byte, error) {
	return s.cfg.Engine.Logs(ctx, s.handle, limit)
}

// LeaveTree keeps the tree as it is, for another process to take up, also when the rest of the session is given up.
func (s *Session) LeaveTree() error {
	if s.tree == nil {
		return nil
	}
	err := s.tree.Leave()
	s.tree = nil
	return err
}

// Leave lets go of the session and leaves container, sockets and tree as they
// are, for another to take up.
func (s *Session) Leave(ctx context.Context) error {
	err := errors.Join(s.closeServices(ctx), s.closeLink())
	s.forgetServices()
	if s.forget != nil {
		s.forget()
	}
	return errors.Join(err, s.LeaveTree())
}

// closeServices ends what the host and the container reach of each other.
func (s *Session) closeServices(ctx context.Context) (err error) {
	if s.client != nil {
		s.client.Close()
	}
	if s.gateway != nil {
		err = s.gateway.Close(ctx)
		s.gateway = nil
	}
	return errors.Join(err, s.CloseEgress(), s.CloseHostTools())
}
