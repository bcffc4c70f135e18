package runner

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"time"

	"holon/internal/transfer"
	"holon/internal/unixsocket"
	"holon/internal/visible"
	"holon/responses/client"
	"holon/runner/engine"
	enginelink "holon/runner/engine/link"
	"holon/runner/hosttools"
	"holon/state"
)

// link is the way to a container that shares no directory with the host. Its sockets and files are those of mounts: the
// engine's link serves the sockets in the same directories, and files are copied to where mounts would have them,
// before and after whatever reads or writes them on either side.
type link struct {
	conn    *enginelink.Joined // nil: it is not open
	files   *enginelink.Files  // nil: it was never open
	quota   int64              // most bytes that turns may have written; 0: no bound
	written int64              // most bytes that one was seen to have written
	settled bool               // when files were last made the same, no command ran
	fetched bool               // after the container's end
	owes    bool               // what the container wrote could not be fetched
}

// maxFetched bounds how many files a container may leave in one directory.
const maxFetched = 4_000_000

// checkLink finds out whether the container will have copies of its files.
func (s *Session) checkLink(ctx context.Context) (err error) {
	if linker, ok := s.cfg.Engine.(engine.Linker); ok {
		s.streams, err = linker.Streams(ctx)
	}
	return err
}

// shares reports whether the host writes what the container can write, while it runs: the homes and the trees of agents
// and of conversations outlive a container.
func (s *Session) shares() bool { return s.cfg.AgentHome != "" || s.cfg.Resume != nil }

// linked is what the link has to know of the container.
func (s *Session) linked() engine.Spec {
	return engine.Spec{Mounts: slices.Clone(s.mounts), Sockets: s.socketsInside(), User: s.cfg.User, Server: s.server}
}

// socketsInside are the sockets as the container sees them.
func (s *Session) socketsInside() engine.Sockets {
	list := engine.Sockets{Program: []string{ipcPath + "/" + agentSocket}, Dirs: []string{ipcPath},
		Bridge: []string{agentdPath, "bridge"}}
	for name, served := range map[string]bool{modelSocket: s.gateway != nil, toolSocket: s.hostTools != nil,
		egressSocket: s.egress != nil} {
		if served {
			list.Host = append(list.Host, hostPath+"/"+name)
		}
	}
	return list
}

// linkFile of the session's directory has what is the same on both sides of a link.
const linkFile = "link"

// openLink joins the sockets of the host and of the container, where that is not done by mounts, and makes the files of
// both the same where both write them.
func (s *Session) openLink(ctx context.Context) (err error) {
	if s.handle.Link == "" {
		return nil
	}
	eng, ok := s.cfg.Engine.(enginelink.Engine)
	if !ok {
		return &Error{Code: CodeUsage, Param: "engine", Message: fmt.Sprintf("the engine %s has no link of the kind %q",
			s.cfg.Engine.Name(), visible.OneLine(s.handle.Link, 40)), Hint: "use the holon that made the container"}
	}
	if s.link.conn, err = enginelink.Join(ctx, eng, s.handle, s.linked()); err != nil {
		return err
	}
	s.openFiles(eng)
	if s.shares() {
		err := s.sync(ctx)
		if passing(err) && s.endsWithin(ctx, endingTime) {
			s.ended(s.last)
			err = s.diedError(ctx, "agentd ended before it answered")
		}
		return err
	}
	go s.link.files.Connect(context.WithoutCancel(ctx)) // Close waits for it
	return nil
}

func (s *Session) openFiles(eng enginelink.Engine) {
	path := ""
	if s.shares() {
		path = filepath.Join(s.cfg.Dir, linkFile)
	}
	s.link.files = enginelink.Open(eng, s.handle, s.link.conn, s.shares(), path)
}

// stopSyncTime bounds how long files are made the same before a container is stopped. What is missing is fetched then.
const stopSyncTime = 10 * time.Second

// linkTimeout bounds how long agentd may take to answer through a new link.
const linkTimeout = 10 * time.Second

// linkAgain opens the link to a container that was taken up, and waits until agentd can be reached, or until that takes
// too long, which what is asked of it then shows.
func (s *Session) linkAgain(ctx context.Context) error {
	if err := s.openLink(ctx); err != nil || s.link.conn == nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, linkTimeout)
	defer cancel()
	if err := s.awaitSocket(ctx); err != nil {
		s.cfg.Log.Warn("agentd does not answer", "container", s.handle.Name, "err", err)
	}
	return nil
}

// redialPause is between two tries to connect to agentd while a broken link is made anew.
const redialPause = 20 * time.Millisecond

// unlinkedTime bounds how long a request waits for a container that cannot be reached and has not ended: engines take
// minutes to say that a machine is lost.
const unlinkedTime = 15 * time.Minute

// newClient returns a client of agentd. Where a link can break, it waits for the next one, unless the container ends.
func (s *Session) newClient() *client.Client {
	if s.handle.Link == "" {
		return client.Unix(s.seam.agent())
	}
	return client.UnixBy(s.seam.agent(), func(ctx context.Context, path string) (net.Conn, error) {
		waiting, cancel := context.WithTimeout(ctx, unlinkedTime)
		defer cancel()
		for {
			conn, err := unixsocket.Dial(ctx, path)
			if err == nil {
				return conn, nil
			}
			select {
			case <-s.exited:
				return nil, err
			case <-waiting.Done():
				return nil, err
			case <-time.After(redialPause):
			}
		}
	})
}

func (s *Session) closeLink() error {
	if s.link.files != nil {
		s.link.files.Close()
	}
	if s.link.conn == nil {
		return nil
	}
	err := s.link.conn.Close()
	s.link.conn = nil
	return err
}

// sync makes the files of host and container the same, where they have copies of each other's. It comes before and
// after what reads or writes them on one side.
func (s *Session) sync(ctx context.Context) error {
	if s.handle.Link == "" {
		return nil
	}
	s.pausing.Lock()
	defer s.pausing.Unlock()
	return s.syncUnpaused(ctx)
}

// push is sync if the host changed something. What the container changed may wait until after a turn.
func (s *Session) push(ctx context.Context) error {
	if s.handle.Link == "" {
		return nil
	}
	s.pausing.Lock()
	defer s.pausing.Unlock()
	if s.link.conn != nil && !s.Ended() {
		spec := s.linked()
		spec.Mounts = slices.DeleteFunc(spec.Mounts, isRecord) // agentd alone writes it, and it grows with each turn
		if changed, err := s.link.files.Changed(ctx, spec); err != nil || !changed {
			return err
		}
	}
	return s.syncUnpaused(ctx)
}

// isRecord reports whether a mount holds what agentd keeps of turns and responses.
func isRecord(m engine.Mount) bool { return m.Target == outputPath || m.Target == statePath }

// syncUnpaused is sync for a caller that has the lock over pausing. A container that is paused changes nothing, and
// cannot answer.
func (s *Session) syncUnpaused(ctx context.Context) error {
	switch {
	case s.link.conn == nil || s.paused:
		return nil
	case s.Ended() && s.shares() && !s.link.fetched:
		return s.Fetch(ctx)
	case s.Ended():
		return nil
	}
	limits, err := s.fetchLimits(ctx)
	if err != nil {
		return err
	}
	quiet, err := s.link.files.Sync(ctx, s.linked(), limits)
	s.link.settled = err == nil && quiet
	return quotaError(err)
}

// synced calls fn between two times that files are made the same, for what the host does with the files of a container.
// Of one that ended meanwhile it has all that was written. The caller has the lock over pausing.
func (s *Session) synced(ctx context.Context, fn func(context.Context) error) error {
	err := s.syncUnpaused(ctx)
	if passing(err) && s.endsWithin(ctx, endingTime) {
		err = s.Fetch(ctx)
	}
	if err != nil {
		return err
	}
	err = fn(ctx)
	s.after(ctx, s.syncUnpaused)
	return err
}

// What is done to host and container after something else takes at most afterTime, and at most cancelledTime once the
// caller has had enough. What is missing comes the next time.
const (
	afterTime     = 10 * time.Minute
	cancelledTime = 30 * time.Second
)

// after makes the files the same also when ctx has ended.
func (s *Session) after(ctx context.Context, sync func(context.Context) error) {
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), afterTime)
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(cancelledTime, cancel) })()
	s.warnUnsynced(sync(bounded))
}

// warnUnsynced notes that files could not be made the same now. The next time does it.
func (s *Session) warnUnsynced(err error) {
	if err != nil {
		s.cfg.Log.Warn("host and container do not have each other's files yet", "run", s.cfg.ID, "err", err)
	}
}

// endingTime is how long an engine may take to report the end of a container after its streams broke. A busy one takes
// seconds.
const endingTime = 10 * time.Second

func (s *Session) endsWithin(ctx context.Context, most time.Duration) bool {
	select {
	case <-s.exited:
		return true
	case <-time.After(most):
	case <-ctx.Done():
	}
	return false
}

// syncedTools are the host's tools, which find and leave the files of the container the same.
func (s *Session) syncedTools() []hosttools.Tool {
	if !s.streams && s.handle.Link == "" || !s.shares() {
		return s.cfg.HostTools
	}
	tools := slices.Clone(s.cfg.HostTools)
	for i, tool := range tools {
		tools[i].Call = func(ctx context.Context, c hosttools.Call) (result hosttools.Result, err error) {
			if err := s.sync(ctx); err != nil {
				return result, err
			}
			result, err = tool.Call(ctx, c)
			s.after(ctx, s.sync)
			return result, err
		}
	}
	return tools
}

// fetchTime is how long it is tried to fetch files while the engine does not answer.
const fetchTime = 20 * time.Second

// Linked reports whether the container is reached by a link, and whether that is broken and is being made anew.
func (s *Session) Linked() (linked, broken bool) {
	return s.link.conn != nil, s.link.conn != nil && s.link.conn.Broken()
}

// passing reports whether an error of the engine may go away.
func passing(err error) bool {
	return state.IsCode(err, engine.CodeUnreachable)
}

// Fetch brings back what the container wrote, where it did not write it here. It comes after its end. When it fails,
// Close leaves the container for another process, which takes it up and tries again.
func (s *Session) Fetch(ctx context.Context) error {
	return s.fetch(ctx, s.link.settled && !s.shares()) // of a run no command begins after its turn
}

// fetch is Fetch. settled says that agentd alone may have written since files were made the same.
func (s *Session) fetch(ctx context.Context, settled bool) error {
	eng, ok := s.cfg.Engine.(enginelink.Engine)
	if !s.created || s.handle.Link == "" || !ok { // it was removed, which comes after it, or has no copies
		return nil
	}
	spec := s.linked()
	if settled {
		spec.Mounts = slices.DeleteFunc(spec.Mounts, func(m engine.Mount) bool { return !s.shares() || !isRecord(m) })
	}
	limits, err := s.fetchLimits(ctx)
	if s.link.files == nil {
		s.openFiles(eng)
	}
	if err == nil {
		err = s.link.files.Fetch(ctx, spec, limits)
	}
	for end := time.Now().Add(fetchTime); passing(err) && time.Now().Before(end) && ctx.Err() == nil; {
		time.Sleep(resumeEvery) // what is not fetched is lost with the container
		err = s.link.files.Fetch(ctx, spec, limits)
	}
	if state.IsCode(err, engine.CodeNotFound) {
		s.cfg.Log.Error("a container was removed with what it wrote", "run", s.cfg.ID, "err", err)
		err = nil
	}
	s.link.owes, s.link.fetched = err != nil, err == nil
	return quotaError(err)
}

// fetchLimits bound what a container may have written.
func (s *Session) fetchLimits(ctx context.Context) (transfer.Limits, error) {
	limits := transfer.Limits{Files: maxFetched}
	if s.link.quota == 0 {
		return limits, nil
	}
	used, err := s.measureHere(ctx)
	limits.Bytes = used + 2*max(s.link.quota, s.link.written) // until a turn is ended it goes on
	return limits, err
}

func quotaError(err error) error {
	if tooMuch, ok := errors.AsType[*transfer.TooMuchError](err); ok {
		return &Error{Code: codeDiskQuota, Param: "HOLON_RUN_DISK", Err: tooMuch,
			Message: "what the container wrote was not taken whole", Hint: "raise it"}
	}
	return err
}
