package control

import (
	"context"
	"errors"
	"sync"
	"time"

	"holon/runner/control/wire"
	"holon/state"
)

// Bounds of the gate.
const (
	gateTTL     = 500 * time.Millisecond // a snapshot is as good as new for so long, if its revision is
	gateKept    = 64                     // snapshots
	gateCompute = 15 * time.Second       // the longest time one may take
)

// gate lets many clients ask for the same expensive snapshot and computes it
// once. A snapshot has the revision that it was read at, so nobody gets one from
// before what they have seen. How many are computed at a time is bounded, and
// whoever would have to wait too long is sent away.
type gate struct {
	leaders  chan struct{}
	patience time.Duration

	mu      sync.Mutex
	flights map[string]*flight
}

// flight is a snapshot: under way until done is closed, then kept for a while.
type flight struct {
	done     chan struct{}
	revision int64 // of body
	body     []byte
	err      error
	at       time.Time
}

var errUnfinished = errors.New("the snapshot was not finished")

func newGate(leaders int, patience time.Duration) *gate {
	return &gate{leaders: make(chan struct{}, leaders), patience: patience, flights: make(map[string]*flight)}
}

// do returns the body for a key that was read at revision or later. compute
// returns it with its revision; it is run by one caller for all who wait, and
// not ended when that one goes. shared says that another's was returned.
func (g *gate) do(ctx context.Context, key string, revision int64,
	compute func(ctx context.Context) ([]byte, int64, error)) (body []byte, shared bool, err error) {
	for {
		f, lead := g.join(key, revision)
		if lead {
			g.lead(ctx, key, f, compute)
			return f.body, false, f.err
		}
		select {
		case <-f.done:
		case <-ctx.Done():
			return nil, false, ctx.Err()
		}
		// One that began before this caller's revision was there is of no use to
		// it, and neither is the failure of another.
		if f.err == nil && f.revision >= revision {
			return f.body, true, nil
		}
		if state.IsCode(f.err, wire.CodeBusy) {
			return nil, false, f.err
		}
	}
}

// join returns the flight for key, and whether the caller has to compute it.
func (g *gate) join(key string, revision int64) (f *flight, lead bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if f = g.flights[key]; f != nil {
		select {
		case <-f.done:
			if f.err == nil && f.revision >= revision && time.Since(f.at) < gateTTL {
				return f, false
			}
		default:
			return f, false
		}
	}
	if len(g.flights) >= gateKept {
		g.forget()
	}
	f = &flight{done: make(chan struct{})}
	g.flights[key] = f
	return f, true
}

// forget drops the snapshots that are done.
func (g *gate) forget() {
	for key, f := range g.flights {
		select {
		case <-f.done:
			delete(g.flights, key)
		default:
		}
	}
}

// lead computes a flight. When it can't be the caller's turn in time, all who
// wait are sent away with it.
func (g *gate) lead(ctx context.Context, key string, f *flight,
	compute func(ctx context.Context) ([]byte, int64, error)) {
	defer close(f.done)
	release, err := g.enter(context.WithoutCancel(ctx)) // others wait for it
	if err != nil {
		f.err = err
		return
	}
	defer release()
	work, cancel := context.WithTimeout(context.WithoutCancel(ctx), gateCompute)
	defer cancel()
	f.err = errUnfinished // should compute panic
	f.body, f.revision, f.err = compute(work)
	f.at = time.Now()
}

// enter waits for one of the bounded places in which something expensive is
// computed.
func (g *gate) enter(ctx context.Context) (release func(), err error) {
	leave := func() { <-g.leaders }
	select {
	case g.leaders <- struct{}{}:
		return leave, nil
	default:
	}
	t := time.NewTimer(g.patience)
	defer t.Stop()
	select {
	case g.leaders <- struct{}{}:
		return leave, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-t.C:
		return nil, &state.Error{Code: wire.CodeBusy, Message: "too many snapshots are asked for at once",
			Hint: "come back in a second, and follow the events instead of asking again"}
	}
}
