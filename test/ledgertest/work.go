package ledgertest

import (
	"testing"
	"time"

	"holon/state/ledger"
)

// work are the work items of an agent and what was reported of them.
func work() domain {
	item := func(id, agent string) update {
		return func(tx ledger.Tx) error {
			return tx.Insert(&ledger.WorkItem{ID: id, AgentID: agent, State: ledger.WorkOpen})
		}
	}
	summary := func(id, item string) update {
		return func(tx ledger.Tx) error {
			return tx.Insert(&ledger.DeliverySummary{ID: id, AgentID: "a", WorkItemID: item})
		}
	}
	return domain{
		name:    "work",
		keep:    keepWork,
		missing: func(v ledger.View) []error { return []error{second(v.WorkItem("x"))} },
		empty:   func(v ledger.View) []error { return []error{absent(v.DeliverySummary("x"))} },
		unknown: []update{func(tx ledger.Tx) error { return tx.Update(&ledger.WorkItem{ID: "x", AgentID: "a"}) },
			item("w9", "nobody")},
		unique: []insert{
			{"a work item", item("w1", "a"), false},
			{"a second one with its id", item("w1", "b"), true},
			{"a report", summary("d1", "w1"), false},
			{"a second one of the item", summary("d2", "w1"), true},
		},
		cases: []conduct{{"open, completed and due items", testWork}},
	}
}

func keepWork() kept {
	w := filled(ledger.WorkItem{ID: "w", AgentID: "a", State: ledger.WorkOpen})
	d := filled(ledger.DeliverySummary{ID: "d", AgentID: "a", WorkItemID: "w"})
	reported := false
	return kept{
		insert: func(tx ledger.Tx) error {
			if err := tx.Insert(&w); err != nil || reported {
				return err
			}
			reported = true
			return tx.Insert(&d)
		},
		replace: func(tx ledger.Tx) error {
			w = ledger.WorkItem{ID: "w", AgentID: "a", State: ledger.WorkOpen, CreatedAt: now, UpdatedAt: now,
				Todo: []ledger.Todo{}}
			return tx.Update(&w)
		},
		check: func(t *testing.T, v ledger.View) {
			one(t, w)(v.WorkItem("w"))
			only(t, w)(v.OpenWork("a"))
			found(t, d)(v.DeliverySummary("w"))
		},
	}
}

func testWork(t *testing.T, open Reopener) {
	s := opened(t, open, "a", "b")
	at := func(minutes int) *time.Time {
		m := now.Add(time.Duration(minutes) * time.Minute)
		return &m
	}
	write(t, s, func(tx ledger.Tx) error {
		for _, w := range []ledger.WorkItem{
			{ID: "w1", AgentID: "a", State: ledger.WorkCompleted, CompletedAt: at(2)},
			{ID: "w2", AgentID: "a", State: ledger.WorkOpen, BlockedBy: "x", RecheckAt: at(5)},
			{ID: "w3", AgentID: "b", State: ledger.WorkOpen, BlockedBy: "x", RecheckAt: at(3)},
			{ID: "w4", AgentID: "a", State: ledger.WorkCompleted, CompletedAt: at(1)},
			{ID: "w5", AgentID: "a", State: ledger.WorkOpen, BlockedBy: "x", RecheckAt: at(1), RecheckConsumedAt: at(1)},
			{ID: "w6", AgentID: "a", State: ledger.WorkCompleted, CompletedAt: at(3), RecheckAt: at(1)},
		} {
			must(t, tx.Insert(&w))
		}
		return nil
	})
	ids := names(t, func(w ledger.WorkItem) string { return w.ID })
	shows := func(due string) {
		t.Helper()
		look(t, s, func(v ledger.View) {
			equal(t, "open", ids(v.OpenWork("a")), "[w2 w5]")
			equal(t, "completed", ids(v.CompletedWork("a", 2)), "[w1 w6]")
			equal(t, "due", ids(v.DueWork(now.Add(time.Hour), 10)), due)
		})
	}
	shows("[w3 w2]")
	look(t, s, func(v ledger.View) {
		next, ok, err := v.NextDue(now)
		if err != nil || !ok || !next.Equal(at(3).Truncate(time.Millisecond)) {
			t.Errorf("next due: %v %v (%v), want %v", next, ok, err, *at(3))
		}
	})
	for _, stopped := range []bool{true, false} { // the time of a stopped agent does not come
		stop(t, s, "b", stopped)
		shows(map[bool]string{true: "[w2]", false: "[w3 w2]"}[stopped])
	}
}
