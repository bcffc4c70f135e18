package ledgertest

import (
	"testing"

	"holon/state/ledger"
)

// agents are the agents and their states.
func agents() domain {
	return domain{
		name: "agents",
		keep: keepAgents,
		missing: func(v ledger.View) []error {
			return []error{second(v.Agent("x")), second(v.AgentState("x"))}
		},
		unknown: []update{
			func(tx ledger.Tx) error { return tx.Update(&ledger.Agent{ID: "x"}) },
			func(tx ledger.Tx) error { return tx.Step(&ledger.AgentState{AgentID: "x"}) },
		},
		unique: []insert{{"an id that is taken", addAgent("a"), true}},
		cases:  []conduct{{"states have one next step", testRevision}},
	}
}

func keepAgents() kept {
	agent, lane := filled(ledger.Agent{ID: "b"}), filled(ledger.AgentState{AgentID: "b"})
	agent.ArchivedAt = nil // or it were in no list
	lane.Revision, lane.EventSeq = 0, 0
	return kept{
		insert: func(tx ledger.Tx) error { return tx.Insert(&agent, &lane) },
		replace: func(tx ledger.Tx) error {
			agent.Model, agent.UpdatedAt = "other/model", now.Add(1)
			lane = ledger.AgentState{AgentID: "b", UpdatedAt: now}
			if err := tx.Update(&agent); err != nil {
				return err
			}
			return tx.Step(&lane)
		},
		check: func(t *testing.T, v ledger.View) {
			one(t, agent)(v.Agent("b"))
			one(t, lane)(v.AgentState("b"))
			list, err := v.Agents()
			must(t, err)
			equal(t, "agents", len(list), 2)
			one(t, agent)(list[1], nil)
		},
	}
}

func testRevision(t *testing.T, open Reopener) {
	s := opened(t, open, "a")
	var stale ledger.AgentState
	write(t, s, func(tx ledger.Tx) (err error) { stale, err = tx.AgentState("a"); return err })
	write(t, s, onState("a", func(tx ledger.Tx, l *ledger.AgentState) error {
		l.Chain = "one"
		must(t, tx.Step(l))
		equal(t, "revision", l.Revision, 1)
		l.Chain = "two" // again in the same transaction
		must(t, tx.Step(l))
		equal(t, "revision", l.Revision, 2)
		got, err := tx.AgentState("a")
		equal(t, "chain", got.Chain, "two")
		return err
	}))
	for what, change := range map[string]func(*ledger.AgentState){
		"a state that another step changed": func(*ledger.AgentState) {},
		"a number that no event has":        func(l *ledger.AgentState) { l.Revision, l.EventSeq = 2, 7 },
	} {
		l := stale
		change(&l)
		err := s.Update(t.Context(), func(tx ledger.Tx) error { return tx.Step(&l, told(1, 4, 0)...) })
		if wantCode(t, err, ledger.CodeConflict); err == nil {
			t.Error("the store takes " + what)
		}
	}
}

func stop(t *testing.T, s ledger.Store, agentID string, stopped bool) {
	t.Helper()
	write(t, s, onState(agentID, func(tx ledger.Tx, l *ledger.AgentState) error {
		l.Stopped = stopped
		return tx.Step(l)
	}))
}
