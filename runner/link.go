package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"time"

	"holon/internal/unixsocket"
	"holon/internal/visible"
	"holon/responses/client"
	"holon/runner/engine"
	"holon/runner/engine/transfer"
	"holon/state"
)

// link is the way to a container that shares no directory with the host. Its sockets and files are those of mounts: the
// engine's link serves the sockets in the same directories, and fetch brings files back to where they would have been
// written.
type link struct {
	conn    io.Closer // nil: it is not open
	quota   int64     // most bytes that turns may have written; 0: no bound
	written int64     // most bytes that one was seen to have written
	owes    bool      // what the container wrote could not be fetched
}

// maxFetched bounds how many files a container may leave in one directory.
const maxFetched = 4_000_000

// checkLink finds out whether the container will have copies of its files, and refuses a session that goes on from turn
// to turn then.
func (s *Session) checkLink(ctx context.Context) (err error) {
	if linker, ok := s.cfg.Engine.(engine.Linker); ok {
		s.streams, err = linker.Streams(ctx)
	}
	if err != nil || !s.streams {
		return err
	}
	if s.cfg.AgentHome == "" && s.cfg.Resume == nil {
		return nil
	}
	return &Error{Code: CodeUsage, Param: "link",
		Message: "the engine shares no directory with this machine, and agents and sessions need that",
		Hint:    "use a Docker engine that runs as root on this machine; holon run works without"}
}

// linked is what the link has to know of the container.
func (s *Session) linked() engine.Spec {
	return engine.Spec{Mounts: slices.Clone(s.mounts), Sockets: s.socketsInside(), User: s.cfg.User, Server: s.server}
}

// socketsInside are the sockets as the container sees them.
func (s *Session) socketsInside() engine.Sockets {
	list := engine.Sockets{Program: []string{ipcPath + "/" + agentSocket}, Dirs: []string{hostPath, ipcPath},
		Bridge: []string{agentdPath, "bridge"}}
	for name, served := range map[string]bool{modelSocket: s.gateway != nil, toolSocket: s.hostTools != nil,
		egressSocket: s.egress != nil} {
		if served {
			list.Host = append(list.Host, hostPath+"/"+name)
		}
	}
	return list
}

// openLink joins the sockets of the host and of the container, where that is not done by mounts.
func (s *Session) openLink(ctx context.Context) (err error) {
	if s.handle.Link == "" {
		return nil
	}
	linker, ok := s.cfg.Engine.(engine.Linker)
	if !ok {
		return &Error{Code: CodeUsage, Param: "engine", Message: fmt.Sprintf("the engine %s has no link of the kind %q",
			s.cfg.Engine.Name(), visible.OneLine(s.handle.Link, 40)), Hint: "use the holon that made the container"}
	}
	s.link.conn, err = linker.Link(ctx, s.handle, s.linked())
	return err
}

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

// newClient returns a client of agentd. Where a link can break, it waits for the next one, unless the container ends.
func (s *Session) newClient() *client.Client {
	if s.handle.Link == "" {
		return client.Unix(s.seam.agent())
	}
	return client.UnixBy(s.seam.agent(), func(ctx context.Context, path string) (net.Conn, error) {
		waiting, cancel := context.WithTimeout(ctx, linkTimeout)
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
	if s.link.conn == nil {
		return nil
	}
	err := s.link.conn.Close()
	s.link.conn = nil
	return err
}

// fetchTime is how long it is tried to fetch files while the engine does not answer.
const fetchTime = 20 * time.Second

// passing reports whether an error of the engine may go away.
func passing(err error) bool {
	return state.IsCode(err, engine.CodeUnreachable)
}

// fetchTurn brings back what agentd keeps of turns, once one is over.
func (s *Session) fetchTurn(ctx context.Context) error {
	return s.fetch(ctx, 0, func(m engine.Mount) bool { return m.Target == outputPath || m.Target == statePath })
}

// Fetch brings back what the container wrote, where it did not write it here. It comes after its end. When it fails,
// Close leaves the container for another process, which takes it up and tries again.
func (s *Session) Fetch(ctx context.Context) error {
	if !s.created { // or it was removed, which comes after it
		return nil
	}
	err := s.fetch(ctx, fetchTime, func(engine.Mount) bool { return true })
	s.link.owes = err != nil
	return err
}

func (s *Session) fetch(ctx context.Context, tries time.Duration, wanted func(engine.Mount) bool) error {
	linker, ok := s.cfg.Engine.(engine.Linker)
	if s.handle.Link == "" || !ok {
		return nil
	}
	limits := transfer.Limits{Files: maxFetched}
	if s.link.quota > 0 {
		used, err := s.measureHere(ctx)
		if err != nil {
			return err
		}
		limits.Bytes = used + 2*max(s.link.quota, s.link.written) // until a turn is ended it goes on
	}
	spec := s.linked()
	spec.Mounts = slices.DeleteFunc(spec.Mounts, func(m engine.Mount) bool { return !wanted(m) })
	err := linker.Fetch(ctx, s.handle, spec, limits)
	for end := time.Now().Add(tries); passing(err) && time.Now().Before(end) && ctx.Err() == nil; {
		time.Sleep(resumeEvery) // what is not fetched is lost with the container
		err = linker.Fetch(ctx, s.handle, spec, limits)
	}
	if tooMuch, ok := errors.AsType[*transfer.TooMuchError](err); ok {
		return &Error{Code: codeDiskQuota, Param: "HOLON_RUN_DISK", Err: tooMuch,
			Message: "what the container wrote was not taken whole", Hint: "raise it"}
	}
	return err
}
