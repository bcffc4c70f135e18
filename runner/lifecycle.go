package runner

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"holon/responses"
	"holon/responses/client"
	"holon/responses/turns"
	"holon/runner/engine"
	"holon/state"
)

// changed calls Config.OnContainer when the session's container has come to a phase. A process that takes up a
// container reports again how it was created and started.
func (s *Session) changed(phase state.ContainerPhase, c state.ContainerChange) {
	if s.cfg.OnContainer == nil {
		return
	}
	c.ID, c.Phase, c.Engine, c.Image = s.handle.ID, phase, s.cfg.Engine.Name(), s.cfg.Image
	c.Reason = s.cfg.Secrets.Text(c.Reason)
	s.cfg.OnContainer(c)
}

// started tells what the engine says of a container that was started.
func (s *Session) started(found engine.State) {
	s.changed(state.ContainerStarted, state.ContainerChange{Digest: found.ImageID, Runtime: found.Runtime,
		Isolation: &found.Isolation})
}

// ended notes how the container ended, once.
func (s *Session) ended(exit engine.Exit) {
	s.ending.Lock()
	defer s.ending.Unlock()
	if s.exit != nil {
		return
	}
	s.exit = &exit
	if exit.Code < 0 {
		s.changed(state.ContainerLost, state.ContainerChange{Reason: exit.Error})
		return
	}
	s.changed(state.ContainerExited, state.ContainerChange{ExitCode: exit.Code, OOMKilled: exit.OOMKilled})
}

// noted returns how the container ended, nil before that was noted.
func (s *Session) noted() *engine.Exit {
	s.ending.Lock()
	defer s.ending.Unlock()
	return s.exit
}

// diedError explains the end of a container that should still run.
func (s *Session) diedError(ctx context.Context, message string) error {
	e := &Error{Code: CodeContainerGone, Message: message}
	if s.cfg.Engine.Name() == "local" { // which makes no container
		e.Message = strings.Replace(message, "the container", "agentd", 1)
	}
	exit := s.noted()
	if exit == nil {
		return e
	}
	if exit.Code >= 0 { // a process that was killed without anybody waiting for it leaves none
		e.Message += fmt.Sprintf(" (exit code %d)", exit.Code)
	}
	switch {
	case exit.Code == state.OutcomeRefused.ExitCode():
		e.Code = CodeAgentdRefused
	case exit.OOMKilled:
		e.Message, e.Hint = "the container ran out of memory", "raise --memory"
	case exit.Error != "":
		e.Message += ": " + exit.Error
		return e
	case exit.Code == 137:
		e.Hint = "something killed the container; if its memory was short, raise --memory"
	}
	if exit.Code < 0 || exit.Code > 128 {
		return e // a signal ended it, so that its log cannot say why
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if logs, err := s.cfg.Engine.Logs(ctx, s.handle, 4<<10); err == nil {
		line := lastComplaint(logs)
		if wrong := wrongFlag(line, s.cfg.MCPConfig); wrong != nil && exit.Code == 2 {
			return wrong
		}
		if silent := s.silentService(ctx, line); silent != nil {
			return silent
		}
		if line != "" {
			e.Message += ": " + line
		}
	}
	return e
}

// reasonTime is how long the end of a container may take after that of a turn that its agentd ended with itself.
const reasonTime = 5 * time.Second

// explain adds to the end of a turn that agentd ended with itself why the engine ended the container, if it says so.
func (s *Session) explain(ctx context.Context, end *End) {
	if !end.Lost || end.Failure == nil || end.Failure.Code != responses.ReasonShutdown {
		return
	}
	if s.endsWithin(ctx, reasonTime) && s.last.Error != "" {
		end.Failure.Message += ": " + s.last.Error
	}
}

// Pause holds the container still, where the engine can: nothing in it runs, and
// what is asked of it waits. held is false where it cannot, or the container is reached by a link.
func (s *Session) Pause(ctx context.Context) (held bool, err error) {
	s.pausing.Lock()
	defer s.pausing.Unlock()
	return s.pause(ctx)
}

func (s *Session) pause(ctx context.Context) (held bool, err error) {
	p, ok := s.cfg.Engine.(engine.Pauser)
	if !ok || !s.created || s.handle.Link != "" { // a pause while a link is made anew blocks Docker for ever
		return false, nil
	}
	err = p.Pause(ctx, s.handle)
	s.paused = s.paused || err == nil
	return true, err
}

// Resume lets a container go on that was paused. Another is success.
func (s *Session) Resume(ctx context.Context) error {
	s.pausing.Lock()
	defer s.pausing.Unlock()
	return s.resume(ctx)
}

func (s *Session) resume(ctx context.Context) error {
	p, ok := s.cfg.Engine.(engine.Pauser)
	if !ok || !s.created {
		return nil
	}
	err := p.Resume(ctx, s.handle)
	s.paused = s.paused && err != nil
	return err
}

// How long, and how often, Still tries to let a container go on while the engine does not answer.
const (
	resumeTime  = time.Minute
	resumeEvery = 200 * time.Millisecond
)

// Still runs fn while nothing in the container runs, also during a turn, and lets it go on afterwards unless it was
// paused before. An engine that holds nothing still runs fn all the same, and so does one that has copies of the files.
// It may be called by other goroutines while a turn runs; what pauses or resumes the container meanwhile waits.
func (s *Session) Still(ctx context.Context, fn func(context.Context) error) (err error) {
	s.pausing.Lock()
	defer s.pausing.Unlock()
	if s.paused {
		return fn(ctx)
	}
	if s.link.conn != nil { // copies are still
		return s.synced(ctx, fn)
	}
	_, err = s.pause(ctx)
	if state.IsCode(err, engine.CodeConflict) || state.IsCode(err, engine.CodeNotFound) { // it does not run
		return fn(ctx)
	}
	defer func() { // also where pausing seems to have failed
		resumed := s.resume(context.WithoutCancel(ctx))
		for end := time.Now().Add(resumeTime); resumed != nil && !state.IsCode(resumed, engine.CodeNotFound) &&
			time.Now().Before(end); resumed = s.resume(context.WithoutCancel(ctx)) {
			time.Sleep(resumeEvery) // a turn may run in it, and the engine may come back
		}
		if resumed != nil && !state.IsCode(resumed, engine.CodeNotFound) {
			err = errors.Join(err, fmt.Errorf("let the container go on: %w", resumed))
		}
	}()
	if err != nil {
		return fmt.Errorf("hold the container still: %w", err)
	}
	return fn(ctx)
}

// Ended reports whether the session has no container that runs, as far as the
// engine has told.
func (s *Session) Ended() bool {
	if s.stopped || !s.created {
		return true
	}
	select {
	case <-s.exited:
		s.ended(s.last)
	default:
	}
	return s.noted() != nil
}

// Working asks agentd whether something goes on in the container: a turn, or a
// command that outlives the turn that started it, of which it returns how many there are. The process that a session
// was taken up from may have ended while it started the container, so that agentd does not listen yet.
func (s *Session) Working(ctx context.Context) (works bool, commands int, err error) {
	if s.resumed {
		if err := s.awaitSocket(ctx); err != nil {
			return false, 0, err
		}
	}
	health, err := s.client.Health(ctx)
	if err == nil && s.resumed { // the process before may have ended without telling it
		s.resumed = false
		s.changed(state.ContainerReady, state.ContainerChange{})
	}
	if err != nil {
		return false, 0, err
	}
	turn := health.ActiveTurns+health.QueuedTurns > 0
	if !turn && health.Status != turns.HealthReady {
		return false, 0, &Error{Code: CodeNotReady, Message: "agentd answers that it is " + health.Status}
	}
	n, err := s.Tasks(ctx)
	return turn || n > 0, n, err
}

// Client returns the client of the session's agentd. It may be used by other goroutines while a turn runs.
func (s *Session) Client() *client.Client { return s.client }

// Tasks asks agentd how many managed tasks run.
func (s *Session) Tasks(ctx context.Context) (n int, err error) {
	list, err := s.client.Tasks(ctx)
	if err != nil {
		return 0, err
	}
	for _, task := range list.Tasks {
		if !task.Status.Terminal() {
			n++
		}
	}
	return n, nil
}
