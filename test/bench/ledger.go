package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"holon/responses"
	"holon/state/ledger"
	"holon/state/sqlite"
)

// measureQueue is P13: a message through the queue in three durable steps, and
// many producers that tell of progress at once.
func measureQueue(ctx context.Context, r *rig) (_ []row, err error) {
	end := r.scope()
	defer func() { err = errors.Join(err, end()) }()
	ours, err := r.openLedger(ctx, producers)
	if err != nil {
		return nil, err
	}
	floor, err := r.openTables(ctx)
	if err != nil {
		return nil, err
	}
	n := r.perRound(1000, 30)
	steps, err := compare(ctx, plan{rounds: r.opts.rounds, samples: n, block: 10},
		subject{"bare statements", floor.through}, subject{"ledger", ours.through})
	if err != nil {
		return nil, err
	}
	events := r.samples(20_000, 2_000)
	rates, err := compareLoads(ctx, r.opts.rounds,
		load{"bare inserts", func(ctx context.Context) ([]float64, error) { return floor.tell(ctx, events) }},
		load{"ledger", func(ctx context.Context) ([]float64, error) { return ours.tell(ctx, events) }})
	if err != nil {
		return nil, err
	}
	return []row{
		timed("P13", "a message: admitted, claimed, settled", "insert, claim, update, durable", steps[1], steps[0],
			0).ratioGoal(1.3),
		loaded("P13", "64 producers, an event at a time", "the same rows, 64 to a commit", unitRate, rates[1], rates[0],
			0).leastGoal(0.6),
	}, nil
}

// manyEvents and fewEvents are the sizes of the ledgers of P14.
const manyEvents, fewEvents = 1_000_000, 10_000

// measureEvents is P14: what a long history costs.
func measureEvents(ctx context.Context, r *rig) (_ []row, err error) {
	end := r.scope()
	defer func() { err = errors.Join(err, end()) }()
	var subjects []subject
	for _, size := range []int{fewEvents, r.samples(manyEvents, 2*fewEvents)} {
		l, err := r.openLedger(ctx, 1)
		if err != nil {
			return nil, err
		}
		for range size / 1000 {
			if err := l.append(ctx, l.agents[0], 1000); err != nil {
				return nil, err
			}
		}
		subjects = append(subjects, subject{fmt.Sprint(size, " events"), l.readAndAppend})
	}
	n := r.perRound(1000, 30)
	got, err := compare(ctx, plan{rounds: r.opts.rounds, samples: n, block: 10}, subjects...)
	if err != nil {
		return nil, err
	}
	few, many := got[0], got[1]
	const against = "with 10 k"
	return []row{
		timed("P14", "append an event to 1 M", against, many, few, 0).ratioGoal(1.2),
		timed("P14", "a page of 500 of 1 M", against, many, few, 1).absoluteGoal(0.6),
		timed("P14", "the newest 50 of 1 M", against, many, few, 2).absoluteGoal(0.08),
	}, nil
}

// book is a ledger that is measured.
type book struct {
	store  ledger.Store
	agents []string
	read   int64 // number after which the next page is read
}

// openLedger makes a ledger with agents.
func (r *rig) openLedger(ctx context.Context, agents int) (*book, error) {
	dir, err := r.newDir()
	if err != nil {
		return nil, err
	}
	store, err := sqlite.Open(ctx, sqlite.Options{Path: filepath.Join(dir, "ledger.db")})
	if err != nil {
		return nil, err
	}
	r.later(store.Close)
	b := &book{store: store}
	return b, store.Update(ctx, func(tx ledger.Tx) error {
		for range agents {
			id := responses.NewID("agent_")
			b.agents = append(b.agents, id)
			if err := tx.InsertAgent(ledger.Agent{ID: id}, ledger.AgentState{AgentID: id}); err != nil {
				return err
			}
		}
		return nil
	})
}

// event is one like those that tell of a tool.
func event() ledger.Event {
	return ledger.Event{
		ID: responses.NewID(responses.PrefixEvent), CreatedAt: time.Now(), Type: "tool_executed", Level: 4,
		TurnID: "turn_01kamq0000000000000000000", Data: []byte(`{"tool":"exec_command","round":12,"duration_ms":431}`),
	}
}

// step is one update of an agent: fn, one event, the lane.
func (b *book) step(ctx context.Context, fn func(tx ledger.Tx, l *ledger.AgentState) error) error {
	return b.store.Update(ctx, func(tx ledger.Tx) error {
		l, err := tx.AgentState(b.agents[0])
		if err != nil {
			return err
		}
		if err := fn(tx, &l); err != nil {
			return err
		}
		if err := tx.Append(&l, event()); err != nil {
			return err
		}
		return tx.SaveAgentState(&l)
	})
}

// through is the life of a message in three steps, as runner/agent/scheduler makes
// them.
func (b *book) through(ctx context.Context) ([]time.Duration, error) {
	began := time.Now()
	err := errors.Join(b.step(ctx, b.admit), b.step(ctx, b.claim), b.step(ctx, b.settle))
	return []time.Duration{time.Since(began)}, err
}

func (b *book) admit(tx ledger.Tx, l *ledger.AgentState) error {
	l.Admitted++
	now := time.Now()
	m := ledger.Message{
		ID: responses.NewID(responses.PrefixMessage), AgentID: l.AgentID, Number: l.Admitted, CreatedAt: now,
		Kind:     ledger.KindOperatorPrompt,
		Priority: ledger.Normal, Body: ledger.Body{Type: "text", Text: prompt},
	}
	return tx.InsertMessage(m, ledger.Entry{MessageID: m.ID, AgentID: m.AgentID, Number: m.Number, Priority: m.Priority,
		Status: ledger.Queued, CreatedAt: now, UpdatedAt: now})
}

func (b *book) claim(tx ledger.Tx, l *ledger.AgentState) error {
	e, ok, err := tx.Head(l.AgentID)
	if err != nil || !ok {
		return errors.Join(err, errors.New("the queue has no head"))
	}
	l.Turns++
	a := ledger.Attempt{ID: responses.NewID("att_"), AgentID: l.AgentID, MessageID: e.MessageID,
		TurnID: responses.NewID(responses.PrefixTurn), TurnIndex: l.Turns, Status: ledger.AttemptOpen,
		StartedAt: time.Now()}
	e.Status, e.AttemptID = ledger.Dequeued, a.ID
	return errors.Join(tx.UpdateEntry(e), tx.InsertAttempt(a))
}

func (b *book) settle(tx ledger.Tx, l *ledger.AgentState) error {
	a, ok, err := tx.OpenAttempt(l.AgentID)
	if err != nil || !ok {
		return errors.Join(err, errors.New("no attempt is open"))
	}
	held, err := tx.Held(a.ID)
	if err != nil || len(held) != 1 {
		return errors.Join(err, fmt.Errorf("the attempt holds %d entries", len(held)))
	}
	held[0].Status = ledger.Processed
	a.Status = ledger.AttemptSettled
	t := ledger.Turn{ID: a.TurnID, AgentID: a.AgentID, Index: a.TurnIndex, AttemptID: a.ID, MessageID: a.MessageID,
		Kind: ledger.TurnCompleted, Last: prompt, StartedAt: a.StartedAt, CompletedAt: time.Now()}
	return errors.Join(tx.UpdateEntry(held[0]), tx.UpdateAttempt(a), tx.InsertTurn(t))
}

func (b *book) append(ctx context.Context, agentID string, n int) error {
	return b.store.Update(ctx, func(tx ledger.Tx) error {
		l, err := tx.AgentState(agentID)
		if err != nil {
			return err
		}
		for range n {
			if err := tx.Append(&l, event()); err != nil {
				return err
			}
		}
		return tx.SaveAgentState(&l)
	})
}

// producers is how many append at once in P13, each for an agent of its own.
const producers = 64

// tell has all producers append events, one an update, and returns the rate.
func (b *book) tell(ctx context.Context, events int) ([]float64, error) {
	_, all, err := parallel(ctx, events, producers, func(ctx context.Context, n int) error {
		return b.append(ctx, b.agents[n%producers], 1)
	})
	return []float64{float64(events) / all.Seconds()}, err
}

// readAndAppend times an append, a page somewhere in the history, and its end.
func (b *book) readAndAppend(ctx context.Context) ([]time.Duration, error) {
	var watch stopwatch
	err := watch.time(func() error { return b.append(ctx, b.agents[0], 1) })
	for _, q := range []ledger.EventQuery{{After: b.read, Limit: 500}, {Limit: 50, Descending: true}} {
		err = errors.Join(err, watch.time(func() error {
			return b.store.View(ctx, func(v ledger.View) error {
				page, err := v.Events(b.agents[0], q)
				if err == nil && len(page.Events) != q.Limit {
					err = fmt.Errorf("a page of %d events has %d", q.Limit, len(page.Events))
				}
				b.read = (b.read + 7919) % max(page.Newest-500, 1) // all over the history
				return err
			})
		}))
	}
	return watch.laps, err
}
