package pool

import (
	"context"
	"time"

	"holon/runner"
	"holon/runner/sessions"
	"holon/state/ledger"
)

// Changes receives what becomes of the containers of agents: *scheduler.Scheduler.
type Changes interface {
	ContainerChanged(ctx context.Context, agentID string, c ledger.ContainerChange) error
}

// changeTime bounds how long it may take to record a change. What could not be recorded is made up for when the
// container is taken up, or the agent gets another one.
const changeTime = 10 * time.Second

// recordChange records what became of the container of an agent.
func (k *Pool) recordChange(agentID string, c runner.ContainerChange) {
	change := ledger.ContainerChange{
		HeldContainer: ledger.HeldContainer{ID: c.ID, Phase: ledger.ContainerPhase(c.Phase)},
		Engine:        k.opts.Engine.Name(), Image: c.Image, Digest: c.ImageID, Runtime: c.Runtime,
		Isolation: c.Isolation, Reason: k.opts.Secrets.Text(c.Reason),
	}
	if c.Exit != nil {
		change.ExitCode, change.OOMKilled = c.Exit.Code, c.Exit.OOMKilled
	}
	k.change(agentID, change)
}

func (k *Pool) change(agentID string, c ledger.ContainerChange) {
	if k.opts.Changes == nil {
		return
	}
	// what happened to a container is recorded however the call ends in which it did
	ctx, cancel := context.WithTimeout(context.Background(), changeTime)
	defer cancel()
	if err := k.opts.Changes.ContainerChanged(ctx, agentID, c); err != nil {
		k.opts.Log.Warn("what became of a container is not recorded", "agent", agentID, "container", c.ID,
			"phase", c.Phase, "err", err)
	}
}

// removeLeft removes a container of an agent that no session holds.
func (k *Pool) removeLeft(l sessions.Leftover, remove func() error) error {
	err := remove()
	if err == nil {
		k.change(l.Agent, ledger.ContainerChange{
			HeldContainer: ledger.HeldContainer{ID: l.ID, Phase: ledger.ContainerRemoved},
			Engine:        k.opts.Engine.Name(), Reason: "no process held it"})
	}
	return err
}
