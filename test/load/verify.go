package load

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"holon/runner/control/client"
	"holon/test/torture/check"
)

// Verify waits until nothing is to be done, and checks that every letter came
// once and was worked off once, that no command ran twice, and what the ledger
// promises. It returns the number of each agent's newest event.
func (s *Server) Verify(ctx context.Context, agents []string, letters []*Letter) (newest map[string]int64, err error) {
	led, err := check.OpenLedger(s.Ledger())
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, led.Close()) }()
	if err := Eventually(ctx, Patience, func() error { return led.Quiet(ctx) }); err != nil {
		return nil, fmt.Errorf("wait until every agent is idle: %w", err)
	}
	if err := led.Lawful(ctx); err != nil {
		return nil, err
	}
	ran := make(map[string]map[string]bool)
	for _, agent := range agents {
		turns, err := led.Turns(ctx, agent)
		if err != nil {
			return nil, err
		}
		if ran[agent], err = check.Ran(s.Ran(agent), turns); err != nil {
			return nil, err
		}
	}
	for _, l := range letters {
		if err := l.delivered(ctx, led, ran[l.Agent]); err != nil {
			return nil, err
		}
	}
	return led.Newest(ctx)
}

// delivered checks what the ledger has of a letter that had a key.
func (l *Letter) delivered(ctx context.Context, led *check.Ledger, ran map[string]bool) error {
	var found []check.Place
	var err error
	switch {
	case !l.Way.Keyed():
		return nil
	case l.Way == Add:
		found, err = led.Item(ctx, l.Agent, l.ID)
	default:
		found, err = led.Keyed(ctx, l.Agent, l.Key)
	}
	if err != nil {
		return err
	}
	if wrong := l.wrong(found, ran); wrong != "" {
		return fmt.Errorf("%s %s to %s, acknowledged as %q, refused as %q: %s; the ledger has %v", l.Way, l.Key, l.Agent,
			l.ID, l.Refused, wrong, found)
	}
	return nil
}

// wrong says what is wrong with what the ledger has of a letter, "" if nothing is.
func (l *Letter) wrong(found []check.Place, ran map[string]bool) string {
	if !l.Acked {
		if l.Tries == 1 && len(found) > 0 || len(found) > 1 {
			return "it was refused and is there"
		}
		return ""
	}
	if len(found) != 1 || found[0].ID != l.ID {
		return "it is not there once"
	}
	runs := l.Word != Quick && l.Word != Fail
	switch status := found[0].Status; {
	case status == "quarantined":
		return "it is quarantined although its turn could be begun"
	case status == "processed" && runs && !ran[found[0].Turn+" 1.1"]:
		return "it is processed, but the command of its turn did not run"
	}
	return ""
}

// Woken checks that the ledger knows of at least so many wakes of each agent.
func (s *Server) Woken(ctx context.Context, least map[string]int) (err error) {
	led, err := check.OpenLedger(s.Ledger())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, led.Close()) }()
	for _, agent := range slices.Sorted(maps.Keys(least)) {
		n, err := led.Count(ctx, agent, "wake_requested")
		if err != nil {
			return err
		}
		if n < least[agent] {
			return fmt.Errorf("%s acknowledged %d wakes and the ledger knows of %d", agent, least[agent], n)
		}
	}
	return nil
}

// Listener follows the events of an agent from the first one, across restarts and
// crashes of the daemon.
type Listener struct {
	agent  string
	cancel context.CancelFunc
	done   chan struct{}

	mu    sync.Mutex
	last  int64
	moved chan struct{} // closed by the next event
	err   error
}

// Listen follows the events of an agent until Stop.
func (s *Server) Listen(ctx context.Context, agent string) *Listener {
	ctx, cancel := context.WithCancel(ctx)
	l := &Listener{agent: agent, cancel: cancel, done: make(chan struct{}), moved: make(chan struct{})}
	go func() {
		defer close(l.done)
		for item, err := range s.Client.Follow(ctx, agent, client.Follow{Patience: Patience}) {
			if ctx.Err() != nil {
				return
			}
			if !l.take(item, err) {
				return
			}
		}
	}()
	return l
}

// take notes an event; false when something is wrong.
func (l *Listener) take(item client.Item, err error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err != nil:
		l.err = fmt.Errorf("the events of %s cannot be followed after number %d: %w", l.agent, l.last, err)
	case item.Reset != nil:
		l.err = fmt.Errorf("the events of %s were reset after number %d: %s", l.agent, l.last, item.Reset.Reason)
	case item.Event.EventSeq != l.last+1:
		l.err = fmt.Errorf("of %s, event %d came after %d", l.agent, item.Event.EventSeq, l.last)
	default:
		l.last++
	}
	close(l.moved)
	l.moved = make(chan struct{})
	return l.err == nil
}

// Through waits until the event with a number came, after all before it.
func (l *Listener) Through(ctx context.Context, seq int64) error {
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	for {
		l.mu.Lock()
		last, moved, err := l.last, l.moved, l.err
		l.mu.Unlock()
		if err != nil || last >= seq {
			return err
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return fmt.Errorf("the events of %s have come to number %d, and there are %d", l.agent, last, seq)
		}
	}
}

func (l *Listener) Stop() {
	l.cancel()
	<-l.done
}
