package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"sync"
	"time"

	"holon/test/load"
	"holon/test/torture/check"
)

// The size of a round of endurance, besides the messages of the flag.
const (
	manyAgents  = 20
	manyRestart = 6
	messagePace = 80 * time.Millisecond // between two messages, while the daemon is there
	sleepWatch  = 30 * time.Millisecond // for each message: how long the sleeping agents are watched
)

// playEndurance lets many agents work for a while: messages of every kind arrive at a steady rate, the daemon is
// stopped and killed in between, and at the end all agents sleep. It reports what that cost.
func playEndurance(ctx context.Context, r *round) {
	w := r.newWorld(ctx, manyAgents, nil, "HOLON_IDLE_PAUSE=3s", fmt.Sprint("HOLON_MAX_CONTAINERS=", manyAgents))
	empty := w.restart(ctx, 0) // in good order, so that the ledger is one file
	began := time.Now()
	var letters []*load.Letter
	w.guard(func() { letters = w.sendAll(ctx, r.lab.messages) })
	w.guard(func() {
		for _, l := range letters {
			if !l.Acked && l.Way.Keyed() {
				load.Failf("%s to %s was refused: %s", l.Way, l.Agent, l.Refused)
			}
		}
		events := w.inspect(ctx, letters)
		r.note("agents, messages sent, events", "%d, %d, %d in %.0f s", manyAgents, len(letters), events,
			time.Since(began).Seconds())
	})
	r.turns += len(letters)
	messages := w.latencies(ctx, letters)
	w.asleep(ctx, time.Duration(r.lab.messages)*sleepWatch)
	size := w.restart(ctx, 0)
	r.note("ledger, bytes for each message", "%d (%d in all)", (size-empty)/int64(messages), size)
	w.guard(func() { w.answers(ctx) })
	w.end(ctx)
}

func (r *round) note(what, format string, args ...any) {
	r.report += fmt.Sprintf("| %s | %s |\n", what, fmt.Sprintf(format, args...))
}

// restart ends the daemon in good order, or kills it, and starts it again. It
// returns the size of the ledger in between.
func (w *world) restart(ctx context.Context, n int) int64 {
	if n%2 == 1 {
		w.serve.Kill()
	} else {
		load.Check(w.serve.End())
	}
	size := load.Must(os.Stat(w.serve.Ledger())).Size()
	load.Check(w.serve.Start(ctx))
	return size
}

// sendAll sends messages at the pace, and restarts the daemon in between.
func (w *world) sendAll(ctx context.Context, messages int) (letters []*load.Letter) {
	tick := time.NewTicker(messagePace)
	defer tick.Stop()
	var senders sync.WaitGroup
	failed := make([]error, messages)
	every := max(1, messages/(manyRestart+1))
	for n := range messages {
		l := w.letter(load.Words())
		if l.Way == load.Interval { // its ticks are messages beyond the number
			l.Way = load.Timer
		}
		letters = append(letters, l)
		senders.Go(func() { failed[n] = w.serve.Send(ctx, l) })
		if n > 0 && n%every == 0 && n/every <= manyRestart {
			w.restart(ctx, n/every)
		}
		<-tick.C
	}
	senders.Wait()
	load.Check(errors.Join(failed...))
	return letters
}

// latencies reports how long messages took, by what the ledger has of them, and returns their number.
func (w *world) latencies(ctx context.Context, letters []*load.Letter) (messages int) {
	led := load.Must(check.OpenLedger(w.serve.Ledger()))
	ways, err := led.Ways(ctx)
	load.Check(errors.Join(err, led.Close()))
	var ack, claim, begin, free []time.Duration
	for _, l := range letters {
		if l.Acked {
			ack = append(ack, l.Taken)
		}
	}
	for _, way := range ways {
		if way.Begun.IsZero() {
			continue
		}
		claim = append(claim, way.Claimed.Sub(way.Admitted))
		begin = append(begin, way.Begun.Sub(way.Claimed))
		if way.Free {
			free = append(free, way.Begun.Sub(way.Admitted))
		}
	}
	w.r.note("a call → its answer", "%s", span(ack))
	w.r.note("admitted → claimed", "%s", span(claim))
	w.r.note("claimed → the turn has begun", "%s", span(begin))
	w.r.note("admitted → the turn has begun, of an agent with nothing to do", "%s", span(free))
	return len(ways)
}

func span(all []time.Duration) string {
	if len(all) == 0 {
		return "–"
	}
	slices.Sort(all)
	return fmt.Sprintf("p50 %s, p99 %s, most %s (n = %d)", all[len(all)/2], all[len(all)*99/100], all[len(all)-1],
		len(all))
}

// asleep reports what a daemon costs whose agents sleep.
func (w *world) asleep(ctx context.Context, watched time.Duration) {
	pause(ctx, 6*time.Second) // until containers are held still
	ids := load.Must(load.Containers(ctx, w.serve.Home, ""))
	serve, contained := load.Tree(w.serve.PID()), load.InContainers(ids)
	a, b := load.Time(serve), load.Time(contained)
	pause(ctx, watched)
	percent := func(d time.Duration) float64 { return 100 * d.Seconds() / watched.Seconds() }
	paused := 0
	for _, id := range ids {
		out, _ := exec.CommandContext(ctx, "docker", "inspect", "--format", "{{.State.Paused}}", id).Output() // or gone
		paused += bytes.Count(out, []byte("true"))
	}
	w.r.note("agents asleep: holon serve, percent of a core", "%.2f", percent(load.Time(serve)-a))
	w.r.note("agents asleep: containers and shims, percent of a core", "%.2f (%d containers, %d held still)",
		percent(load.Time(contained)-b), len(ids), paused)
	w.r.note("holon serve, resident", "%.1f MB", load.Resident(w.serve.PID())/1e6)
}
