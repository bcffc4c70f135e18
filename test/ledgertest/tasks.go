package ledgertest

import (
	"fmt"
	"testing"

	wire "holon/responses/tasks"
	"holon/state/ledger"
)

func testTasks(t *testing.T, open Reopener) {
	s := opened(t, open, "a", "b")
	write(t, s, func(tx ledger.Tx) error {
		for i, status := range []wire.Status{wire.Completed, wire.Running, wire.Queued, wire.Cancelling, wire.Failed} {
			must(t, tx.Insert(&ledger.Task{ID: fmt.Sprint("t", i), AgentID: "a", Status: status, CreatedAt: now}))
		}
		return tx.Insert(&ledger.Task{ID: "t0", AgentID: "b", Status: wire.Completed, CreatedAt: now})
	})
	ids := names(t, func(x ledger.Task) string { return x.ID })
	look(t, s, func(v ledger.View) {
		equal(t, "open", ids(v.OpenTasks("a")), "[t1 t2 t3]")
		equal(t, "newest", ids(v.Tasks("a", 2)), "[t3 t4]")
		agents, err := v.TaskAgents()
		must(t, err)
		equal(t, "agents with open tasks", fmt.Sprint(agents), "[a]")
		n, err := v.CountOpenTasks("a")
		must(t, err)
		equal(t, "open tasks", n, 3)
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
			must(t, tx.Insert(&task))
		}
		return nil
	})
	prune(t, s, ledger.Retention{Messages: day}, now, 5000)
	look(t, s, func(v ledger.View) {
		list, err := v.Tasks("a", 5000)
		must(t, err)
		equal(t, "tasks that stay", len(list), 2001)
		equal(t, "the oldest that stays", list[0].ID, "t1")
	})
}
