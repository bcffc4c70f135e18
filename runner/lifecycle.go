package runner

import (
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
