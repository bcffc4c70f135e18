package ledgertest

import (
	"fmt"
	"testing"
	"time"

	wire "holon/responses/tasks"
	"holon/state/ledger"
	"holon/test/expect"
)

// prune runs passes of at most limit rows until nothing is left to do. It fails
// when that takes too many.
func prune(t *testing.T, s ledger.Store, keep ledger.Retention, at time.Time, limit int) (passes int) {
	t.Helper()
	for range 1000 {
		passes++
		more, err := s.Prune(t.Context(), keep, at, limit)
		expect.NoError(t, err)
		if !more {
			return passes
		}
	}
	t.Fatal("pruning does not come to an end")
	return passes
}

func testPruneEvents(t *testing.T, open Reopener) {
	s := opened(t, open, "a", "b", "c")
	write(t, s, appendEvents("a", newEvents(10, 4, -3*day)...))
	write(t, s, appendEvents("a", newEvents(10, 3, -day)...))
	write(t, s, appendEvents("b", newEvents(5, 4, -3*day)...))
	left := func(agent, want string) {
		t.Helper()
		look(t, s, func(v ledger.View) {
			page, err := v.Events(agent, ledger.EventQuery{})
			expect.NoError(t, err)
			if n := len(page.Events); n > 0 {
				if int64(n) != page.Newest-page.Oldest+1 || page.Oldest != page.Events[0].Seq {
					t.Errorf("events of %s have a gap: %s, said to be %d to %d", agent, seqs(page), page.Oldest,
						page.Newest)
				}
			}
			expect.Equal(t, agent, fmt.Sprint(page.Oldest, page.Newest), want)
		})
	}
	expect.Equal(t, "passes when all is kept", prune(t, s, ledger.Retention{}, now, 100), 1)
	left("a", "1 20")
	more, err := s.Prune(t.Context(), ledger.Retention{Events: 2 * day}, now, 4)
	expect.NoError(t, err)
	expect.Equal(t, "more after four", more, true)
	look(t, s, func(v ledger.View) {
		a, err := v.Events("a", ledger.EventQuery{})
		expect.NoError(t, err)
		b, err := v.Events("b", ledger.EventQuery{})
		expect.NoError(t, err)
		expect.Equal(t, "events left after four", len(a.Events)+len(b.Events), 21)
	})
	prune(t, s, ledger.Retention{Events: 2 * day}, now, 4)
	left("a", "11 20")
	left("b", "5 5") // the newest stays
	left("c", "0 0")
	prune(t, s, ledger.Retention{MaxEvents: 3}, now, 100)
	left("a", "18 20")
	write(t, s, appendEvents("a", newEvents(1, 4, 0)...))
	left("a", "18 21")
}

// old puts messages of an agent into a ledger that were processed long ago, with
// all that was made of them.
func old(t *testing.T, s ledger.Store, agentID string, first, last int64, age time.Duration) {
	t.Helper()
	write(t, s, func(tx ledger.Tx) error {
		for n := first; n <= last; n++ {
			m, e := message(agentID, n, ledger.Normal)
			m.CreatedAt = at(-age)
			e.Status = ledger.Processed
			expect.NoError(t, tx.Insert(m, e))
			id := fmt.Sprintf("x_%06d_%s", n, agentID)
			expect.NoError(t, tx.Insert(&ledger.Attempt{ID: id, AgentID: agentID, MessageID: m.ID,
				Status: ledger.AttemptSettled, StartedAt: at(-age)}, &ledger.Prompt{AttemptID: id}))
			expect.NoError(t, tx.Insert(&ledger.Turn{ID: id, AgentID: agentID, Index: n, MessageID: m.ID,
				ResponseID: "resp_" + id, CompletedAt: at(-age)}))
			expect.NoError(t, tx.Insert(&ledger.Brief{ID: id, AgentID: agentID, CreatedAt: at(-age)}))
		}
		return nil
	})
}

func testPruneMessages(t *testing.T, open Reopener) {
	s := opened(t, open, "a", "b")
	old(t, s, "a", 1, 20, 3*day)
	old(t, s, "b", 21, 23, day)
	count := func(agent string) string {
		var counts string
		look(t, s, func(v ledger.View) {
			messages, err := v.Messages(agent, 0)
			expect.NoError(t, err)
			turns, err := v.Turns(agent, 0)
			expect.NoError(t, err)
			briefs, err := v.Briefs(agent, 0)
			expect.NoError(t, err)
			counts = fmt.Sprint(len(messages), len(turns), len(briefs))
		})
		return counts
	}
	more, err := s.Prune(t.Context(), ledger.Retention{Messages: 2 * day}, now, 5)
	expect.NoError(t, err)
	expect.Equal(t, "more after five", more, true)
	expect.Equal(t, "after five", count("a"), "15 20 20")
	look(t, s, func(v ledger.View) {
		_, err := v.Message("msg_000005_a")
		wantCode(t, err, ledger.CodeNotFound)
		_, err = v.Entry("msg_000005_a")
		wantCode(t, err, ledger.CodeNotFound)
		_, err = v.Message("msg_000006_a") // the oldest went first
		expect.NoError(t, err)
	})
	prune(t, s, ledger.Retention{Messages: 2 * day}, now, 7)
	expect.Equal(t, "a", count("a"), "0 1 0") // the newest turn stays
	expect.Equal(t, "b", count("b"), "3 3 3")
	prune(t, s, ledger.Retention{Messages: 2 * day}, now.Add(2*day), 7)
	expect.Equal(t, "b, later", count("b"), "0 1 0")
	look(t, s, func(v ledger.View) {
		_, err := v.Attempt("x_000001_a")
		wantCode(t, err, ledger.CodeNotFound)
		expect.NoError(t, absent(v.Prompt("x_000001_a")))
	})
}

// testPruneSpares has one message for each reason to keep it.
func testPruneSpares(t *testing.T, open Reopener) {
	s := opened(t, open, "a")
	old(t, s, "a", 1, 8, 100*day)
	id := func(n int) string { return fmt.Sprintf("msg_%06d_a", n) }
	dispose(t, s, id(1), ledger.Queued, "")
	dispose(t, s, id(2), ledger.Dequeued, "x")
	write(t, s, func(tx ledger.Tx) error {
		expect.NoError(t, tx.Insert(&ledger.Attempt{ID: "x", AgentID: "a", MessageID: id(3), Waits: []string{"w1", "w0"},
			Status: ledger.AttemptOpen, StartedAt: at(-100 * day)}))
		expect.NoError(t, tx.Insert(&ledger.Wait{ID: "w", AgentID: "a", Owner: "agent", Status: ledger.WaitTriggered,
			MessageID: id(4), Registered: "x_000007_a", CreatedAt: at(-100 * day)}))
		expect.NoError(t, tx.Insert(&ledger.Wait{ID: "w0", AgentID: "a", Owner: "agent", Status: ledger.WaitResolved,
			CreatedAt: at(-100 * day)}))
		expect.NoError(t, tx.Insert(&ledger.Wait{ID: "w9", AgentID: "a", Owner: "agent", Status: ledger.WaitExpired,
			CreatedAt: at(-100 * day)}))
		expect.NoError(t, tx.Insert(&ledger.Timer{ID: "m", AgentID: "a", Status: ledger.TimerActive, MessageID: id(5),
			CreatedAt: at(-100 * day)}))
		expect.NoError(t, tx.Insert(&ledger.Timer{ID: "m9", AgentID: "a", Status: ledger.TimerCompleted, MessageID: id(6),
			CreatedAt: at(-100 * day)}))
		l, err := tx.AgentState("a")
		l.Chain, l.WakeMessage = "resp_x_000002_a", id(7)
		expect.NoError(t, err)
		return tx.Step(&l)
	})
	for range 2 { // what was spared is spared again
		prune(t, s, ledger.Retention{Messages: day}, now, 3)
		look(t, s, func(v ledger.View) {
			numbers := names(t, func(m ledger.Message) int64 { return m.Number })
			expect.Equal(t, "messages", numbers(v.Messages("a", 0)), "[1 2 3 4 5 7]")
			for _, turn := range []string{"x_000002_a", "x_000008_a"} { // to be continued, and the newest
				_, err := v.Turn(turn)
				expect.NoError(t, err)
			}
			wantCode(t, second(v.Turn("x_000007_a")), ledger.CodeNotFound)
			for what, err := range map[string]error{
				"open attempt": second(v.Attempt("x")), "attempt of a wait": second(v.Attempt("x_000007_a")),
				"wait":                     second(v.Wait("w")),
				"wait of the open attempt": second(v.Wait("w0")), "timer": second(v.Timer("m")),
			} {
				if err != nil {
					t.Errorf("%s: %v", what, err)
				}
			}
			wantCode(t, second(v.Attempt("x_000006_a")), ledger.CodeNotFound)
			wantCode(t, second(v.Wait("w9")), ledger.CodeNotFound)
			wantCode(t, second(v.Timer("m9")), ledger.CodeNotFound)
		})
	}
}

func testPruneOutputs(t *testing.T, open Reopener) {
	s := opened(t, open, "a")
	write(t, s, func(tx ledger.Tx) error {
		expect.NoError(t, tx.Insert(&ledger.ExpiredOutput{TurnID: "t1", AgentID: "a", At: at(-3 * day)}))
		return tx.Insert(&ledger.ExpiredOutput{TurnID: "t2", AgentID: "a", At: at(-day)})
	})
	prune(t, s, ledger.Retention{Messages: 2 * day}, now, 100)
	look(t, s, func(v ledger.View) {
		expect.NoError(t, absent(v.ExpiredOutput("t1")))
		_, ok, err := v.ExpiredOutput("t2")
		expect.NoError(t, err)
		expect.Equal(t, "the younger one is known", ok, true)
	})
}

// testPruneTasks has more tasks than an agent's container remembers.
func testPruneTasks(t *testing.T, open Reopener) {
	s := opened(t, open, "a")
	write(t, s, func(tx ledger.Tx) error {
		for i := range 2003 {
			task := ledger.Task{ID: fmt.Sprint("t", i), AgentID: "a", Status: wire.Completed, CreatedAt: at(-9 * day)}
			if i == 1 {
				task.Status = wire.Running
			}
			expect.NoError(t, tx.Insert(&task))
		}
		return nil
	})
	prune(t, s, ledger.Retention{Messages: day}, now, 5000)
	look(t, s, func(v ledger.View) {
		list, err := v.Tasks("a", 5000)
		expect.NoError(t, err)
		expect.Equal(t, "tasks that stay", len(list), 2001)
		expect.Equal(t, "the oldest that stays", list[0].ID, "t1")
	})
}
