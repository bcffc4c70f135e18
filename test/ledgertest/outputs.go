package ledgertest

import (
	"fmt"
	"testing"

	"holon/state/ledger"
)

func testReferred(t *testing.T, open Reopener) {
	s := opened(t, open, "a", "b")
	of := func(turns ...string) (list []ledger.Event) {
		for _, id := range turns {
			list = append(list, ledger.Event{TurnID: id, Class: "x", CreatedAt: now})
		}
		return list
	}
	write(t, s, appendEvents("a", of("", "t1", "t2", "t1", "")...))
	write(t, s, appendEvents("b", of("t3")...))
	referred := func(want string) {
		t.Helper()
		look(t, s, func(v ledger.View) {
			a, err := v.ReferredTurns("a")
			must(t, err)
			equal(t, "turns of a", fmt.Sprint(a), want)
		})
	}
	referred("map[t1:4 t2:3]")
	prune(t, s, ledger.Retention{MaxEvents: 2}, now, 100)
	referred("map[t1:4]")
}

func testPruneOutputs(t *testing.T, open Reopener) {
	s := opened(t, open, "a")
	write(t, s, func(tx ledger.Tx) error {
		must(t, tx.Insert(&ledger.ExpiredOutput{TurnID: "t1", AgentID: "a", At: at(-3 * day)}))
		return tx.Insert(&ledger.ExpiredOutput{TurnID: "t2", AgentID: "a", At: at(-day)})
	})
	prune(t, s, ledger.Retention{Messages: 2 * day}, now, 100)
	look(t, s, func(v ledger.View) {
		must(t, absent(v.ExpiredOutput("t1")))
		_, ok, err := v.ExpiredOutput("t2")
		must(t, err)
		equal(t, "the younger one is known", ok, true)
	})
}
