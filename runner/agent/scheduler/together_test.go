package scheduler_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"

	"holon/runner/agent/scheduler"
	"holon/state/ledger"
	"holon/test/expect"
)

// Many that admit, wake and claim at once: every message is claimed by one of
// them, once, and none is left.
func TestTogether(t *testing.T) {
	w := open(t)
	const workers, rounds = 6, 8
	var mu sync.Mutex
	claimed := map[string]int{}
	step := func(worker, round int) error {
		in := prompt(fmt.Sprint(worker, " ", round))
		in.Key = fmt.Sprint(worker/2, " ", round) // two workers send each message
		in.Body.Text = in.Key
		if _, err := w.m.Admit(w.ctx, in); err != nil {
			return err
		}
		if _, err := w.m.Wake(w.ctx, scheduler.Wake{AgentID: "alpha", Context: ledger.LocalProcess}); err != nil {
			return err
		}
		c, ok, err := w.m.Claim(w.ctx, "alpha")
		if err != nil || !ok {
			return err
		}
		mu.Lock()
		claimed[c.Message.ID]++
		mu.Unlock()
		if err := w.m.Began(w.ctx, c.Attempt.ID, scheduler.Sent{Prompt: json.RawMessage(`{}`), Digest: "d"}); err != nil {
			return err
		}
		_, err = w.m.Settle(w.ctx, c.Attempt.ID, scheduler.End{Turn: ledger.Turn{Kind: ledger.TurnCompleted}})
		return err
	}
	var group sync.WaitGroup
	for worker := range workers {
		group.Go(func() {
			for round := range rounds {
				if err := step(worker, round); err != nil {
					t.Errorf("worker %d: %v", worker, err)
				}
			}
		})
	}
	group.Wait()
	for {
		c, ok, err := w.m.Claim(w.ctx, "alpha")
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			break
		}
		claimed[c.Message.ID]++
		w.completes(c)
	}
	w.check()
	prompts := 0
	for id, n := range claimed {
		if n != 1 {
			t.Errorf("message %s was claimed %d times", id, n)
		}
		if w.message(id).Kind == ledger.KindOperatorPrompt {
			prompts++
		}
	}
	if want := workers / 2 * rounds; prompts != want {
		t.Errorf("%d prompts were answered, want %d", prompts, want)
	}
}

// The turns of two agents are settled in one step, or neither is.
func TestSettledTogether(t *testing.T) {
	w := open(t)
	var attempts []string
	for _, agent := range []string{"beta", "alpha"} {
		in := prompt("x")
		in.AgentID = agent
		w.admit(in)
		c, ok, err := w.m.Claim(w.ctx, agent)
		if err != nil || !ok {
			t.Fatalf("claim for %s: %v, %v", agent, ok, err)
		}
		w.must(w.m.Began(w.ctx, c.Attempt.ID, scheduler.Sent{Prompt: json.RawMessage(`{}`)}))
		attempts = append(attempts, c.Attempt.ID)
	}
	look := func() (found []string) {
		for _, id := range attempts {
			a := get(w, ledger.View.Attempt, id)
			l := get(w, ledger.View.AgentState, a.AgentID)
			found = append(found, fmt.Sprint(a.AgentID, " ", a.Status, " turns ", l.Turns, " events ", l.EventSeq))
		}
		return found
	}
	end, before := scheduler.End{Turn: ledger.Turn{Kind: ledger.TurnCompleted}}, look()
	for calls := 0; ; calls++ { // of the store, after which it fails
		w.store.armed, w.store.survives, w.store.where, w.store.calls = true, true, withinStep, calls
		err := w.m.SettleTogether(w.ctx, end, attempts[0], attempts[1:]...)
		if err == nil {
			break
		}
		if !errors.Is(err, errCrash) {
			t.Fatalf("after %d calls: %v", calls, err)
		}
		expect.Equal(t, fmt.Sprintf("the agents, cut off after %d calls", calls), fmt.Sprint(look()), fmt.Sprint(before))
	}
	for _, id := range attempts {
		expect.Equal(t, "attempt", get(w, ledger.View.Attempt, id).Status, ledger.AttemptSettled)
	}
	w.check()
}

// BenchmarkTurn measures what the scheduler adds to a turn: admission, claim, begin and
// settlement, each durable.
func BenchmarkTurn(b *testing.B) {
	w := newWorldIn(b, b.TempDir())
	b.Cleanup(w.close)
	for b.Loop() {
		w.admit(prompt("x"))
		w.done()
	}
}
