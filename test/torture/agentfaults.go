package main

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"time"

	"holon/runner/agent/scheduler"
	"holon/runner/control/wire"
	"holon/state"
	"holon/test/load"
)

// fault is a fault of a daemon of agents or of one agent. Everything random in it
// was drawn before.
type fault struct {
	name   string
	weight int
	inject func(ctx context.Context, w *world, b fault)

	agent string        // the victim; "": the daemon, and so all agents
	wait  time.Duration // between its parts
	twice bool          // the fault repeats during the recovery
}

var daemonFaults = []fault{
	{name: "kill holon", weight: 10, inject: killServe},
	{name: "kill holon and remove its containers", weight: 4, inject: killAll},
	{name: "SIGTERM", weight: 4, inject: restart},
	{name: "cut the engine off", weight: 2, inject: cutEngine},
	{name: "stop holon for a while", weight: 1, inject: freeze},
}

// agentFaults are those of one agent, with those of its containers.
var agentFaults = []fault{
	{name: "abort", weight: 4, inject: func(ctx context.Context, w *world, b fault) { w.abort(ctx, b, wire.Abort{}) }},
	{name: "abort and stop", weight: 2, inject: abortAndStop},
	{name: "stop and start", weight: 3, inject: stopAndStart},
	{name: "nothing", weight: 1, inject: func(context.Context, *world, fault) {}},
}

func (w *world) drawFaults() []fault {
	if w.r.chance(2) {
		return []fault{w.r.drawFault(daemonFaults)}
	}
	var faults []fault
	list := append(w.place.faults(), agentFaults...)
	first := w.r.rng.IntN(len(w.agents))
	for i := range 1 + w.r.rng.IntN(3) {
		b := w.r.drawFault(list)
		b.agent = w.agents[(first+i)%len(w.agents)]
		faults = append(faults, b)
	}
	return faults
}

func (r *round) drawFault(from []fault) fault {
	b := drawWeighted(r.rng, from, func(b fault) int { return b.weight })
	b.wait, b.twice = r.upTo(700*time.Millisecond), r.chance(3)
	return b
}

func namesOfFaults(faults []fault) (all []string) {
	for _, b := range faults {
		all = append(all, strings.TrimSpace(fmt.Sprintf("%s (%s, %v) %s", b.name, b.wait, b.twice, b.agent)))
	}
	return all
}

// killServe kills the daemon, and at times the one that recovers from it.
func killServe(ctx context.Context, w *world, b fault) {
	w.serve.Kill()
	if b.twice {
		load.Check(w.serve.Launch())
		pause(ctx, b.wait)
		w.serve.Kill()
	} else {
		pause(ctx, b.wait/2)
	}
	load.Check(w.serve.Start(ctx))
}

// killAll kills the daemon and all containers, as a machine does that goes down.
func killAll(ctx context.Context, w *world, _ fault) {
	w.serve.Kill()
	_ = w.place.remove(w.serve.Home) // one may be about to go; the daemon finds another that is about to come
	load.Check(w.serve.Start(ctx))
}

func restart(ctx context.Context, w *world, _ fault) {
	load.Check(w.serve.End())
	load.Check(w.serve.Start(ctx))
}

func cutEngine(ctx context.Context, w *world, b fault) {
	w.engine.cut(true)
	defer w.engine.cut(false)
	pause(ctx, 2*b.wait)
}

func freeze(ctx context.Context, w *world, b fault) {
	load.Check(syscall.Kill(w.serve.PID(), syscall.SIGSTOP))
	defer func() { _ = syscall.Kill(w.serve.PID(), syscall.SIGCONT) }() // if it cannot go on, nothing gets quiet
	pause(ctx, 3*b.wait)
}

func (w *world) abort(ctx context.Context, b fault, how wire.Abort) {
	if _, err := w.serve.Client.Abort(ctx, b.agent, how); !state.IsCode(err, scheduler.CodeNoRun) {
		load.Check(err)
	}
}

// abortAndStop ends the turn that runs and stops the agent, which starts again.
func abortAndStop(ctx context.Context, w *world, b fault) {
	w.abort(ctx, b, wire.Abort{Mode: scheduler.StopAfterAbort})
	pause(ctx, b.wait)
	// An agent may be stopped only when its turn has ended, which is later.
	load.Check(load.Eventually(ctx, load.Patience, func() error {
		s, err := w.serve.Client.Status(ctx, b.agent)
		if err == nil && s.Agent.Status != "stopped" && s.Agent.CurrentRunID != "" {
			err = fmt.Errorf("%s still runs %s", b.agent, s.Agent.CurrentRunID)
		}
		return err
	}))
	load.Must(w.serve.Client.Control(ctx, b.agent, wire.Control{Action: "start"}))
}

func stopAndStart(ctx context.Context, w *world, b fault) {
	load.Must(w.serve.Client.Control(ctx, b.agent, wire.Control{Action: "stop"}))
	pause(ctx, b.wait)
	load.Must(w.serve.Client.Control(ctx, b.agent, wire.Control{Action: "start"}))
}
