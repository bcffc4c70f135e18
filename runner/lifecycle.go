package runner

import (
	"context"
	"fmt"
	"strings"
	"time"

	"holon/runner/engine"
	"holon/state"
)

// Phase is how far a container is.
type Phase string

// The phases of a container, in their order. One that is Lost is not known to its engine any more, or ended without
// anything watching it. Removed follows Exited, or comes alone when a container is removed by force.
const (
	Created Phase = "created"
	Started Phase = "started"
	Ready   Phase = "ready" // agentd answers
	Exited  Phase = "exited"
	Lost    Phase = "lost"
	Removed Phase = "removed"
)

// ContainerChange tells that a container has come to a phase. A process that takes up a container tells again how it
// was created and started.
type ContainerChange struct {
	Phase     Phase
	ID        string // the engine's
	Image     string
	ImageID   string           // digest, from Started on
	Runtime   string           // likewise
	Isolation *state.Isolation // likewise; nil before
	Exit      *engine.Exit     // of Exited
	Reason    string           // of Lost
}

// tell tells Config.OnContainer of a change of the session's container.
func (s *Session) tell(c ContainerChange) {
	if s.cfg.OnContainer == nil {
		return
	}
	c.Image = s.cfg.Image
	if c.ID == "" {
		c.ID = s.handle.ID
	}
	s.cfg.OnContainer(c)
}

// tellStarted tells what the engine says of a container that was started.
func (s *Session) tellStarted(found engine.State) {
	s.tell(ContainerChange{Phase: Started, ImageID: found.ImageID, Runtime: found.Runtime, Isolation: &found.Isolation})
}

// ended notes how the container ended.
func (s *Session) ended(exit engine.Exit) {
	s.exit = &exit
	if exit.Code < 0 {
		s.tell(ContainerChange{Phase: Lost, Reason: exit.Error})
		return
	}
	s.tell(ContainerChange{Phase: Exited, Exit: &exit})
}

// diedError explains the end of a container that should still run.
func (s *Session) diedError(ctx context.Context, message string) error {
	e := &Error{Code: CodeContainerGone, Message: message}
	if s.cfg.Engine.Name() == "local" { // which makes no container
		e.Message = strings.Replace(message, "the container", "agentd", 1)
	}
	if s.exit == nil {
		return e
	}
	if s.exit.Code >= 0 { // a process that was killed without anybody waiting for it leaves none
		e.Message += fmt.Sprintf(" (exit code %d)", s.exit.Code)
	}
	switch {
	case s.exit.Code == state.OutcomeRefused.ExitCode():
		e.Code = CodeAgentdRefused
	case s.exit.OOMKilled:
		e.Message, e.Hint = "the container ran out of memory", "raise --memory"
	case s.exit.Code == 137:
		e.Hint = "something killed the container; if its memory was short, raise --memory"
	}
	if s.exit.Code < 0 || s.exit.Code > 128 {
		return e // a signal ended it, so that its log cannot say why
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if logs, err := s.cfg.Engine.Logs(ctx, s.handle, 4<<10); err == nil {
		line := lastComplaint(logs)
		if wrong := wrongFlag(line, s.cfg.MCPConfig); wrong != nil && s.exit.Code == 2 {
			return wrong
		}
		if line != "" {
			e.Message += ": " + line
		}
	}
	return e
}
