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
	"holon/test/longlived"
	"holon/test/torture/check"
)

// roundsPerDaemon is how many rounds of kind agents one daemon lives through. They share
// its home, so that what one left behind breaks the next.
const roundsPerDaemon = 10

// world is a daemon with its agents.
type world struct {
	r      *round
	serve  *longlived.Server
	engine *proxy
	agents []string
	heard  map[string]*longlived.Listener
	woken  map[string]int // wakes that an agent acknowledged
	number int            // of letters, makes their keys
}

// playAgents lets agents live through some roundsPerDaemon, and their daemon end.
func playAgents(ctx context.Context, r *round) error {
	w, err := r.newWorld(ctx)
	if err != nil {
		return err
	}
	for n := range roundsPerDaemon {
		r.tell("strike %d", n)
		r.rounds++
		if err := w.strike(ctx); err != nil {
			return fmt.Errorf("strike %d: %w\n%s", n, err, w.serve.Tail())
		}
	}
	if err := w.answers(ctx); err != nil {
		return fmt.Errorf("at the end: %w\n%s", err, w.serve.Tail())
	}
	return w.end(ctx)
}

func (r *round) newWorld(ctx context.Context) (*world, error) {
	w := &world{r: r, heard: make(map[string]*longlived.Listener), woken: make(map[string]int)}
	env := []string{r.mark, "HOLON_IDLE_PAUSE=" + r.one("200ms", "1m"), "HOLON_IDLE_STOP=" + r.one("1s", "15m"),
		"HOLON_MAX_CONTAINERS=" + r.one("2", "16")}
	r.tell("settings %s", strings.Join(env[1:], " "))
	var err error
	if w.engine, err = openProxy(r.path("e"), engineSocket()); err != nil {
		return nil, err
	}
	r.undo = append(r.undo, func() error { w.engine.close(); return nil })
	if w.serve, err = longlived.New(longlived.Options{Dir: r.dir, Bin: r.lab.bin, Engine: "unix://" + r.path("e"),
		Env: env}); err != nil {
		return nil, err
	}
	r.undo = append(r.undo, w.serve.RemoveContainers, func() error { w.serve.Close(); return nil })
	if err := w.serve.Start(ctx); err != nil {
		return nil, err
	}
	for n := range 4 {
		agent := fmt.Sprintf("agent-%d", n)
		if err := w.serve.Create(ctx, agent); err != nil {
			return nil, err
		}
		w.agents = append(w.agents, agent)
		l := w.serve.Listen(ctx, agent)
		w.heard[agent] = l
		r.undo = append(r.undo, func() error { l.Stop(); return nil })
	}
	return w, nil
}

// one is one of some words.
func (r *round) one(words ...string) string { return words[r.rng.IntN(len(words))] }

// strike sends messages, hits something meanwhile, waits until all is quiet, and
// checks what must hold then.
func (w *world) strike(ctx context.Context) error {
	letters := w.draw()
	faults := w.drawFaults()
	after := w.r.upTo(900 * time.Millisecond)
	var senders sync.WaitGroup
	failed := make(chan error, len(letters))
	for _, l := range letters {
		delay := w.r.upTo(400 * time.Millisecond)
		senders.Go(func() {
			if err := pause(ctx, delay); err == nil {
				failed <- w.serve.Send(ctx, l)
			}
		})
	}
	operator := w.drawOperator()
	senders.Go(func() { operator(ctx) })
	w.r.tell("after %s: %s", after, strings.Join(namesOfFaults(faults), ", "))
	err := pause(ctx, after)
	if err == nil {
		err = w.hit(ctx, faults)
	}
	senders.Wait()
	close(failed)
	for e := range failed {
		err = errors.Join(err, e)
	}
	w.r.turns += len(letters)
	if err != nil {
		return err
	}
	if err := w.cancel(ctx, letters); err != nil {
		return err
	}
	return w.inspect(ctx, letters)
}

// inspect waits until nothing is to be done, and checks everything.
func (w *world) inspect(ctx context.Context, letters []*longlived.Letter) error {
	operating, stop := context.WithCancel(ctx)
	var operator sync.WaitGroup
	operator.Go(func() { w.completeIdle(operating) })
	newest, err := w.serve.Verify(ctx, w.agents, letters)
	stop()
	operator.Wait()
	if err != nil {
		return err
	}
	for _, l := range letters {
		if l.Acked && !l.Way.Keyed() {
			w.woken[l.Agent]++
		}
	}
	for _, agent := range w.agents {
		if err := w.heard[agent].Through(ctx, newest[agent]); err != nil {
			return err
		}
	}
	return w.serve.Woken(ctx, w.woken)
}

// hit injects the faults, those of different agents at once.
func (w *world) hit(ctx context.Context, faults []fault) error {
	var group sync.WaitGroup
	errs := make([]error, len(faults))
	for i, b := range faults {
		w.r.struck(b.name)
		group.Go(func() { errs[i] = b.inject(ctx, w, b) })
	}
	group.Wait()
	return errors.Join(errs...)
}

// draw makes the messages of a round.
func (w *world) draw() (letters []*longlived.Letter) {
	r := w.r
	ways, words := longlived.Ways(), append(longlived.Words(), longlived.Idle)
	priorities := []ledger.Priority{"", ledger.Interject, ledger.Next, ledger.Normal, ledger.Background}
	told := []string{}
	for range 4 + r.rng.IntN(6) {
		w.number++
		l := &longlived.Letter{
			Agent: w.agents[r.rng.IntN(len(w.agents))], Way: ways[r.rng.IntN(len(ways))],
			Word:  words[r.rng.IntN(len(words))],
			Key:   fmt.Sprintf("letter-%d-%04d", r.number, w.number),
			After: 50*time.Millisecond + r.upTo(300*time.Millisecond),
		}
		if r.chance(3) {
			l.Way = longlived.Prompt // there are many ways, and people use this one
		}
		if l.Way == longlived.Prompt || l.Way == longlived.Enqueue {
			l.Priority = priorities[r.rng.IntN(len(priorities))]
		}
		if l.Way == longlived.Enqueue && l.Priority == ledger.Interject {
			l.Priority = ledger.Next // only the operator may interject
		}
		letters = append(letters, l)
		told = append(told, fmt.Sprintf("%s %s %s %s%s", l.Agent, l.Way, l.Priority, l.Word, l.Key[len("letter-"):]))
	}
	r.tell("%s", strings.Join(told, "; "))
	return letters
}

// drawOperator makes what an operator does with work items meanwhile: one of an agent is picked, or completed.
func (w *world) drawOperator() func(context.Context) {
	agent, delay, done, nth := w.agents[w.r.rng.IntN(len(w.agents))], w.r.upTo(1200*time.Millisecond), w.r.chance(2),
		w.r.rng.IntN(4)
	w.r.tell("after %s the operator touches item %d of %s, completes it: %v", delay, nth, agent, done)
	return func(ctx context.Context) {
		if pause(ctx, delay) != nil {
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
	for pause(ctx, 200*time.Millisecond) == nil {
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

// cancel ends the timers that would fire for ever.
func (w *world) cancel(ctx context.Context, letters []*longlived.Letter) error {
	for _, l := range letters {
		if l.Way == longlived.Interval && l.Acked {
			if _, err := w.serve.Client.CancelTimer(ctx, l.Agent, l.ID); err != nil {
				return fmt.Errorf("cancel the timer %s: %w", l.ID, err)
			}
		}
	}
	return nil
}

// answers checks that every agent still does what its operator asks.
func (w *world) answers(ctx context.Context) error {
	var letters []*longlived.Letter
	for _, agent := range w.agents {
		w.number++
		l := &longlived.Letter{Agent: agent, Way: longlived.Prompt, Word: longlived.Run,
			Key: fmt.Sprintf("letter-%d-%04d", w.r.number, w.number)}
		if err := w.serve.Send(ctx, l); err != nil {
			return err
		}
		letters = append(letters, l)
	}
	if err := w.inspect(ctx, letters); err != nil {
		return err
	}
	for _, l := range letters {
		m, err := w.serve.Client.Message(ctx, l.Agent, l.ID)
		if err != nil {
			return err
		}
		if !l.Acked || m.Entry.Status != ledger.Processed || m.Turn == nil || m.Turn.Kind != ledger.TurnCompleted {
			return fmt.Errorf("%s does not answer any more: %+v", l.Agent, m.Entry)
		}
	}
	return nil
}

// end lets the daemon end, and checks that nothing of it is left.
func (w *world) end(ctx context.Context) (err error) {
	for _, l := range w.heard {
		l.Stop()
	}
	if err := w.serve.End(); err != nil {
		return err
	}
	led, err := check.OpenLedger(w.serve.Ledger())
	if err != nil {
		return err
	}
	if err := errors.Join(led.Sound(ctx), led.Lawful(ctx), led.Recorded(ctx), led.Close()); err != nil {
		return err
	}
	left, err := w.serve.Containers(ctx, "")
	if err == nil && len(left) > 0 {
		err = fmt.Errorf("containers are left: %v", left)
	}
	return errors.Join(err, check.NoSocket(w.serve.Home), check.NoTemporary(w.serve.Home), check.NoLock(w.serve.Home),
		check.NoProcess(w.r.mark, w.serve.Home), w.whole())
}

// whole checks that what the agents made is still there.
func (w *world) whole() error {
	for _, agent := range w.agents {
		if _, err := os.Stat(w.serve.Ran(agent)); err != nil {
			return fmt.Errorf("what %s made is lost: %w", agent, err)
		}
	}
	return nil
}
