package ledgertest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"holon/state"
	"holon/state/ledger"
	"holon/test/expect"
)

// opened opens a store that is closed with the test and has the agents.
func opened(t *testing.T, open Reopener, agents ...string) ledger.Store {
	t.Helper()
	s := open(t)
	t.Cleanup(func() { expect.NoError(t, s.Close()) })
	for _, id := range agents {
		write(t, s, addAgent(id))
	}
	return s
}

func addAgent(id string) func(tx ledger.Tx) error {
	return func(tx ledger.Tx) error {
		return tx.Insert(&ledger.Agent{ID: id, CreatedAt: now}, &ledger.AgentState{AgentID: id})
	}
}

func write(t *testing.T, s ledger.Store, fn func(tx ledger.Tx) error) {
	t.Helper()
	expect.NoError(t, s.Update(t.Context(), fn))
}

func look(t *testing.T, s ledger.Store, fn func(v ledger.View)) {
	t.Helper()
	expect.NoError(t, s.View(t.Context(), func(v ledger.View) error { fn(v); return nil }))
}

func wantCode(t *testing.T, err error, code state.Code) {
	t.Helper()
	if !state.IsCode(err, code) {
		t.Errorf("error %v, want one with code %s", err, code)
	}
}

// message is the n-th of an agent, with its entry in the queue.
func message(agentID string, n int64, p ledger.Priority) (*ledger.Message, *ledger.Entry) {
	id := fmt.Sprintf("msg_%06d_%s", n, agentID)
	m := &ledger.Message{ID: id, AgentID: agentID, Number: n, CreatedAt: at(0), Kind: ledger.KindOperatorPrompt,
		Priority: p, Body: ledger.Body{Type: "text", Text: id}}
	return m, &ledger.Entry{MessageID: id, AgentID: agentID, Number: n, Priority: p, Status: ledger.Queued,
		CreatedAt: at(0), UpdatedAt: at(0)}
}

func admit(t *testing.T, s ledger.Store, agentID string, n int64) {
	t.Helper()
	write(t, s, func(tx ledger.Tx) error {
		for i := range n {
			if err := tx.Insert(message(agentID, i+1, ledger.Normal)); err != nil {
				return err
			}
		}
		return nil
	})
}

func dispose(t *testing.T, s ledger.Store, messageID string, status ledger.EntryStatus, attemptID string) {
	t.Helper()
	write(t, s, func(tx ledger.Tx) error {
		e, err := tx.Entry(messageID)
		if err != nil {
			return err
		}
		e.Status, e.AttemptID = status, attemptID
		return tx.Update(&e)
	})
}

// appendEvents is the step of an agent that does nothing but tell.
func appendEvents(agentID string, events ...ledger.Event) update {
	return onState(agentID, func(tx ledger.Tx, l *ledger.AgentState) error {
		return tx.Step(l, events...)
	})
}

func onState(agentID string, fn func(ledger.Tx, *ledger.AgentState) error) update {
	return func(tx ledger.Tx) error {
		l, err := tx.AgentState(agentID)
		if err != nil {
			return err
		}
		return fn(tx, &l)
	}
}

// newEvents makes n events of a level, the first at a time after now.
func newEvents(n, level int, after time.Duration) []ledger.Event {
	events := make([]ledger.Event, n)
	for i := range events {
		events[i] = ledger.Event{ID: fmt.Sprint("evt_", i), CreatedAt: at(after), Class: "progress", Level: level}
	}
	return events
}

func seqs(p ledger.EventPage) string {
	list := []int64{}
	for _, e := range p.Events {
		list = append(list, e.Seq)
	}
	return fmt.Sprint(list)
}

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
					tx.Insert(&ledger.Notification{ID: id, AgentID: agent}),
					tx.Insert(&ledger.Delivery{ID: id, AgentID: agent}),
					tx.Insert(&ledger.Episode{ID: id, AgentID: agent, Number: n + 1}))
			})
		}
	}
	look(t, s, func(v ledger.View) {
		tail(t, "messages", v.Messages, func(x ledger.Message) string { return x.ID })
		tail(t, "turns", v.Turns, func(x ledger.Turn) string { return x.ID })
		tail(t, "timers", v.Timers, func(x ledger.Timer) string { return x.ID })
		tail(t, "briefs", v.Briefs, func(x ledger.Brief) string { return x.ID })
		tail(t, "notifications", v.Notifications, func(x ledger.Notification) string { return x.ID })
		tail(t, "deliveries", v.Deliveries, func(x ledger.Delivery) string { return x.ID })
		tail(t, "episodes", v.Episodes, func(x ledger.Episode) string { return x.ID })
		after := names(t, func(x ledger.Episode) string { return x.ID })
		expect.Equal(t, "episodes after the second", after(v.EpisodesAfter("a", 2, 2)), "[a2 a3]")
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
