package runner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"holon/runner/engine"
	"holon/runner/socket"
	"holon/runner/workspace"
	"holon/runner/workspace/git"
	"holon/state"
)

// StoppedLater is said of a turn that went on without its holon and was stopped by another.
const StoppedLater = "holon was killed during the turn, which was stopped later"

// Held is what a session holds, for a process that takes it up. Image, models and user are those that the container was
// made with.
type Held struct {
	ID        string          `json:"id"`         // Config.ID
	Engine    string          `json:"engine"`     // engine.Engine.Name
	Handle    *engine.Handle  `json:"handle"`     // null before the container is made
	User      *engine.User    `json:"user"`       // of commands in the container; null for the host's own
	Server    *engine.User    `json:"server"`     // of agentd; null where it is that of commands
	Dir       string          `json:"dir"`        // the session's directory
	Sockets   string          `json:"sockets"`    // directory of the sockets
	Tree      *workspace.Held `json:"tree"`       // null when there is none, or it is the caller's
	Mounts    []engine.Mount  `json:"mounts"`     // of the container
	SessionID string          `json:"session_id"` // by which agentd knows the conversation
	Image     string          `json:"image"`
	Model     string          `json:"model"`
	Fallbacks []string        `json:"fallbacks,omitempty"`
}

// hold records what the session holds by now.
func (s *Session) hold() error {
	if s.cfg.Hold == nil {
		return nil
	}
	h := Held{ID: s.cfg.ID, Engine: s.cfg.Engine.Name(), User: s.cfg.User, Server: s.server, Dir: s.cfg.Dir,
		Sockets: s.seam.sockets, SessionID: s.id, Image: s.cfg.Image, Model: s.cfg.Model, Fallbacks: s.cfg.Fallbacks,
		Mounts: s.mounts}
	if s.created {
		handle := s.handle
		h.Handle = &handle
	}
	if s.tree != nil && s.cfg.Resume == nil {
		tree := s.tree.Held()
		h.Tree = &tree
	}
	return s.cfg.Hold(h)
}

// TakeUp takes up a session that another process held. What it held replaces what cfg says of it. A running container
// goes on: with serve, its sockets are served again at the same paths, and its turn can be joined with Rejoin. A
// container that does not run is removed, with all that it left running: then the session has only the files that were
// written, and Gone says why. On error everything is as it was.
func TakeUp(ctx context.Context, cfg Config, held Held, serve bool) (_ *Session, err error) {
	if err := sameEngine(cfg.Engine.Name(), held); err != nil {
		return nil, err
	}
	tree, err := resumeTree(ctx, cfg.TreeCache, held.Tree)
	if err != nil {
		return nil, err
	}
	cfg.ID, cfg.Dir, cfg.User, cfg.Image = held.ID, held.Dir, held.User, held.Image
	s := &Session{cfg: cfg, tree: tree, id: held.SessionID, seam: seam{held.Sockets}, barrier: socket.NewBarrier(),
		server: held.Server, mounts: held.Mounts, resumed: true, exited: make(chan struct{})}
	s.asked.Store(true)
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Leave(context.WithoutCancel(ctx)))
		}
	}()
	if err := errors.Join(s.borrowTree(ctx), s.openAgentHome()); err != nil {
		return nil, err
	}
	if err := s.takeUpServices(ctx); err != nil {
		return nil, err
	}
	found, err := s.findContainer(ctx, held.Handle)
	if err != nil {
		return nil, err
	}
	if found == nil {
		if held.Handle != nil {
			s.handle, s.created = *held.Handle, true
			err := s.Fetch(ctx) // what it wrote may be there
			s.created = false
			if err != nil {
				return nil, err
			}
			if err := s.cfg.Engine.Remove(ctx, s.handle); err != nil { // what is left of it
				return nil, err
			}
			s.changed(state.ContainerLost, state.ContainerChange{Reason: "its engine does not know it any more"})
		}
		s.gone = &Error{Code: CodeContainerGone, Message: "the container vanished while no holon watched it"}
		return s, nil
	}
	s.handle, s.created, s.Isolation = found.Handle, true, found.Isolation
	s.paused = found.Status == engine.StatusPaused
	s.changed(state.ContainerCreated, state.ContainerChange{})
	if found.Status != engine.StatusCreated {
		s.started(*found)
	}
	if found.Status != engine.StatusRunning && found.Status != engine.StatusPaused {
		return s, s.bury(ctx, found)
	}
	if s.handle.Link != "" { // a link needs one that answers
		if err := s.Resume(ctx); err != nil {
			return nil, err
		}
	}
	s.awaitExit(ctx)
	s.client = s.newClient()
	s.watchServices(ctx)
	if !serve {
		s.gone = &Error{Code: CodeInterrupted, Message: StoppedLater}
		return s, s.linkAgain(ctx)
	}
	if err := s.serveAgain(ctx); err != nil {
		return nil, err
	}
	return s, s.linkAgain(ctx)
}

// resumeTree takes up the working tree that a session held; nil when it held none, or gave it up.
func resumeTree(ctx context.Context, cache string, held *workspace.Held) (*workspace.Tree, error) {
	if held == nil {
		return nil, nil
	}
	tree, err := workspace.Resume(ctx, workspace.Options{CacheDir: cache}, *held)
	if e, ok := errors.AsType[*git.Error](err); ok && e.Code == workspace.CodeReleased {
		return nil, nil
	}
	return tree, err
}

// borrowTree opens the tree of Files.Resume and leaves it to its owner at once: it is only mounted.
func (s *Session) borrowTree(ctx context.Context) (err error) {
	if s.cfg.Resume == nil {
		return nil
	}
	s.tree, err = workspace.Resume(ctx, workspace.Options{CacheDir: s.cfg.TreeCache}, *s.cfg.Resume)
	if err != nil {
		return err
	}
	return s.tree.Leave()
}

// ErrOtherEngine says that a session's container is in another engine, which alone can tell whether it works.
var ErrOtherEngine = errors.New("it is in another engine")

// sameEngine refuses to look for a container in another engine than the one that has it, where it would seem to be gone
// while it works on. Programs of the local engine end with their holon.
func sameEngine(name string, held Held) error {
	if held.Handle == nil || held.Engine == name || held.Engine == "local" {
		return nil
	}
	return &Error{Code: CodeUsage, Param: "engine", Err: ErrOtherEngine,
		Message: fmt.Sprintf("the container %.100s was made with the engine %s, not %s", held.ID, held.Engine, name),
		Hint:    "use the engine " + held.Engine + " until the container is removed, as it is once its agent is idle"}
}

// reportTimeout bounds how long agentd is asked how a turn ended.
const reportTimeout = 5 * time.Second

// reported is the end of a turn that agentd reports, whose container is not served any more, or is gone. What stands in
// the container's files is not one.
func (s *Session) reported(ctx context.Context, turnID string) End {
	t := End{TurnID: turnID, SessionID: s.id, Err: s.gone}
	if s.client == nil {
		return t
	}
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	rec, err := s.client.Turn(ctx, turnID)
	if err == nil && rec.Status.Terminal() {
		t.Response, err = s.client.GetResponse(ctx, rec.ResponseID)
	}
	if err != nil || t.Response == nil || !t.Response.Status.Terminal() {
		t.Response = nil
		return t
	}
	t.Err = nil
	t.Settle(nil, s.cfg.Secrets)
	return t
}

// Trusted reports whether what agentd knew when the session began is its own: commands could not write the files from
// which it was started.
func (s *Session) Trusted() bool { return s.Separated() || s.resumed }

// Separated reports whether commands cannot write what agentd keeps.
func (s *Session) Separated() bool { return s.server != nil }

// Gone says why a session that was taken up has no container, nil when it has.
func (s *Session) Gone() error { return s.gone }

// findContainer returns the session's container as the engine knows it, nil if
// there is none. A process that died while it made the container knew no handle.
func (s *Session) findContainer(ctx context.Context, handle *engine.Handle) (*engine.State, error) {
	if handle == nil {
		list, err := s.cfg.Engine.List(ctx, ownLabels(s.cfg, "agent"))
		if err != nil || len(list) == 0 {
			return nil, err
		}
		handle = &list[0].Handle
	}
	found, err := s.cfg.Engine.Inspect(ctx, *handle)
	if state.IsCode(err, engine.CodeNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if found.Labels[LabelRun] != s.cfg.ID {
		return nil, &Error{Code: CodeContainerGone, Param: "run",
			Message: fmt.Sprintf("container %.12s is not that of %s", handle.ID, s.cfg.ID),
			Hint:    "look at " + state.SessionFile + " of the run"}
	}
	return &found, nil
}

// ownLabels select the containers of the session alone, of one role.
func ownLabels(cfg Config, role string) map[string]string {
	labels := map[string]string{LabelRun: cfg.ID, LabelRole: role}
	if home, ok := cfg.Labels[LabelHome]; ok {
		labels[LabelHome] = home
	}
	return labels
}

// bury removes a container that does not run, so that nothing it left behind
// writes any more, and notes how it ended.
func (s *Session) bury(ctx context.Context, found *engine.State) error {
	if found.Exit != nil {
		s.ended(*found.Exit)
	}
	s.gone = s.diedError(ctx, "the container ended while no holon watched it")
	if found.Status == engine.StatusCreated { // it wrote nothing, and may not even have got all files
		s.gone = &Error{Code: CodeContainerGone, Message: "holon was killed before it started the container"}
	} else if err := s.Fetch(ctx); err != nil {
		return err
	}
	if err := s.cfg.Engine.Remove(ctx, s.handle); err != nil {
		return err
	}
	s.created, s.stopped = false, true
	s.changed(state.ContainerRemoved, state.ContainerChange{})
	return nil
}

// serveAgain serves the sockets anew for the container's user.
func (s *Session) serveAgain(ctx context.Context) error {
	if err := s.cfg.validate(); err != nil {
		return err
	}
	// They may be gone, if a holon could remove them and not the container.
	if err := s.seam.makeDirs(); err != nil {
		return err
	}
	if err := s.serve(ctx); err != nil {
		return err
	}
	return s.giveSockets()
}
