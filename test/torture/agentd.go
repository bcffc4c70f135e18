package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"holon/responses"
	"holon/responses/client"
	"holon/responses/stream"
	"holon/test/conform"
	"holon/test/torture/check"
)

// server is an agentd that runs as a plain process, with the directories that
// survive it.
type server struct {
	r                      *round
	socket, ws, out, state string
	flags                  []string
	env                    []string
	p                      *process
	hasty                  bool // its timeouts end turns that do nothing wrong
	files                  int  // that it had open when it was ready for the first time
}

// newServer lays out the directories of a server; out and state are beneath
// data.
func (r *round) newServer(data string, flags ...string) (*server, error) {
	s := &server{r: r, socket: r.path("s"), ws: r.path("ws"), out: filepath.Join(data, "out"),
		state: filepath.Join(data, "state"), flags: flags}
	return s, os.Mkdir(s.ws, 0o755)
}

// launch starts agentd without waiting for it.
func (s *server) launch() (err error) {
	args := append([]string{filepath.Join(s.r.lab.bin, "agentd"), "serve", "--socket", s.socket, "--input-dir",
		s.r.path("in"), "--output-dir", s.out,
		"--state-dir", s.state, "--workspace-dir", s.ws, "--skills-dir", s.r.path("skills"), "--agent-home", "",
		"--concurrency", "3",
		"--pass-env", "HOLON_TORTURE", "--grace", "2s"}, s.flags...)
	s.p, err = s.r.start("agentd", append([]string{"HOME=" + s.r.dir}, s.env...), s.ws, args...)
	return err
}

// ready waits until the server takes turns.
func (s *server) ready(ctx context.Context) error {
	c := client.Unix(s.socket)
	defer c.Close()
	err := eventually(ctx, patience, func() error {
		select {
		case <-s.p.done:
			return errEnded
		default:
		}
		h, err := c.Health(ctx)
		if err == nil && h.Status != "ready" {
			err = fmt.Errorf("it says %s", h.Status)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("agentd does not become ready: %w\n%s", err, tail(s.r.path("agentd.log"), 2000))
	}
	return nil
}

var errEnded = errors.New("it has ended")

// open starts the server for the first time.
func (s *server) open(ctx context.Context) error {
	if err := s.launch(); err != nil {
		return err
	}
	if err := s.ready(ctx); err != nil {
		return err
	}
	var err error
	s.files, err = check.Files(s.p.cmd.Process.Pid)
	return err
}

// recover starts the server again, at times killing it while it recovers.
func (s *server) recover(ctx context.Context) error {
	for range 3 {
		if !s.r.chance(4) {
			break
		}
		again := s.r.upTo(60 * time.Millisecond)
		s.r.tell("killed again %s into the recovery", again)
		if err := s.launch(); err != nil {
			return err
		}
		if err := pause(ctx, again); err != nil {
			return err
		}
		s.p.kill()
	}
	if err := s.launch(); err != nil {
		return err
	}
	return s.ready(ctx)
}

// playAgentd kills agentd at the instant.
func playAgentd(ctx context.Context, r *round) error {
	s, err := r.newServer(r.dir)
	if err != nil {
		return err
	}
	l, err := r.newLoad(s.ws, s.out, "")
	if err != nil {
		return err
	}
	if err := s.open(ctx); err != nil {
		return err
	}
	wait := l.begin(ctx, s.socket)
	<-l.struck
	s.p.kill()
	if err := wait(); err != nil {
		return err
	}
	if err := s.recover(ctx); err != nil {
		return err
	}
	return s.inspect(ctx, l, true)
}

// inspect checks everything after the recovery: the files, the answers of the
// server, that conversations go on, and the leftovers after its end. With quiet no
// process from before the recovery may run.
func (s *server) inspect(ctx context.Context, l *load, quiet bool) error {
	if err := check.Settled(s.state); err != nil {
		return err
	}
	if quiet {
		err := eventually(ctx, 10*time.Second, func() error {
			return check.NoProcess(s.r.mark, s.ws, append(s.r.pids, s.p.cmd.Process.Pid)...)
		})
		if err != nil {
			return fmt.Errorf("after the recovery: %w", err)
		}
	}
	c := client.Unix(s.socket)
	defer c.Close()
	for _, chain := range l.sessions {
		var last *turn
		for _, t := range chain {
			known, err := s.inspectTurn(ctx, c, t)
			if err != nil {
				return fmt.Errorf("%s: %w", t.id, err)
			}
			if known {
				last = t
				s.r.turns++
			}
		}
		if last != nil {
			if err := s.goOn(ctx, c, last); err != nil {
				return fmt.Errorf("the conversation after %s: %w", last.id, err)
			}
		}
	}
	return errors.Join(check.Once(filepath.Join(s.ws, "ran")), s.finish(ctx, c, l.tasks),
		check.Alone(filepath.Join(s.out, "turns")))
}

// inspectTurn checks a turn. One that was not acknowledged may be unknown, and
// must be entirely.
func (s *server) inspectTurn(ctx context.Context, c *client.Client, t *turn) (known bool, err error) {
	dir := filepath.Join(s.out, "turns", t.id)
	rec, err := c.Turn(ctx, t.id)
	if err != nil {
		if t.accepted || !isCode(err, "turn_not_found") && !isCode(err, "not_found") {
			return false, fmt.Errorf("the server does not know it: %w", err)
		}
		if _, err := os.Lstat(filepath.Join(dir, "turn.json")); err == nil {
			return false, errors.New("it is unknown but has a record")
		}
		return false, nil
	}
	if t.responseID == "" {
		t.responseID = rec.ResponseID
	}
	if rec.ResponseID != t.responseID || !rec.Status.Terminal() {
		return true, fmt.Errorf("the server's record is %s of %s, not of %s", rec.Status, rec.ResponseID, t.responseID)
	}
	events, err := os.ReadFile(filepath.Join(dir, "events.ndjson"))
	if err != nil {
		return true, err
	}
	if err := conform.CheckStream(bytes.NewReader(events), stream.NDJSON); err != nil {
		return true, err
	}
	err = errors.Join(check.Ended(dir), check.Numbered(dir), check.Facts(dir), check.Artifacts(dir),
		check.Trajectory(s.state, t.responseID))
	if !t.background {
		err = errors.Join(err, check.Heard(dir, t.seen, t.ended))
	}
	if err != nil {
		return true, err
	}
	return true, s.readBack(ctx, c, t, bytes.Count(events, []byte("\n")))
}

// readBack checks that the server tells of the turn what the disk says.
func (s *server) readBack(ctx context.Context, c *client.Client, t *turn, events int) error {
	resp, err := c.GetResponse(ctx, t.responseID)
	if err != nil || !resp.Status.Terminal() {
		return fmt.Errorf("the response is %+v: %w", resp, err)
	}
	n := 0
	for _, err := range c.Replay(ctx, t.responseID, client.FromStart) {
		if err != nil {
			return fmt.Errorf("replay event %d: %w", n, err)
		}
		n++
	}
	if n != events {
		return fmt.Errorf("%d of %d events are replayed", n, events)
	}
	if _, err := c.InputItems(ctx, t.responseID, client.ItemPage{}); err != nil {
		return fmt.Errorf("the input cannot be read: %w", err)
	}
	return nil
}

// goOn continues a conversation.
func (s *server) goOn(ctx context.Context, c *client.Client, last *turn) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	next := &turn{id: last.id + "_next", session: last.session, model: last.model}
	resp, err := c.Create(ctx, next.request(last.responseID))
	if err != nil {
		return err
	}
	if resp.Status != responses.StatusCompleted && !(s.hasty && resp.Status == responses.StatusIncomplete) {
		return fmt.Errorf("it ended as %s: %+v", resp.Status, resp.Error)
	}
	return nil
}

// finish ends the server in good order and checks what is left.
func (s *server) finish(ctx context.Context, c *client.Client, tasks int) error {
	c.Close()
	err := eventually(ctx, 5*time.Second, func() error {
		n, err := check.Files(s.p.cmd.Process.Pid)
		if err == nil && s.files > 0 && n > s.files+fewFiles+tasks*filesOfTask {
			err = fmt.Errorf("agentd has %d open files and had %d when it was new", n, s.files)
		}
		return err
	})
	if err != nil {
		return err
	}
	code, err := s.p.end(syscall.SIGTERM)
	if err == nil && code != 0 {
		err = fmt.Errorf("agentd ended with %d after SIGTERM\n%s", code, tail(s.r.path("agentd.log"), 2000))
	}
	return errors.Join(err, check.NoSocket(s.r.dir), check.NoTemporary(s.out), check.NoTemporary(s.state),
		check.NoTemporary(s.ws),
		check.NoLock(s.r.dir), eventually(ctx, 5*time.Second, func() error {
			return check.NoProcess(s.r.mark, s.ws, s.r.pids...)
		}))
}

// Files that agentd may have open in addition to those of its start: the journal
// and the files of a request, and the pipes and logs of a running task.
const (
	fewFiles    = 6
	filesOfTask = 8
)
