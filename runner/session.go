// Package runner drives agentd from the host: one pipeline, whatever the use.
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
// removed by Close, also when a step before failed. Nothing that comes back from
// the container is trusted: the event stream is decoded with bounds and the turn
// directory is read without following a link.
package runner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"holon/responses"
	"holon/responses/client"
	"holon/responses/turns"
	"holon/runner/engine"
	"holon/runner/gateway"
	"holon/runner/workspace"
	"holon/skills"
)

// Paths inside the container (architecture: "Directories in the container").
const (
	agentdPath    = "/holon/bin/agentd"
	ipcPath       = "/holon/ipc"
	inputPath     = "/holon/input"
	outputPath    = "/holon/output"
	statePath     = "/holon/state"
	skillsPath    = "/holon/skills"
	workspacePath = "/holon/workspaces"
	scenarioPath  = "/holon/scenario.yaml"
	// ObjectsPath is where borrowed git objects are mounted; it is given to
	// workspace.Options for engines that mount.
	ObjectsPath = "/holon/objects"
)

// Labels on every container of ours.
const (
	LabelRole = "holon.role" // "agent"
	LabelRun  = "holon.run"  // the run's id
	LabelHome = "holon.home" // the state home that owns it
)

// How long starting and stopping may take.
const (
	readyTimeout = 60 * time.Second
	stopGrace    = 10 * time.Second
)

// Config says what a session runs.
type Config struct {
	ID        string // of the run; part of the container's name
	Engine    engine.Engine
	Agentd    string // absolute path of the static agentd
	Image     string
	Source    *workspace.Source // nil: no working tree
	TreeName  string            // name of the tree within the container
	Dir       string            // private directory of the session, made by the caller
	SocketDir string            // where sockets go; replaced when its path is too long for one
	Model     string            // provider/model
	Scenario  string            // file of the host that a scripted model plays, "" for none; it replaces Model
	Fallbacks []string
	Gateway   *gateway.Gateway // nil when no provider is called
	Skills    []string         // directories, each with a SKILL.md
	InputDir  string           // the user's files for the turn, "" for none
	Env       []string         // K=V for the container and its commands
	Labels    map[string]string
	Memory    int64 // bytes; 0: the default
	NanoCPUs  int64 // 0: all
	Network   string
	Log       *slog.Logger
}

// Session is a running container with its tree. It belongs to one goroutine.
type Session struct {
	cfg     Config
	tree    *workspace.Tree // nil when there is none
	sockets string
	gateway *gateway.Server
	mounts  []engine.Mount
	handle  engine.Handle
	created bool
	stopped bool
	exited  chan engine.Exit // receives once, when the container is gone
	exit    *engine.Exit
	client  *client.Client
	id      string // session id for agentd

	// Isolation is what the engine says is in force, read back after the start.
	Isolation engine.Isolation
	// Timings of the phases so far.
	Prepared, Started time.Duration
}

// Start prepares and starts a session: it returns when agentd answers that it
// is ready. On error nothing is left behind.
func Start(ctx context.Context, cfg Config) (*Session, error) {
	s := &Session{cfg: cfg, id: responses.NewID(responses.PrefixSession), exited: make(chan engine.Exit, 1)}
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
	if s.cfg.Source != nil {
		if s.tree, err = s.cfg.Source.Acquire(ctx); err != nil {
			return err
		}
	}
	for _, sub := range []string{"input", "output", "state", "skills"} {
		if err := os.MkdirAll(filepath.Join(s.cfg.Dir, sub), 0o700); err != nil {
			return fmt.Errorf("prepare the session's directories: %w", err)
		}
	}
	if err := s.makeSocketDir(); err != nil {
		return err
	}
	if len(s.cfg.Skills) > 0 {
		if _, err := skills.Stage(ctx, s.cfg.Skills, filepath.Join(s.cfg.Dir, "skills")); err != nil {
			return err
		}
	}
	if s.cfg.Gateway != nil {
		if s.gateway, err = s.cfg.Gateway.Serve(ctx, filepath.Join(s.sockets, "model.sock")); err != nil {
			return err
		}
	}
	s.mounts = s.planMounts()
	return nil
}

// longestSocket is the longest name within the socket directory, with its slash.
const longestSocket = len("/egress.sock.12345678")

// makeSocketDir makes the directory for the sockets, elsewhere when the path
// would exceed the 107 bytes that a socket's may have.
func (s *Session) makeSocketDir() error {
	if len(s.cfg.SocketDir)+longestSocket <= 107 {
		s.sockets = s.cfg.SocketDir
		if err := os.MkdirAll(s.sockets, 0o700); err != nil {
			return fmt.Errorf("make the socket directory: %w", err)
		}
		return nil
	}
	dir, err := os.MkdirTemp("", "holon-ipc-")
	if err != nil {
		return fmt.Errorf("make the socket directory: %w", err)
	}
	s.sockets = dir
	return nil
}

func (s *Session) planMounts() []engine.Mount {
	input := filepath.Join(s.cfg.Dir, "input")
	if s.cfg.InputDir != "" {
		input = s.cfg.InputDir
	}
	mounts := []engine.Mount{
		{Source: s.cfg.Agentd, Target: agentdPath, ReadOnly: true},
		{Source: s.sockets, Target: ipcPath},
		{Source: input, Target: inputPath, ReadOnly: true},
		{Source: filepath.Join(s.cfg.Dir, "output"), Target: outputPath},
		{Source: filepath.Join(s.cfg.Dir, "state"), Target: statePath},
		{Source: filepath.Join(s.cfg.Dir, "skills"), Target: skillsPath, ReadOnly: true},
	}
	if s.cfg.Scenario != "" {
		mounts = append(mounts, engine.Mount{Source: s.cfg.Scenario, Target: scenarioPath, ReadOnly: true})
	}
	if s.tree != nil {
		mounts = append(mounts, engine.Mount{Source: s.tree.Dir(), Target: s.treePath()})
		for _, dir := range s.tree.ObjectDirs() {
			mounts = append(mounts, engine.Mount{Source: dir.HostPath, Target: dir.ContainerPath, ReadOnly: true})
		}
	}
	return mounts
}

func (s *Session) treePath() string { return workspacePath + "/" + s.cfg.TreeName }

// inside returns how the program sees a path of the container.
func (s *Session) inside(path string) string { return s.cfg.Engine.Path(s.mounts, path) }

// model is the reference by which agentd knows the model.
func (s *Session) model() string {
	if s.cfg.Scenario != "" {
		return "scripted/" + s.inside(scenarioPath)
	}
	return s.cfg.Model
}

// spec is the container. Limits and isolation that it leaves out are the
// strict defaults of package engine.
func (s *Session) spec() engine.Spec {
	labels := map[string]string{LabelRole: "agent", LabelRun: s.cfg.ID}
	for k, v := range s.cfg.Labels {
		labels[k] = v
	}
	workspaces := s.inside(outputPath)
	if s.tree != nil {
		workspaces = s.inside(s.treePath())
	}
	args := []string{s.inside(agentdPath), "serve",
		"--socket", s.inside(ipcPath) + "/agent.sock", "--input-dir", s.inside(inputPath), "--output-dir", s.inside(outputPath),
		"--state-dir", s.inside(statePath), "--skills-dir", s.inside(skillsPath), "--workspace-dir", workspaces, "--model", s.model()}
	if s.gateway != nil {
		args = append(args, "--model-socket", s.inside(ipcPath)+"/model.sock")
	}
	if len(s.cfg.Fallbacks) > 0 {
		args = append(args, "--model-fallbacks", strings.Join(s.cfg.Fallbacks, ","))
	}
	env := append([]string{"HOME=" + engine.Home}, s.cfg.Env...)
	if names := envNames(s.cfg.Env); names != "" {
		env = append(env, "HOLON_PASS_ENV="+names)
	}
	return engine.Spec{
		Name: "holon-" + s.cfg.ID, Image: s.cfg.Image, Labels: labels, Args: args, Env: env, Mounts: s.mounts,
		Memory: s.cfg.Memory, NanoCPUs: s.cfg.NanoCPUs, Network: s.cfg.Network,
	}
}

func envNames(env []string) string {
	names := make([]string, len(env))
	for i, kv := range env {
		names[i], _, _ = strings.Cut(kv, "=")
	}
	return strings.Join(names, ",")
}

// start creates the container, starts it and waits until agentd answers.
func (s *Session) start(ctx context.Context) (err error) {
	if s.handle, err = s.cfg.Engine.Create(ctx, s.spec()); err != nil {
		return err
	}
	s.created = true
	go func() {
		// The container may outlive the caller's context; its end must be seen
		// all the same. Close removes it, which ends this wait.
		exit, err := s.cfg.Engine.Wait(context.WithoutCancel(ctx), s.handle)
		if err != nil {
			exit = engine.Exit{Code: -1, Error: err.Error()}
		}
		s.exited <- exit
	}()
	if err := s.cfg.Engine.Start(ctx, s.handle); err != nil {
		return err
	}
	s.client = client.Unix(filepath.Join(s.sockets, "agent.sock"))
	if err := s.awaitReady(ctx); err != nil {
		return err
	}
	state, err := s.cfg.Engine.Inspect(ctx, s.handle)
	if err != nil {
		return err
	}
	s.Isolation = state.Isolation
	return nil
}

// awaitReady waits for the socket and then for /health. The socket appears
// under its name only when agentd listens on it, so the first connection that
// succeeds is the right one.
func (s *Session) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, readyTimeout, errors.New("agentd did not answer in time"))
	defer cancel()
	path := filepath.Join(s.sockets, "agent.sock")
	retry := time.NewTicker(time.Millisecond)
	defer retry.Stop()
	for {
		conn, err := net.Dial("unix", path)
		if err == nil {
			conn.Close()
			break
		}
		select {
		case exit := <-s.exited:
			s.exit = &exit
			return s.diedError(ctx, "agentd ended before it answered")
		case <-ctx.Done():
			return &Error{Code: CodeNotReady, Message: "agentd did not become ready", Hint: "look at the container's log with --keep", Err: context.Cause(ctx)}
		case <-retry.C:
		}
	}
	health, err := s.client.Health(ctx)
	if err != nil {
		return err
	}
	if health.Status != turns.HealthReady {
		return &Error{Code: CodeNotReady, Message: fmt.Sprintf("agentd answers that it is %s", health.Status)}
	}
	return nil
}

// diedError explains the end of a container that should still run.
func (s *Session) diedError(ctx context.Context, message string) error {
	e := &Error{Code: CodeContainerGone, Message: message}
	if s.exit == nil {
		return e
	}
	e.Message += fmt.Sprintf(" (exit code %d)", s.exit.Code)
	switch {
	case s.exit.OOMKilled:
		e.Message, e.Hint = "the container ran out of memory", "raise --memory"
	case s.exit.Code == 137:
		e.Hint = "something killed the container"
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if logs, err := s.cfg.Engine.Logs(ctx, s.handle, 4<<10); err == nil {
		if line := lastLine(logs); line != "" {
			e.Message += ": " + line
		}
	}
	return e
}

// Stop ends the container and waits until it is gone. What it wrote stays.
func (s *Session) Stop(ctx context.Context) error {
	if !s.created || s.stopped {
		return nil
	}
	s.stopped = true
	if err := s.cfg.Engine.Stop(ctx, s.handle, stopGrace); err != nil {
		return err
	}
	if s.exit == nil {
		select {
		case exit := <-s.exited:
			s.exit = &exit
		case <-ctx.Done():
			return fmt.Errorf("wait for the container's end: %w", context.Cause(ctx))
		}
	}
	return nil
}

// Close removes everything that the session made but its Dir, which belongs to
// the caller. It may be called at any point and more than once.
func (s *Session) Close(ctx context.Context) error {
	var errs []error
	if s.client != nil {
		s.client.Close()
	}
	if s.created {
		errs = append(errs, s.cfg.Engine.Remove(ctx, s.handle))
		s.created, s.stopped = false, true
	}
	if s.gateway != nil {
		errs = append(errs, s.gateway.Close(ctx))
		s.gateway = nil
	}
	if s.sockets != "" {
		errs = append(errs, os.RemoveAll(s.sockets))
		s.sockets = ""
	}
	if s.tree != nil {
		errs = append(errs, s.tree.Release(ctx))
		s.tree = nil
	}
	return errors.Join(errs...)
}
