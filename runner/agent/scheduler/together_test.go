package scheduler_test

import (
	"encoding/json"
	"fmt"
	"sync"
	"testing"

	"holon/runner/agent/scheduler"
	"holon/state/ledger"
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
		_, err = w.m.Settle(w.ctx, c.Attempt.ID, scheduler.End{Kind: ledger.TurnCompleted})
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
