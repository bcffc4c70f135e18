package ledgertest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	"holon/state/ledger"
	"holon/test/expect"
)

func crowd(t *testing.T, n int, fn func(i int) error) {
	t.Helper()
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { errs[i] = fn(i) })
	}
	all.Wait()
	expect.NoError(t, errors.Join(errs...))
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func testChanged(t *testing.T, open Reopener) {
	s := opened(t, open, "a", "b")
	a, b, any := s.Changed("a"), s.Changed("b"), s.Changed("")
	write(t, s, func(tx ledger.Tx) error { return tx.Insert(message("a", 1, ledger.Normal)) })
	expect.Equal(t, "woken although no events were appended", closed(a) || closed(any), false)
	if err := s.Update(t.Context(), func(tx ledger.Tx) error {
		expect.NoError(t, appendEvents("a", newEvents(1, 4, 0)...)(tx))
		return errOwn
	}); err != errOwn || closed(a) {
		t.Errorf("woken by what was taken back, or %v", err)
	}
	write(t, s, func(tx ledger.Tx) error {
		err := appendEvents("a", newEvents(1, 4, 0)...)(tx)
		expect.Equal(t, "woken before the commit", closed(a), false)
		return err
	})
	if !closed(a) || !closed(any) || closed(b) {
		t.Errorf("after an event of a: a %v, any %v, b %v", closed(a), closed(any), closed(b))
	}
	expect.Equal(t, "woken by what was before", closed(s.Changed("a")) || closed(s.Changed("")), false)
}

func testSnapshot(t *testing.T, open Reopener) {
	s := opened(t, open, "a")
	write(t, s, appendEvents("a", newEvents(1, 4, 0)...))
	look(t, s, func(v ledger.View) {
		before, err := v.Events("a", ledger.EventQuery{})
		expect.NoError(t, err)
		write(t, s, appendEvents("a", newEvents(1, 4, 0)...))
		after, err := v.Events("a", ledger.EventQuery{})
		expect.NoError(t, err)
		l, err := v.AgentState("a")
		expect.NoError(t, err)
		expect.Equal(t, "events", seqs(after), seqs(before))
		expect.Equal(t, "newest in the state", l.EventSeq, 1)
	})
	look(t, s, func(v ledger.View) {
		page, err := v.Events("a", ledger.EventQuery{})
		expect.NoError(t, err)
		expect.Equal(t, "events", seqs(page), "[1 2]")
	})
	err := s.View(t.Context(), func(ledger.View) error { return errOwn })
	expect.Equal(t, "the function's error", err, errOwn)
}

// testCrowd lets many write to few agents while readers follow them by Changed,
// each of which must see every number once.
func testCrowd(t *testing.T, open Reopener) {
	const writers, steps, agents = 24, 25, 3
	s := opened(t, open, "a0", "a1", "a2")
	crowd(t, writers+agents, func(i int) error {
		agent := fmt.Sprint("a", i%agents)
		if i < agents {
			return follow(t.Context(), s, agent, writers/agents*steps)
		}
		for range steps {
			if err := s.Update(t.Context(), appendEvents(agent, newEvents(1, 4, 0)...)); err != nil {
				return err
			}
		}
		return nil
	})
	look(t, s, func(v ledger.View) {
		for i := range agents {
			l, err := v.AgentState(fmt.Sprint("a", i))
			expect.NoError(t, err)
			expect.Equal(t, "newest", l.EventSeq, int64(writers/agents*steps))
			expect.Equal(t, "revision", l.Revision, l.EventSeq)
		}
	})
}

func follow(ctx context.Context, s ledger.Store, agentID string, last int64) error {
	for seen := int64(0); seen < last; {
		changed := s.Changed(agentID)
		from := seen
		err := s.View(ctx, func(v ledger.View) error {
			page, err := v.Events(agentID, ledger.EventQuery{After: seen, Limit: 7})
			for _, e := range page.Events {
				if seen++; e.Seq != seen {
					return fmt.Errorf("event %d where %d is expected", e.Seq, seen)
				}
			}
			return err
		})
		if err != nil {
			return err
		}
		if seen > from {
			continue
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// testWaiting ends contexts, and the store, while something waits for the update that runs.
func testWaiting(t *testing.T, open Reopener) {
	synctest.Test(t, func(t *testing.T) {
		s := opened(t, open, "a")
		ctx, cancel := context.WithCancel(t.Context())
		waiting, closing := make(chan error, 1), make(chan error, 1)
		write(t, s, func(tx ledger.Tx) error {
			go func() {
				waiting <- s.Update(ctx, func(ledger.Tx) error {
					t.Error("an update ran whose context had ended")
					return nil
				})
			}()
			synctest.Wait()
			cancel()
			expect.ErrorIs(t, "update", <-waiting, context.Canceled)
			go func() { closing <- s.Close() }()
			synctest.Wait()
			return appendEvents("a", newEvents(1, 4, 0)...)(tx)
		})
		expect.NoError(t, <-closing)
		s = opened(t, open)
		look(t, s, func(v ledger.View) {
			l, err := v.AgentState("a")
			expect.NoError(t, err)
			expect.Equal(t, "revision", l.Revision, 1)
		})
	})
}

func testContexts(t *testing.T, open Reopener) {
	s := opened(t, open, "a")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	never := func(ledger.Tx) error { t.Error("an update ran whose context had ended"); return nil }
	expect.ErrorIs(t, "update", s.Update(ended, never), context.Canceled)
	if err := s.View(ended, func(v ledger.View) error {
		_, err := v.Agents()
		return err
	}); !errors.Is(err, context.Canceled) {
		t.Errorf("view: %v", err)
	}
	// It ends while the update runs.
	ctx, cancel := context.WithCancel(t.Context())
	err := s.Update(ctx, func(tx ledger.Tx) error {
		expect.NoError(t, appendEvents("a", newEvents(1, 4, 0)...)(tx))
		cancel()
		return nil
	})
	expect.ErrorIs(t, "update", err, context.Canceled)
	look(t, s, func(v ledger.View) {
		l, err := v.AgentState("a")
		expect.NoError(t, err)
		expect.Equal(t, "revision", l.Revision, 0)
	})
}

func testClose(t *testing.T, open Reopener) {
	s := open(t)
	epoch := s.Epoch()
	acknowledged := make([]bool, 8)
	crowd(t, len(acknowledged), func(i int) error { // a late caller gets an error
		err := s.Update(t.Context(), func(tx ledger.Tx) error {
			id := fmt.Sprint("a", i)
			return tx.Insert(&ledger.Agent{ID: id}, &ledger.AgentState{AgentID: id})
		})
		if acknowledged[i] = err == nil; !acknowledged[i] {
			wantCode(t, err, ledger.CodeLedgerEnded)
		}
		return s.Close()
	})
	wantCode(t, s.Update(t.Context(), func(ledger.Tx) error { return nil }), ledger.CodeLedgerEnded)
	wantCode(t, s.View(t.Context(), func(ledger.View) error { return nil }), ledger.CodeLedgerEnded)
	expect.NoError(t, s.Close())
	s = opened(t, open)
	expect.Equal(t, "epoch", s.Epoch(), epoch)
	if epoch == "" {
		t.Error("the store has no epoch")
	}
	look(t, s, func(v ledger.View) {
		for i, is := range acknowledged {
			if _, err := v.Agent(fmt.Sprint("a", i)); is != (err == nil) {
				t.Errorf("agent %d: acknowledged %v, but %v", i, is, err)
			}
		}
	})
}

var errOwn = errors.New("the caller's own")

func testAtomic(t *testing.T, open Reopener) {
	s := opened(t, open, "a")
	m, e := message("a", 1, ledger.Normal)
	err := s.Update(t.Context(), func(tx ledger.Tx) error {
		if err := errors.Join(tx.Insert(m, e), appendEvents("a", newEvents(2, 4, 0)...)(tx)); err != nil {
			return err
		}
		return errOwn
	})
	expect.Equal(t, "the function's error", err, errOwn)
	look(t, s, func(v ledger.View) {
		wantCode(t, second(v.Message(m.ID)), ledger.CodeNotFound)
		l, err := v.AgentState("a")
		expect.NoError(t, err)
		expect.Equal(t, "newest event", l.EventSeq, 0)
		expect.Equal(t, "revision", l.Revision, 0)
	})
	// Nothing is kept of an update in which a row could not be written, also when its function goes on.
	wantCode(t, s.Update(t.Context(), func(tx ledger.Tx) error {
		_ = tx.Insert(m, e)
		_ = tx.Insert(m, e)
		return nil
	}), ledger.CodeConflict)
	look(t, s, func(v ledger.View) { wantCode(t, second(v.Message(m.ID)), ledger.CodeNotFound) })
	write(t, s, appendEvents("a", newEvents(1, 4, 0)...))
	write(t, s, func(tx ledger.Tx) error { // in the writer's memory, if it has one
		l, err := tx.AgentState("a")
		expect.Equal(t, "newest event", l.EventSeq, 1)
		l.Chain = "not saved"
		return err
	})
	write(t, s, func(tx ledger.Tx) error {
		l, err := tx.AgentState("a")
		expect.Equal(t, "chain", l.Chain, "")
		return err
	})
}

func testPanic(t *testing.T, open Reopener) {
	s := opened(t, open, "a")
	m, e := message("a", 1, ledger.Normal)
	func() {
		defer func() {
			if r := recover(); r != "boom" {
				t.Errorf("recovered %v", r)
			}
		}()
		_ = s.Update(t.Context(), func(tx ledger.Tx) error {
			expect.NoError(t, tx.Insert(m, e))
			panic("boom")
		})
	}()
	write(t, s, func(tx ledger.Tx) error { return tx.Insert(m, e) })
	var kept ledger.Tx
	write(t, s, func(tx ledger.Tx) error { kept = tx; return nil })
	if _, err := kept.AgentState("a"); err == nil {
		t.Error("a Tx can be used after its end")
	}
}
