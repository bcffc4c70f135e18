package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"holon/runner/agent/scheduler"
	"holon/runner/control/wire"
	"holon/state"
)

// fault is a fault of a daemon of agents or of one agent. Everything random in it
// was drawn before.
type fault struct {
	name   string
	weight int
	agent  string        // the victim; "": the daemon, and so all agents
	wait   time.Duration // between its parts
	twice  bool          // the fault repeats during the recovery
	inject func(ctx context.Context, w *world, b fault) error
}

// daemonFaults concern all agents.
var daemonFaults = []fault{
	{name: "kill holon", weight: 10, inject: killServe},
	{name: "kill holon and remove its containers", weight: 4, inject: killAll},
	{name: "SIGTERM", weight: 4, inject: restart},
	{name: "cut the engine off", weight: 2, inject: cutEngine},
	{name: "stop holon for a while", weight: 1, inject: freeze},
}

// agentFaults concern one.
var agentFaults = []fault{
	{name: "kill agentd", weight: 5, inject: killAgentd},
	{name: "docker kill", weight: 3, inject: docker("kill")},
	{name: "docker rm", weight: 4, inject: docker("rm", "-f")},
	{name: "docker stop", weight: 1, inject: docker("stop", "--time", "1")},
	{name: "docker restart", weight: 1, inject: docker("restart", "--time", "1")},
	{name: "docker pause", weight: 3, inject: pauseContainer},
	{name: "abort", weight: 4, inject: abort},
	{name: "abort and stop", weight: 2, inject: abortAndStop},
	{name: "stop and start", weight: 3, inject: stopAndStart},
	{name: "nothing", weight: 1, inject: func(context.Context, *world, fault) error { return nil }},
}

// drawFaults draws one fault of the daemon, or some of agents.
func (w *world) drawFaults() []fault {
	if w.r.chance(2) {
		return []fault{w.r.drawFault(daemonFaults)}
	}
	var faults []fault
	first := w.r.rng.IntN(len(w.agents))
	for i := range 1 + w.r.rng.IntN(3) {
		b := w.r.drawFault(agentFaults)
		b.agent = w.agents[(first+i)%len(w.agents)]
		faults = append(faults, b)
	}
	return faults
}

func (r *round) drawFault(from []fault) fault {
	sum := 0
	for _, b := range from {
		sum += b.weight
	}
	at := r.rng.IntN(sum)
	for _, b := range from {
		if at -= b.weight; at < 0 {
			b.wait, b.twice = r.upTo(700*time.Millisecond), r.chance(3)
			return b
		}
	}
	return from[0]
}

func namesOfFaults(faults []fault) (all []string) {
	for _, b := range faults {
		all = append(all, strings.TrimSpace(fmt.Sprintf("%s (%s, %v) %s", b.name, b.wait, b.twice, b.agent)))
	}
	return all
}

// killServe kills the daemon, and at times the one that recovers from it.
func killServe(ctx context.Context, w *world, b fault) error {
	w.serve.Kill()
	if b.twice {
		if err := w.serve.Launch(); err != nil {
			return err
		}
		if err := pause(ctx, b.wait); err != nil {
			return err
		}
		w.serve.Kill()
	} else if err := pause(ctx, b.wait/2); err != nil {
		return err
	}
	return w.serve.Start(ctx)
}

// killAll kills the daemon and all containers, as a machine does that goes down.
func killAll(ctx context.Context, w *world, _ fault) error {
	w.serve.Kill()
	_ = w.serve.RemoveContainers() // one may be about to go; another that is about to come is found by the daemon
	return w.serve.Start(ctx)
}

func restart(ctx context.Context, w *world, _ fault) error {
	if err := w.serve.End(); err != nil {
		return err
	}
	return w.serve.Start(ctx)
}

func cutEngine(ctx context.Context, w *world, b fault) error {
	w.engine.cut(true)
	err := pause(ctx, 2*b.wait)
	w.engine.cut(false)
	return err
}

func freeze(ctx context.Context, w *world, b fault) error {
	if err := syscall.Kill(w.serve.PID(), syscall.SIGSTOP); err != nil {
		return err
	}
	err := pause(ctx, 3*b.wait)
	return errors.Join(err, syscall.Kill(w.serve.PID(), syscall.SIGCONT))
}

// docker does something to the containers of an agent, if it has any now.
func docker(args ...string) func(ctx context.Context, w *world, b fault) error {
	return func(ctx context.Context, w *world, b fault) error {
		ids, err := w.serve.Containers(ctx, b.agent)
		if err != nil || len(ids) == 0 {
			return err
		}
		// it may be gone, or not started yet
		_ = exec.CommandContext(ctx, "docker", append(args[:len(args):len(args)], ids...)...).Run()
		return nil
	}
}

// pauseContainer holds the container still for a while, under the daemon.
func pauseContainer(ctx context.Context, w *world, b fault) error {
	if err := docker("pause")(ctx, w, b); err != nil {
		return err
	}
	if err := pause(ctx, 2*b.wait); err != nil {
		return err
	}
	return docker("unpause")(ctx, w, b)
}

// killAgentd kills the first process of the container, which is agentd or the
// little program that starts it.
func killAgentd(ctx context.Context, w *world, b fault) error {
	ids, err := w.serve.Containers(ctx, b.agent)
	if err != nil {
		return err
	}
	for _, id := range ids {
		out, err := exec.CommandContext(ctx, "docker", "inspect", "--format", "{{.State.Pid}}", id).Output()
		if err != nil {
			continue // gone
		}
		if pid, err := strconv.Atoi(strings.TrimSpace(string(out))); err == nil && pid > 1 {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
		}
	}
	return nil
}

// abort ends the turn that runs, if one does.
func abort(ctx context.Context, w *world, b fault) error {
	_, err := w.serve.Client.Abort(ctx, b.agent, wire.Abort{})
	return expect(err, scheduler.CodeNoRun)
}

// abortAndStop ends the turn that runs and stops the agent, which starts again.
func abortAndStop(ctx context.Context, w *world, b fault) error {
	_, err := w.serve.Client.Abort(ctx, b.agent, wire.Abort{Mode: scheduler.StopAfterAbort})
	if err := expect(err, scheduler.CodeNoRun); err != nil {
		return err
	}
	if err := pause(ctx, b.wait); err != nil {
		return err
	}
	// An agent may be stopped only when its turn has ended, which is later.
	if err := w.settled(ctx, b.agent); err != nil {
		return err
	}
	_, err = w.serve.Client.Start(ctx, b.agent)
	return err
}

// settled waits until no turn of an agent is being aborted.
func (w *world) settled(ctx context.Context, agent string) error {
	return eventually(ctx, patience, func() error {
		s, err := w.serve.Client.Status(ctx, agent)
		if err == nil && s.Agent.Status != "stopped" && s.Agent.CurrentRunID != "" {
			err = fmt.Errorf("%s still runs %s", agent, s.Agent.CurrentRunID)
		}
		return err
	})
}

func stopAndStart(ctx context.Context, w *world, b fault) error {
	if _, err := w.serve.Client.Stop(ctx, b.agent, false); err != nil {
		return err
	}
	if err := pause(ctx, b.wait); err != nil {
		return err
	}
	_, err := w.serve.Client.Start(ctx, b.agent)
	return err
}

func expect(err error, code state.Code) error {
	if state.IsCode(err, code) {
		return nil
	}
	return err
}
