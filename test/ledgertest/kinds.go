package ledgertest

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"holon/state"
	"holon/state/ledger"
	"holon/test/expect"
)

// kinds returns a record of each kind with no field empty, in an order in which they can be inserted: agent b with its
// state, then records of agent a.
func kinds(text string, when time.Time) []ledger.Record {
	m, e := ledger.Message{ID: "m", AgentID: "a", Number: 9}, ledger.Entry{MessageID: "m", AgentID: "a", Number: 9}
	list := []ledger.Record{
		&ledger.Agent{ID: "b"}, &ledger.AgentState{AgentID: "b"}, &m, &e,
		&ledger.Attempt{ID: "t", AgentID: "a"}, &ledger.Prompt{AttemptID: "t"}, &ledger.Turn{ID: "turn", AgentID: "a"},
		&ledger.Wait{ID: "w", AgentID: "a"}, &ledger.Timer{ID: "timer", AgentID: "a"},
		&ledger.Trigger{ID: "trigger", AgentID: "a"}, &ledger.WorkItem{ID: "work", AgentID: "a"},
		&ledger.DeliverySummary{WorkItemID: "work", AgentID: "a"}, &ledger.Task{ID: "task", AgentID: "a"},
		&ledger.ExpiredOutput{TurnID: "turn", AgentID: "a"}, &ledger.Command{AgentID: "a", ID: "c"},
		&ledger.Workspace{ID: "workspace"}, &ledger.Tree{AgentID: "a", Name: "tree"}, &ledger.Event{AgentID: "a", Seq: 1},
		&ledger.OperatorBinding{ID: "binding", AgentID: "a"}, &ledger.Delivery{ID: "delivery", AgentID: "a"},
		&ledger.Memory{AgentID: "a"}, &ledger.Episode{ID: "episode", AgentID: "a"},
	}
	for _, r := range list {
		fill(reflect.ValueOf(r).Elem(), text, when)
	}
	m.Key, list[9].(*ledger.Trigger).TokenHash = "key", "hash" // which no record has as JSON
	list[18].(*ledger.OperatorBinding).TokenHash = "hash"
	list[8].(*ledger.Timer).Key, list[7].(*ledger.Wait).CallID = "key", "call"
	return list
}

func key(r ledger.Record) (values []any) {
	row := r.Row()
	for _, c := range row.Columns[:row.Key] {
		values = append(values, reflect.ValueOf(c.Value).Elem().Interface())
	}
	return values
}

// testKept writes every field of every kind, reads it in the same transaction, from
// outside and from a store that was opened again, then does so once more with all
// fields replaced.
func testKept(t *testing.T, open Reopener) {
	s := open(t)
	write(t, s, addAgent("a"))
	for _, step := range []struct {
		text   string
		change func(ledger.Tx, ...ledger.Record) error
	}{{"text <&> \x00\u2028", ledger.Tx.Insert}, {"another", ledger.Tx.Update}} {
		check := func(v ledger.View) {
			for _, want := range kinds(step.text, at(0)) {
				got := blank(want)
				expect.NoError(t, v.Rows.Get(got, key(want)...))
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%T came back changed (-written +read):\n%s", want, diff)
				}
			}
		}
		write(t, s, func(tx ledger.Tx) error {
			expect.NoError(t, step.change(tx, kinds(step.text, now)...))
			check(tx.View)
			return nil
		})
		look(t, s, check)
		expect.NoError(t, s.Close())
		s = open(t)
		look(t, s, check)
	}
	expect.NoError(t, s.Close())
}

func blank(r ledger.Record) ledger.Record {
	return reflect.New(reflect.TypeOf(r).Elem()).Interface().(ledger.Record)
}

// testAbsent reads, changes and adds to what is not there.
func testAbsent(t *testing.T, open Reopener) {
	s := opened(t, open)
	for _, r := range kinds("x", now) {
		look(t, s, func(v ledger.View) { wantCode(t, v.Rows.Get(blank(r), key(r)...), ledger.CodeNotFound) })
		wantCode(t, s.Update(t.Context(), func(tx ledger.Tx) error { return tx.Update(r) }), ledger.CodeNotFound)
		switch r.(type) {
		case *ledger.Agent, *ledger.Workspace, *ledger.Event: // belong to nothing, or to a step
			continue
		}
		wantCode(t, s.Update(t.Context(), func(tx ledger.Tx) error { return tx.Insert(r) }), ledger.CodeNotFound)
	}
	look(t, s, func(v ledger.View) {
		for i, err := range []error{absent(v.MessageByKey("a", "x")), absent(v.MessageByKey("a", "")),
			absent(v.Head("a")), absent(v.OpenAttempt("a")), absent(v.Prompt("x")), absent(v.UnresolvedWait("a", "x")),
			absent(v.DeliverySummary("x")), absent(v.TriggerByHash("x")), absent(v.NextDue(now)),
			absent(v.Memory("x")), absent(v.ExpiredOutput("x")), absent(v.Command("a", "x")), second(v.ReferredTurns("x")),
			second(v.Tasks("x", 1)), second(v.OpenTasks("x")), second(v.TaskAgents())} {
			if err != nil {
				t.Errorf("search %d: %v", i, err)
			}
		}
		page, err := v.Events("x", ledger.EventQuery{})
		expect.NoError(t, err)
		expect.Equal(t, "events", fmt.Sprint(seqs(page), page.Oldest, page.Newest, page.HasOlder, page.HasNewer),
			"[]0 0 false false")
	})
}

func second[T any](_ T, err error) error { return err }

func absent[T any](found T, ok bool, err error) error {
	if ok {
		return fmt.Errorf("found %v", found)
	}
	return err
}

// testUnique adds rows one after another, and some that those before them exclude.
func testUnique(t *testing.T, open Reopener) {
	s := opened(t, open, "a", "b")
	write(t, s, func(tx ledger.Tx) error { return tx.Insert(kinds("x", now)[2:]...) })
	for _, r := range kinds("x", now)[2:] {
		wantCode(t, s.Update(t.Context(), func(tx ledger.Tx) error { return tx.Insert(r) }), ledger.CodeConflict)
	}
	wantCode(t, s.Update(t.Context(), addAgent("a")), ledger.CodeConflict)
	for _, c := range exclusions() {
		err := s.Update(t.Context(), func(tx ledger.Tx) error { return tx.Insert(c.row) })
		if wantRefused := state.IsCode(err, ledger.CodeConflict); wantRefused != c.refused || !c.refused && err != nil {
			t.Errorf("%s: refused %v (%v), want %v", c.what, wantRefused, err, c.refused)
		}
	}
	wantCode(t, s.Update(t.Context(), func(tx ledger.Tx) error {
		// one that begins again
		return tx.Update(&ledger.Wait{ID: "w4", AgentID: "a", Owner: "agent", Status: ledger.WaitActive})
	}), ledger.CodeConflict)
}

// exclusion is a row that is added after those before it, and whether one of them excludes it.
type exclusion struct {
	what    string
	row     ledger.Record
	refused bool
}

func exclusions() []exclusion {
	keyed := func(id, agentID string, n int64, key string) ledger.Record {
		return &ledger.Message{ID: id, AgentID: agentID, Number: n, Key: key}
	}
	attempt := func(id, agentID string, status ledger.AttemptStatus) ledger.Record {
		return &ledger.Attempt{ID: id, AgentID: agentID, Status: status}
	}
	wait := func(id, owner string, status ledger.WaitStatus) ledger.Record {
		return &ledger.Wait{ID: id, AgentID: "a", Owner: owner, Status: status}
	}
	timer := func(id, key string) ledger.Record { return &ledger.Timer{ID: id, AgentID: "a", Key: key} }
	return []exclusion{
		{"a message with a key", keyed("m1", "a", 1, "k"), false},
		{"its key again", keyed("m2", "a", 2, "k"), true},
		{"its number again", keyed("m2", "a", 1, ""), true},
		{"its key for another agent", keyed("m3", "b", 1, "k"), false},
		{"no key", keyed("m4", "a", 2, ""), false},
		{"no key again", keyed("m5", "a", 3, ""), false},
		{"an open attempt", attempt("t1", "a", ledger.AttemptOpen), false},
		{"a second open one", attempt("t2", "a", ledger.AttemptOpen), true},
		{"one of another agent", attempt("t3", "b", ledger.AttemptOpen), false},
		{"one that is settled", attempt("t4", "a", ledger.AttemptSettled), false},
		{"a turn", &ledger.Turn{ID: "u1", AgentID: "a", Index: 5}, false},
		{"its index again", &ledger.Turn{ID: "u2", AgentID: "a", Index: 5}, true},
		{"a wait", wait("w1", "agent", ledger.WaitTriggered), false},
		{"a second one of the owner", wait("w2", "agent", ledger.WaitActive), true},
		{"one of another owner", wait("w3", "work", ledger.WaitActive), false},
		{"one that is over", wait("w4", "agent", ledger.WaitResolved), false},
		{"a timer with a key", timer("r1", "k"), false},
		{"its key again", timer("r2", "k"), true},
		{"a timer without a key", timer("r3", ""), false},
		{"another", timer("r4", ""), false},
		{"a trigger", &ledger.Trigger{ID: "x1", AgentID: "a", TokenHash: "h"}, false},
		{"its token again", &ledger.Trigger{ID: "x2", AgentID: "a", TokenHash: "h"}, true},
		{"a task of another agent", &ledger.Task{ID: "task", AgentID: "b"}, false},
		{"a command of another agent", &ledger.Command{AgentID: "b", ID: "c"}, false},
		{"an episode", &ledger.Episode{ID: "e1", AgentID: "a", Number: 5}, false},
		{"its number again", &ledger.Episode{ID: "e2", AgentID: "a", Number: 5}, true},
		{"its number for another agent", &ledger.Episode{ID: "e3", AgentID: "b", Number: 5}, false},
	}
}
