package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"holon/state/ledger"
	"holon/test/load"
	"holon/test/torture/check"
)

type world struct {
	r         *round
	serve     *load.Server
	place     place
	engine    *proxy // the way to it
	agents    []string
	listeners map[string]*load.Listener
	woken     map[string]int               // wakes that an agent acknowledged
	number    int                          // of letters, makes their keys
	words     []load.Word                  // that letters say
	simple    load.Word                    // that any agent can do
	also      func() func(context.Context) // draws what is done besides
}

// playAgents lets agents live through some rounds, and their daemon end. The rounds share
// a home, so that what one left behind breaks the next.
func playAgents(ctx context.Context, r *round) {
	w := r.newWorld(ctx, 4, nil, "HOLON_IDLE_PAUSE="+one(r, "200ms", "1m"), "HOLON_IDLE_STOP="+one(r, "1s", "15m"),
		"HOLON_MAX_CONTAINERS="+one(r, "2", "16"))
	r.rounds = 0
	for n := range r.lab.strikes {
		r.tell("strike %d", n)
		r.rounds++
		w.guard(func() { w.strike(ctx) })
	}
	w.guard(func() { w.answers(ctx) })
	w.end(ctx)
}

// guard adds what the daemon printed to an error.
func (w *world) guard(job func()) {
	if err := load.Guard(job); err != nil {
		load.Failf("%w\n%s", err, w.serve.Tail())
	}
}

func (r *round) newWorld(ctx context.Context, agents int, repositories []string, env ...string) *world {
	w := &world{r: r, place: r.lab.place, listeners: make(map[string]*load.Listener), woken: make(map[string]int),
		words: append(load.Words(), load.Idle), simple: load.Run}
	w.also = w.drawOperator
	r.tell("settings %s", strings.Join(env, " "))
	w.serve = load.Must(load.New(load.Options{Dir: r.dir, Env: append(env, w.open()...), Roots: repositories}))
	r.later(func() error { return w.place.remove(w.serve.Home) })
	r.later(func() error { w.serve.Close(); return nil })
	load.Check(w.serve.Start(ctx))
	for n := range agents {
		agent := fmt.Sprintf("agent-%02d", n)
		load.Check(w.serve.Create(ctx, agent))
		w.agents = append(w.agents, agent)
		l := w.serve.Listen(ctx, agent)
		w.listeners[agent] = l
		r.later(func() error { l.Stop(); return nil })
	}
	return w
}

// open returns the settings of a daemon that reaches the place through a proxy.
func (w *world) open() (env []string) {
	var err error
	w.engine, env, err = w.place.open(w.r)
	load.Check(err)
	w.r.later(func() error { w.engine.close(); return nil })
	return append(env, w.r.mark)
}

// strike sends messages, hits something meanwhile, waits until all is quiet, and
// checks what must hold then.
func (w *world) strike(ctx context.Context) {
	var letters []*load.Letter
	var lines []string
	for range 4 + w.r.rng.IntN(6) {
		l := w.letter(w.words)
		letters = append(letters, l)
		lines = append(lines, fmt.Sprintf("%s %s %s %s %s", l.Agent, l.Way, l.Priority, l.Word, l.Key))
	}
	w.r.tell("%s", strings.Join(lines, "; "))
	faults := w.drawFaults()
	after := w.r.upTo(900 * time.Millisecond)
	var senders sync.WaitGroup
	failed := make([]error, len(letters))
	for i, l := range letters {
		delay := w.r.upTo(400 * time.Millisecond)
		senders.Go(func() {
			if failed[i] = load.Pause(ctx, delay); failed[i] == nil {
				failed[i] = w.serve.Send(ctx, l)
			}
		})
	}
	also := w.also()
	var alsoErr error
	senders.Go(func() { alsoErr = load.Guard(func() { also(ctx) }) })
	w.r.tell("after %s: %s", after, strings.Join(namesOfFaults(faults), ", "))
	err := load.Guard(func() {
		pause(ctx, after)
		w.hit(ctx, faults)
	})
	senders.Wait()
	w.r.turns += len(letters)
	load.Check(errors.Join(append(failed, err, alsoErr)...))
	for _, l := range letters {
		if l.Way == load.Interval && l.Acked { // it would fire for ever
			load.Must(w.serve.Client.CancelTimer(ctx, l.Agent, l.ID))
		}
	}
	w.inspect(ctx, letters)
}

// inspect waits until nothing is to be done, and checks everything. It returns the number of events.
func (w *world) inspect(ctx context.Context, letters []*load.Letter) (events int64) {
	operating, stop := context.WithCancel(ctx)
	var operator sync.WaitGroup
	operator.Go(func() { w.completeIdle(operating) })
	newest, err := w.serve.Verify(ctx, w.agents, letters)
	stop()
	operator.Wait()
	load.Check(err)
	for _, l := range letters {
		if l.Acked && !l.Way.Keyed() {
			w.woken[l.Agent]++
		}
	}
	for _, agent := range w.agents {
		load.Check(w.listeners[agent].Through(ctx, newest[agent]))
		events += newest[agent]
	}
	load.Check(w.serve.Woken(ctx, w.woken))
	return events
}

func (w *world) hit(ctx context.Context, faults []fault) {
	var group sync.WaitGroup
	errs := make([]error, len(faults))
	for i, b := range faults {
		w.r.struck(b.name)
		group.Go(func() { errs[i] = load.Guard(func() { b.inject(ctx, w, b) }) })
	}
	group.Wait()
	load.Check(errors.Join(errs...))
}

// letter draws a message that says one of the words.
func (w *world) letter(words []load.Word) *load.Letter {
	r := w.r
	w.number++
	l := &load.Letter{
		Agent: one(r, w.agents...), Way: one(r, load.Ways()...), Word: one(r, words...),
		Key:   fmt.Sprintf("letter-%d-%04d", r.number, w.number),
		After: 50*time.Millisecond + r.upTo(300*time.Millisecond),
	}
	if r.chance(3) {
		l.Way = load.Prompt // there are many ways, and people use this one
	}
	switch l.Way {
	case load.Prompt:
		l.Priority = one(r, "", ledger.Interject, ledger.Next, ledger.Normal, ledger.Background)
	case load.Enqueue: // only the operator may interject
		l.Priority = one(r, "", ledger.Next, ledger.Normal, ledger.Background)
	}
	return l
}

// drawOperator makes what an operator does with work items meanwhile: one of an agent is picked, or completed.
func (w *world) drawOperator() func(context.Context) {
	agent, delay := one(w.r, w.agents...), w.r.upTo(1200*time.Millisecond)
	done, nth := w.r.chance(2), w.r.rng.IntN(4)
	w.r.tell("after %s the operator touches item %d of %s, completes it: %v", delay, nth, agent, done)
	return func(ctx context.Context) {
		if load.Pause(ctx, delay) != nil {
			return
		}
		items, err := w.serve.Client.WorkItems(ctx, agent, 20)
		if err != nil || nth >= len(items) {
			return // the daemon is gone, or there are not so many
		}
		// It may be completed by now, and the daemon gone: what came of it is in the ledger.
		if id := items[nth].ID; done {
			_, _ = w.serve.Client.CompleteWork(ctx, agent, id)
		} else {
			_, _ = w.serve.Client.PickWork(ctx, agent, id)
		}
	}
}

// idleFor is how long an agent goes on with a work item for which it does nothing: some pauses, which double.
const idleFor = 4 * time.Second

// completeIdle completes such work items, as the operator, until ctx ends. A daemon that is gone is not its concern.
func (w *world) completeIdle(ctx context.Context) {
	for load.Pause(ctx, 200*time.Millisecond) == nil {
		for _, agent := range w.agents {
			items, _ := w.serve.Client.WorkItems(ctx, agent, 100)
			for _, item := range items {
				old := time.Since(item.CreatedAt.Time()) > idleFor
				if item.State == ledger.WorkOpen && item.Objective == check.Idle && old {
					_, _ = w.serve.Client.CompleteWork(ctx, agent, item.ID)
				}
			}
		}
	}
}

func (w *world) answers(ctx context.Context) {
	var letters []*load.Letter
	for _, agent := range w.agents {
		l := w.letter([]load.Word{w.simple})
		l.Agent, l.Way, l.Priority = agent, load.Prompt, ""
		load.Check(w.serve.Send(ctx, l))
		letters = append(letters, l)
	}
	w.inspect(ctx, letters)
	for _, l := range letters {
		m := load.Must(w.serve.Client.Message(ctx, l.Agent, l.ID))
		if !l.Acked || m.Entry.Status != ledger.Processed || m.Turn == nil || m.Turn.Kind != ledger.TurnCompleted {
			load.Failf("%s does not answer any more: %+v", l.Agent, m.Entry)
		}
	}
}

// end lets the daemon end, and checks that nothing of it is left and that what the agents made is.
func (w *world) end(ctx context.Context) {
	for _, l := range w.listeners {
		l.Stop()
	}
	load.Check(w.serve.End())
	led := load.Must(check.OpenLedger(w.serve.Ledger()))
	load.Check(errors.Join(led.Sound(ctx), led.Lawful(ctx), led.Recorded(ctx), led.Close()))
	if left := load.Must(w.place.containers(ctx, w.serve.Home, "")); len(left) > 0 {
		load.Failf("containers are left: %v", left)
	}
	load.Check(errors.Join(check.NoSocket(w.serve.Home), check.NoTemporary(w.serve.Home), check.NoLock(w.serve.Home),
		check.NoProcess(w.r.mark, w.serve.Home)))
	for _, agent := range w.agents {
		load.Must(os.Stat(w.serve.Ran(agent)))
	}
}
