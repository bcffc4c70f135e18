package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"holon/responses"
	"holon/responses/stream"
	"holon/test/agentclient"
	"holon/test/conform"
	"holon/test/load"
	"holon/test/torture/check"
)

type server struct {
	*load.Agentd
	r     *round
	hasty bool // its timeouts end turns that do nothing wrong
	files int  // that it had open when it was ready for the first time
}

// newServer lays out the directories of a server and draws its work; output and state are beneath data.
func (r *round) newServer(data, model string, flags ...string) (*server, *work) {
	s := &server{r: r, Agentd: load.Must(load.NewAgentd(r.dir, data, append([]string{"--agent-home", "",
		"--concurrency", "3", "--pass-env", "HOLON_TORTURE", "--grace", "2s"}, flags...)...))}
	s.Env = []string{r.mark}
	r.later(func() error { s.Kill(); return nil })
	return s, r.newWork(s.Workspace(), s.Output, model)
}

func (s *server) open(ctx context.Context) {
	s.again(ctx)
	s.files = load.Must(check.Files(s.PID()))
}

func (s *server) again(ctx context.Context) {
	load.Check(s.Launch())
	load.Check(s.Ready(ctx))
}

// recover starts the server again, at times killing it while it recovers.
func (s *server) recover(ctx context.Context) {
	for range 3 {
		if !s.r.chance(4) {
			break
		}
		again := s.r.upTo(60 * time.Millisecond)
		s.r.tell("killed again %s into the recovery", again)
		load.Check(s.Launch())
		pause(ctx, again)
		s.Kill()
	}
	s.again(ctx)
}

func playAgentd(ctx context.Context, r *round) {
	s, w := r.newServer(r.dir, "")
	s.open(ctx)
	wait := w.begin(ctx, s.Socket())
	<-w.struck
	s.Kill()
	wait()
	s.recover(ctx)
	s.inspect(ctx, w, true)
}

// inspect checks everything after the recovery: the files, the answers of the
// server, that conversations go on, and the leftovers after its end. With quiet no
// process from before the recovery may run.
func (s *server) inspect(ctx context.Context, w *work, quiet bool) {
	load.Check(check.Settled(s.State))
	if quiet {
		err := load.Eventually(ctx, 10*time.Second, func() error {
			return check.NoProcess(s.r.mark, s.Workspace(), append(s.r.pids, s.PID())...)
		})
		if err != nil {
			load.Failf("after the recovery: %w", err)
		}
	}
	c := agentclient.Unix(s.Socket())
	defer c.Close()
	for _, chain := range w.sessions {
		var last *turn
		for _, t := range chain {
			known, err := s.inspectTurn(ctx, c, t)
			if err != nil {
				load.Failf("%s: %w", t.id, err)
			}
			if known {
				last = t
				s.r.turns++
			}
		}
		if last != nil {
			s.goOn(ctx, c, last)
		}
	}
	load.Must(check.Once(filepath.Join(s.Workspace(), "ran")))
	c.Close()
	s.finish(ctx, w.tasks)
	load.Check(check.Alone(filepath.Join(s.Output, "turns")))
}

// inspectTurn checks a turn. One that was not acknowledged may be unknown, and
// must be entirely.
func (s *server) inspectTurn(ctx context.Context, c *agentclient.Client, t *turn) (known bool, err error) {
	dir := filepath.Join(s.Output, "turns", t.id)
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
	if err == nil {
		err = conform.CheckStream(events, stream.NDJSON)
	}
	if err == nil {
		err = errors.Join(check.Ended(dir), check.Numbered(dir), check.Journal(dir), check.Facts(dir), check.Artifacts(dir),
			check.Trajectory(s.State, t.responseID))
	}
	if !t.background {
		err = errors.Join(err, check.Heard(dir, t.seen, t.ended))
	}
	if err != nil {
		return true, err
	}
	return true, s.readBack(ctx, c, t, bytes.Count(events, []byte("\n")))
}

// readBack checks that the server tells of the turn what the disk says.
func (s *server) readBack(ctx context.Context, c *agentclient.Client, t *turn, events int) error {
	resp, err := c.GetResponse(ctx, t.responseID)
	if err != nil || !resp.Status.Terminal() {
		return fmt.Errorf("the response is %+v: %w", resp, err)
	}
	n := 0
	for _, err := range c.Replay(ctx, t.responseID, agentclient.FromStart) {
		if err != nil {
			return fmt.Errorf("replay event %d: %w", n, err)
		}
		n++
	}
	if n != events {
		return fmt.Errorf("%d of %d events are replayed", n, events)
	}
	return nil
}

func (s *server) goOn(ctx context.Context, c *agentclient.Client, last *turn) {
	ctx, cancel := context.WithTimeout(ctx, load.Patience)
	defer cancel()
	next := &turn{id: last.id + "_next", session: last.session, model: last.model}
	resp, err := c.Create(ctx, next.request(last.responseID))
	if err != nil {
		load.Failf("the conversation after %s: %w", last.id, err)
	}
	if resp.Status != responses.StatusCompleted && !(s.hasty && resp.Status == responses.StatusIncomplete) {
		load.Failf("the conversation after %s ended as %s: %+v", last.id, resp.Status, resp.Error)
	}
}

// finish ends the server in good order and checks what is left.
func (s *server) finish(ctx context.Context, tasks int) {
	load.Check(load.Eventually(ctx, 5*time.Second, func() error {
		n, err := check.Files(s.PID())
		if err == nil && s.files > 0 && n > s.files+fewFiles+tasks*filesOfTask {
			err = fmt.Errorf("agentd has %d open files and had %d when it was new", n, s.files)
		}
		return err
	}))
	load.Check(errors.Join(s.End(), check.NoSocket(s.r.dir), check.NoTemporary(s.Output), check.NoTemporary(s.State),
		check.NoTemporary(s.Workspace()), check.NoLock(s.r.dir)))
	load.Check(load.Eventually(ctx, 5*time.Second, func() error {
		return check.NoProcess(s.r.mark, s.Workspace(), s.r.pids...)
	}))
}

// Files that agentd may have open in addition to those of its start: the journal
// and the files of a request, and the pipes and logs of a running task.
const (
	fewFiles    = 6
	filesOfTask = 8
)
