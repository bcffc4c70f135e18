package ledgertest

import (
	"testing"
	"time"

	"holon/state/ledger"
)

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
