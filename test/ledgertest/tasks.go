package ledgertest

import (
	"fmt"
	"testing"

	wire "holon/responses/tasks"
	"holon/state/ledger"
)

// tasks are commands that go on in the containers of agents.
func tasks() domain {
	task := func(agent, id string) update {
		return func(tx ledger.Tx) error {
			return tx.Insert(&ledger.Task{ID: id, AgentID: agent, Status: wire.Running, CreatedAt: now})
		}
	}
	return domain{
		name:    "tasks",
		keep:    keepTasks,
		missing: func(v ledger.View) []error { return []error{second(v.Task("a", "x"))} },
		empty: func(v ledger.View) []error {
			return []error{second(v.Tasks("x", 1)), second(v.OpenTasks("x")), second(v.TaskAgents())}
		},
		unknown: []update{task("nobody", "t9"), func(tx ledger.Tx) error {
			return tx.Update(&ledger.Task{ID: "x", AgentID: "a"})
		}},
		unique: []insert{
			{"a task", task("a", "t1"), false},
			{"one of another agent with its id", task("b", "t1"), false},
			{"a second one with its id", task("a", "t1"), true},
		},
		cases: []conduct{{"open and newest tasks", testTasks}, {"open tasks stay", testPruneTasks}},
	}
}

func keepTasks() kept {
	task := filled(ledger.Task{ID: "t", AgentID: "a", Status: wire.Running})
	return kept{
		insert: func(tx ledger.Tx) error {
			if task.Status == wire.Completed {
				return nil
			}
			return tx.Insert(&task)
		},
		replace: func(tx ledger.Tx) error {
			task = ledger.Task{ID: "t", AgentID: "a", Status: wire.Completed, CreatedAt: now, UpdatedAt: now}
			return tx.Update(&task)
		},
		check: func(t *testing.T, v ledger.View) {
			one(t, task)(v.Task("a", "t"))
			only(t, task)(v.Tasks("a", 0))
		},
	}
}

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
