package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"holon/runner/agent/rules"
	"holon/runner/control/client"
	"holon/runner/control/wire"
	"holon/test/longlived"
)

// heard is an event as it came to a client.
type heard struct {
	kind, message string
	at            time.Time
	err           error
}

// warmAgent is an agent of a daemon whose container runs, and a client that
// follows its events.
type warmAgent struct {
	serve  *longlived.Server
	name   string
	events chan heard
}

// measureWarmAgent is P3 of an agent that lives: from a message at the control
// plane to the first events at a client that follows them. Message, claim and
// begin are three transactions that are on disk before they are told; the floor
// makes one record durable.
func measureWarmAgent(ctx context.Context, r *rig) (_ []row, err error) {
	end := r.scope()
	defer func() { err = errors.Join(err, end()) }()
	relay, err := r.serveRelay(ctx)
	if err != nil {
		return nil, err
	}
	r.later(relay.stop)
	a, err := r.wakeAgent(ctx)
	if err != nil {
		return nil, err
	}
	n := r.perRound(300, 15)
	figures, err := compare(ctx, plan{rounds: r.opts.rounds, samples: n, block: n}, r.streamer("relay", relay),
		subject{"warm agent", a.ask})
	if err != nil {
		return nil, err
	}
	floor, ours := figures[0], figures[1]
	against := func(part int, what string) row {
		return row{ID: "P3", What: what, Against: "relay, durable", Unit: unitMS, Floor: ms(floor.of(0)),
			Ours: ms(ours.of(part)), Ratio: ratio(ours[part], floor[0])}
	}
	return []row{
		against(0, "warm agent, enqueue → first event at a client (message_admitted)").ratioGoal(3),
		against(1, "the same → the message is claimed (queue latency)"),
		against(2, "the same → the turn's first event (turn_started)").ratioGoal(3),
		against(3, "the same → the turn is settled"),
	}, nil
}

// serveAgents starts a daemon in front of the model.
func (r *rig) serveAgents(ctx context.Context) (*longlived.Server, error) {
	dir, err := r.newDir()
	if err != nil {
		return nil, err
	}
	holon, err := filepath.Abs(r.opts.holon)
	if err == nil {
		_, err = os.Stat(holon)
	}
	if err != nil {
		return nil, fmt.Errorf("-holon: %w; build it with make build", err)
	}
	s, err := longlived.New(longlived.Options{
		Dir: dir, Bin: filepath.Dir(holon), Model: modelName, Engine: r.opts.docker,
		Env: []string{"HOLON_IMAGE=" + r.image, "HOLON_AGENTD=" + r.agentd, "OPENAI_BASE_URL=" + r.model,
			"OPENAI_API_KEY=sk-bench-0123456789abcdef", "HOLON_IDLE_PAUSE=1h"},
	})
	if err != nil {
		return nil, err
	}
	r.later(func() (err error) {
		if s.PID() != 0 {
			err = s.End()
		}
		s.Close()
		return errors.Join(err, s.RemoveContainers())
	})
	return s, s.Start(ctx)
}

// wakeAgent makes an agent that has answered, and follows its events.
func (r *rig) wakeAgent(ctx context.Context) (*warmAgent, error) {
	s, err := r.serveAgents(ctx)
	if err != nil {
		return nil, err
	}
	a := &warmAgent{serve: s, name: "warm", events: make(chan heard, 64)}
	if err := s.Create(ctx, a.name); err != nil {
		return nil, err
	}
	following, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() { defer close(done); a.follow(following) }()
	r.later(func() error { stop(); <-done; return nil })
	for range 3 { // the container is made, and what is done once is done
		if _, err := a.ask(ctx); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// follow hands on the events that are measured.
func (a *warmAgent) follow(ctx context.Context) {
	for item, err := range a.serve.Client.Follow(ctx, a.name, client.Follow{}) {
		h := heard{at: time.Now(), err: err}
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

// ask gives the agent a message and returns when the client heard that it was
// admitted, claimed, begun and settled.
func (a *warmAgent) ask(ctx context.Context) ([]time.Duration, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errors.New("the agent's turn does not end"))
	defer cancel()
	began := time.Now()
	m, err := a.serve.Client.Enqueue(ctx, a.name, wire.Enqueue{Text: "Say something."}, "")
	if err != nil {
		return nil, err
	}
	steps := []string{rules.MessageAdmitted, rules.MessageStarted, rules.TurnStarted, rules.QueueEntrySettled}
	took := make([]time.Duration, 0, len(steps))
	for len(took) < len(steps) {
		select {
		case h := <-a.events:
			if h.err != nil {
				return nil, h.err
			}
			if h.message == m.MessageID && h.kind == steps[len(took)] {
				took = append(took, h.at.Sub(began))
			}
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	status, err := a.serve.Client.Message(ctx, a.name, m.MessageID)
	if err == nil && status.Entry.Status != "processed" {
		err = fmt.Errorf("the turn's message is %s: %s", status.Entry.Status, status.Entry.Reason)
	}
	return took, err
}
