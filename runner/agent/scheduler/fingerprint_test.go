package scheduler_test

import (
	"fmt"

	"holon/runner/agent/record"
	"holon/state/ledger"
)

// fingerprint is what of the ledger must not depend on crashes: everything but
// ids, numbers of events and times.
func (w *world) fingerprint() (list []string) {
	w.view(func(v ledger.View) error {
		for _, id := range w.all() {
			l, err := v.AgentState(id)
			if err != nil {
				return err
			}
			l.Totals.LastTurn = nil // its address says nothing
			list = append(list, fmt.Sprintf("%s: turns %d, %+v, wake %s", id, l.Turns, l.Totals, l.LastWake))
			msgs, err := v.Messages(id, 10_000)
			if err != nil {
				return err
			}
			for _, m := range msgs {
				e, err := v.Entry(m.ID)
				if err != nil {
					return err
				}
				list = append(list, fmt.Sprintf("%s: %d %s %s %q %s", id, m.Number, m.Kind, m.Priority, m.Body.Text,
					e.Status))
			}
			turns, err := v.Turns(id, 10_000)
			if err != nil {
				return err
			}
			for _, t := range turns {
				list = append(list, fmt.Sprintf("%s: turn %d %s %s of %d tools", id, t.Index, t.Kind, t.Reason,
					t.ToolCalls))
			}
			list = append(list, w.counts(v, id)...)
		}
		return nil
	})
	return list
}

// counts is how often what an operator sees was recorded.
func (w *world) counts(v ledger.View, id string) (list []string) {
	page, err := v.Events(id, ledger.EventQuery{Limit: 100_000})
	if err != nil {
		w.t.Fatalf("%v", err)
	}
	n := map[string]int{}
	for _, e := range page.Events {
		n[record.Of(e).Name]++
	}
	for _, typ := range []string{record.WaitRegistered, record.WaitCancelled, record.TimerFired, record.SystemTickEmitted,
		record.BriefCreated, record.ToolExecuted, record.TurnStarted} {
		list = append(list, fmt.Sprintf("%s: %s %d", id, typ, n[typ]))
	}
	waits, err := v.UnresolvedWaits(id)
	if err != nil {
		w.t.Fatalf("%v", err)
	}
	for _, wait := range waits {
		list = append(list, fmt.Sprintf("%s: %s waits %s %s", id, wait.Owner, wait.Kind, wait.Status))
	}
	return list
}
