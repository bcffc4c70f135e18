package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"holon/responses"
	"holon/responses/turns"
	"holon/runner"
	"holon/runner/agent/record"
	"holon/runner/control/client"
	"holon/runner/control/wire"
	"holon/runner/workspace"
	"holon/test/load"
)

func (r *rig) openSession(ctx context.Context) *runner.Session {
	return r.startSession(ctx, r.session(r.newGateway()))
}

// timeTurn runs a turn and returns when its first event came, and when it ended.
func timeTurn(ctx context.Context, session *runner.Session) (first, total time.Duration) {
	watch := &firstEvent{began: time.Now()}
	turn := runner.NewTurn(responses.NewID(responses.PrefixTurn), "Say something.")
	turn.Limits().TimeoutMS = load.Patience.Milliseconds()
	result := session.Turn(ctx, turn, watch)
	total = time.Since(watch.began)
	load.Check(result.Err)
	if result.Response.Status != responses.StatusCompleted {
		load.Failf("the turn ended as %s: %v", result.Response.Status, result.Response.Error)
	}
	return watch.after, total
}

type firstEvent struct {
	began time.Time
	once  sync.Once
	after time.Duration
}

func (f *firstEvent) Event(responses.Event) { f.once.Do(func() { f.after = time.Since(f.began) }) }

func (f *firstEvent) Fact(turns.RuntimeEvent) {}

// measureRunningTurn is P3: what a turn costs before its first event when the
// container runs: alone, and with a working copy of its own made first.
func measureRunningTurn(ctx context.Context, r *rig) []row {
	session, relay := r.openSession(ctx), r.serveFloor(ctx, r.model).streamer()
	alone := compare(ctx, r.plan(300, 15, 0), relay, subject{"warm turn", func(ctx context.Context) []float64 {
		first, _ := timeTurn(ctx, session)
		return []float64{ms(first)}
	}})
	repo := r.newRepository(ctx, 5000)
	tree := repo.addTree(ctx)
	with := compare(ctx, r.plan(50, 3, 1),
		subject{"recycled tree and relay", func(ctx context.Context) []float64 {
			before := laps(func() { recycle(ctx, tree) })[0] + relay.sample(ctx)[0]
			repo.change(tree)
			return []float64{before}
		}},
		subject{"working copy and warm turn", func(ctx context.Context) []float64 {
			before, _ := repo.wholeTurn(ctx, session)
			return []float64{ms(before)}
		}})
	return []row{
		versus("P3", "warm turn, submit → first event", relayed, unitMS, alone[1][0], alone[0][0]).ratioGoal(3),
		versus("P3", "the same with a copy of 5,000 files first", "git reset, clean, then relay", unitMS, with[1][0],
			with[0][0]).ratioGoal(3),
	}
}

// wholeTurn is a turn from its working copy to its diff: what comes
// before its first event, and all. The session's
// container has no tree: what is measured is the work, not where it is mounted.
func (p *repository) wholeTurn(ctx context.Context, session *runner.Session) (before, all time.Duration) {
	var tree *workspace.Tree
	opened := timed(func() { tree = load.Must(load.Must(workspace.Open(ctx, p.workspace())).Acquire(ctx)) })
	var first, total time.Duration
	err := load.Guard(func() {
		first, total = timeTurn(ctx, session)
		p.change(tree.Dir())
	})
	after := timed(func() { p.finish(ctx, tree, err) })
	return opened + first, opened + total + after
}

// measureDecay is P16: whether turns become slower. A turn makes its working
// copy, runs in a warm container, changes files, is diffed and gives the copy
// back; its directories stay.
func measureDecay(ctx context.Context, r *rig) []row {
	session, repo := r.openSession(ctx), r.newRepository(ctx, 5000)
	repo.wholeTurn(ctx, session) // fills the copy
	took := make([]float64, r.samples(200, 60))
	for i := range took {
		load.Check(context.Cause(ctx))
		_, all := repo.wholeTurn(ctx, session)
		took[i] = ms(all)
	}
	const span = 20
	first, last := took[:span], took[len(took)-span:]
	return []row{versus("P16", fmt.Sprintf("%d turns in a row, 5,000 files: the last %d", len(took), span),
		fmt.Sprintf("the first %d", span), unitMS, []float64{median(last)}, []float64{median(first)}).ratioGoal(1.1)}
}

// arrival is an event as it came to a client.
type arrival struct {
	kind, message string
	at            time.Time
	err           error
}

// runningAgent is an agent of a daemon whose container runs, and a client that
// follows its events.
type runningAgent struct {
	serve  *load.Server
	events chan arrival
}

const agentName = "warm"

// measureRunningAgent is P3 and P26 of an agent that lives: from a message at the
// control plane to the first events at a client that follows them. Message, claim and
// begin are three transactions, each on disk before it is announced; the floor
// makes one record durable.
func measureRunningAgent(ctx context.Context, r *rig) []row {
	relay, agent := r.serveFloor(ctx, r.model), r.wakeAgent(ctx)
	got := compare(ctx, r.plan(300, 15, 0), relay.streamer(), subject{"warm agent", agent.ask})
	floor, ours := got[0][0], got[1]
	return []row{
		versus("P3", "warm agent, enqueue → first event at a client (message_admitted)", relayed, unitMS, ours[0],
			floor).ratioGoal(3),
		versus("P26", "the same → the message is claimed (queue latency)", relayed, unitMS, ours[1], floor),
		versus("P26", "the same → the turn's first event (turn_started)", relayed, unitMS, ours[2], floor).ratioGoal(6),
		versus("P26", "the same → the turn is settled", relayed, unitMS, ours[3], floor),
	}
}

// wakeAgent starts a daemon in front of the model and an agent that has answered, and follows its events.
func (r *rig) wakeAgent(ctx context.Context) *runningAgent {
	s := load.Must(load.New(load.Options{Dir: r.newDir(), Model: modelName, Engine: r.opts.docker,
		Env: append(r.environment(), "HOLON_IDLE_PAUSE=1h")}))
	r.later(func() (err error) {
		if s.PID() != 0 {
			err = s.End()
		}
		s.Close()
		return errors.Join(err, load.RemoveContainers(s.Home))
	})
	load.Check(s.Start(ctx))
	load.Check(s.Create(ctx, agentName))
	a := &runningAgent{serve: s, events: make(chan arrival, 64)}
	following, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() { defer close(done); a.follow(following) }()
	r.later(func() error { stop(); <-done; return nil })
	for range 3 { // the container is made, and what is done once is done
		a.ask(ctx)
	}
	return a
}

func (a *runningAgent) follow(ctx context.Context) {
	for item, err := range a.serve.Client.Follow(ctx, agentName, client.Follow{}) {
		h := arrival{at: time.Now(), err: err}
		if item.Event != nil {
			h.kind, h.message = item.Event.Type, item.Event.Provenance.MessageID
		}
		select {
		case a.events <- h:
		case <-ctx.Done():
			return
		}
	}
}

// ask gives the agent a message and returns when the client got the events that it was
// admitted, claimed, begun and settled.
func (a *runningAgent) ask(ctx context.Context) []float64 {
	ctx, cancel := context.WithTimeoutCause(ctx, load.Patience, errors.New("the agent's turn does not end"))
	defer cancel()
	began := time.Now()
	m := load.Must(a.serve.Client.Enqueue(ctx, agentName, wire.Enqueue{Text: "Say something."}, ""))
	steps := []string{record.MessageAdmitted, record.MessageStarted, record.TurnStarted, record.QueueEntrySettled}
	took := make([]float64, 0, len(steps))
	for len(took) < len(steps) {
		select {
		case h := <-a.events:
			load.Check(h.err)
			if h.message == m.MessageID && h.kind == steps[len(took)] {
				took = append(took, ms(h.at.Sub(began)))
			}
		case <-ctx.Done():
			load.Check(context.Cause(ctx))
		}
	}
	status := load.Must(a.serve.Client.Message(ctx, agentName, m.MessageID))
	if status.Entry.Status != "processed" {
		load.Failf("the turn's message is %s: %s", status.Entry.Status, status.Entry.Reason)
	}
	return took
}
