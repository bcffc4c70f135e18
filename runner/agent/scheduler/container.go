package scheduler

import (
	"context"
	"slices"

	"holon/responses"
	"holon/runner/agent/record"
	"holon/state"
	"holon/state/ledger"
)

// containerPhases are the phases of a container in their order.
var containerPhases = []state.ContainerPhase{state.ContainerCreated, state.ContainerStarted, state.ContainerReady,
	state.ContainerExited, state.ContainerLost, state.ContainerRemoved}

// containerEvent is the id of the event with which a container was created, which is the cause of what follows.
func containerEvent(agentID, containerID string) string {
	return derivedID(responses.PrefixEvent, "container", agentID, containerID)
}

// ContainerChanged records what becomes of the container of an agent, each thing once: what the record has already
// changes nothing. A container whose end was not recorded is lost when another one is created, for an agent has one at
// most. A change of an agent that the ledger does not have is left out.
func (m *Scheduler) ContainerChanged(ctx context.Context, agentID string, c state.ContainerChange) error {
	err := m.step(ctx, agentID, func(s *step) error {
		held := s.state.Container
		switch known := held != nil && held.ID == c.ID; {
		case known && slices.Index(containerPhases, c.Phase) <= slices.Index(containerPhases, held.Phase):
			return nil
		case known && c.Phase == state.ContainerLost && held.Phase == state.ContainerExited:
			c.Phase = state.ContainerRemoved // how it ended is known
		case !known && c.Phase != state.ContainerCreated:
			s.emitContainer(c, "") // one that was left over, which the agent did not get
			return nil
		case !known:
			s.containerCreated(c)
			return nil
		}
		s.emitContainer(c, containerEvent(agentID, c.ID))
		s.state.Container = &c.HeldContainer
		return nil
	})
	if state.IsCode(err, ledger.CodeNotFound) {
		return nil
	}
	return err
}

// containerCreated records that the agent has another container.
func (s *step) containerCreated(c state.ContainerChange) {
	if held := s.state.Container; held != nil && !ended(held.Phase) {
		s.emitContainer(state.ContainerChange{HeldContainer: state.HeldContainer{ID: held.ID, Phase: state.ContainerLost},
			Reason: "its end was not seen, and the agent has another one"}, containerEvent(s.state.AgentID, held.ID))
	}
	cause := ""
	if a, open := s.openAttempt(); open {
		cause = submittedEvent(a.ID)
	}
	s.cause = "" // it is not made because the one before is lost
	s.emitContainer(c, cause)
	s.state.Container = &c.HeldContainer
}

// ended reports whether a container runs no more.
func ended(p state.ContainerPhase) bool {
	return slices.Index(containerPhases, p) >= slices.Index(containerPhases, state.ContainerExited)
}

func (s *step) emitContainer(c state.ContainerChange, cause string) {
	e := ledger.Event{Cause: cause}
	f := fields{"container_id": clip(c.ID), "engine": c.Engine, "reason": clip(c.Reason)}
	switch c.Phase {
	case state.ContainerCreated:
		e.ID, f["image"] = containerEvent(s.state.AgentID, c.ID), clip(c.Image)
	case state.ContainerStarted:
		f["image"], f["image_digest"], f["runtime"] = clip(c.Image), clip(c.Digest), clip(c.Runtime)
		if in := c.Isolation; in != nil {
			f["network"], f["mounts"] = clip(in.Network.Value), clip(in.Mounts.Value)
			f["limits"] = fields{"memory": in.Memory.Value, "cpu": in.CPU.Value, "pids": in.Pids.Value}
		}
	case state.ContainerExited:
		f["exit_code"], f["oom_killed"] = c.ExitCode, c.OOMKilled
	}
	s.emit(record.ContainerEvent(c.Phase), e, f)
}
