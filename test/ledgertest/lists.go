package ledgertest

import (
	"errors"
	"fmt"
	"testing"

	"holon/state/ledger"
	"holon/test/expect"
)

// testTails has five records of each kind for each of two agents, 0 to 4: a list of an agent ends with the newest.
func testTails(t *testing.T, open Reopener) {
	s := opened(t, open, "a", "b")
	for n := range int64(5) {
		for _, agent := range []string{"a", "b"} {
			id := fmt.Sprint(agent, n)
			m, e := message(agent, n+1, ledger.Normal)
			m.ID, e.MessageID = id, id
			write(t, s, func(tx ledger.Tx) error {
				return errors.Join(tx.Insert(m, e),
					tx.Insert(&ledger.Turn{ID: id, AgentID: agent, Index: n + 1}),
					tx.Insert(&ledger.Timer{ID: id, AgentID: agent}),
					tx.Insert(&ledger.Brief{ID: id, AgentID: agent}),
					tx.Insert(&ledger.Notification{ID: id, AgentID: agent}))
			})
		}
	}
	look(t, s, func(v ledger.View) {
		tail(t, "messages", v.Messages, func(x ledger.Message) string { return x.ID })
		tail(t, "turns", v.Turns, func(x ledger.Turn) string { return x.ID })
		tail(t, "timers", v.Timers, func(x ledger.Timer) string { return x.ID })
		tail(t, "briefs", v.Briefs, func(x ledger.Brief) string { return x.ID })
		tail(t, "notifications", v.Notifications, func(x ledger.Notification) string { return x.ID })
	})
}

func tail[T any](t *testing.T, what string, list func(string, int) ([]T, error), id func(T) string) {
	t.Helper()
	for limit, want := range map[int]string{2: "[a3 a4]", 9: "[a0 a1 a2 a3 a4]", 0: "[a0 a1 a2 a3 a4]"} {
		expect.Equal(t, fmt.Sprintf("%s, limit %d", what, limit), names(t, id)(list("a", limit)), want)
	}
}

// names is a list by what names its records.
func names[T, N any](t *testing.T, name func(T) N) func([]T, error) string {
	return func(list []T, err error) string {
		t.Helper()
		expect.NoError(t, err)
		all := []N{}
		for _, x := range list {
			all = append(all, name(x))
		}
		return fmt.Sprint(all)
	}
}

func numberOf(e ledger.Entry) int64 { return e.Number }
func waitID(w ledger.Wait) string   { return w.ID }
