package ledgertest

import (
	"fmt"
	"testing"

	wire "holon/responses/tasks"
	"holon/state/ledger"
	"holon/test/expect"
)

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
