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
			func(tx ledger.Tx) error { return tx.UpdateAgent(ledger.Agent{ID: "x"}) },
			func(tx ledger.Tx) error { return tx.SaveAgentState(&ledger.AgentState{AgentID: "x"}) },
		},
		cases: []conduct{
			{"an id is used once", testAgentExists},
			{"lanes have one next step", testRevision},
		},
	}
}

func keepAgents() kept {
	agent, lane := filled(ledger.Agent{ID: "b"}), filled(ledger.AgentState{AgentID: "b"})
	agent.ArchivedAt = nil // or it were in no list
	lane.Revision, lane.EventSeq = 0, 0
	return kept{
		insert: func(tx ledger.Tx) error { return tx.InsertAgent(agent, lane) },
		replace: func(tx ledger.Tx) error {
			agent.Model, agent.UpdatedAt = "other/model", now.Add(1)
			lane = ledger.AgentState{AgentID: "b", UpdatedAt: now}
			if err := tx.UpdateAgent(agent); err != nil {
				return err
			}
			return tx.SaveAgentState(&lane)
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

func testAgentExists(t *testing.T, open Reopener) {
	s := opened(t, open, "a")
	wantCode(t, s.Update(t.Context(), addAgent("a")), ledger.CodeExists)
}

func testRevision(t *testing.T, open Reopener) {
	s := opened(t, open, "a")
	var stale ledger.AgentState
	write(t, s, func(tx ledger.Tx) (err error) { stale, err = tx.AgentState("a"); return err })
	write(t, s, onState("a", func(tx ledger.Tx, l *ledger.AgentState) error {
		l.Chain = "one"
		must(t, tx.SaveAgentState(l))
		equal(t, "revision", l.Revision, 1)
		l.Chain = "two" // again in the same step
		must(t, tx.SaveAgentState(l))
		equal(t, "revision", l.Revision, 2)
		got, err := tx.AgentState("a")
		equal(t, "chain", got.Chain, "two")
		return err
	}))
	wantCode(t, s.Update(t.Context(), func(tx ledger.Tx) error {
		return tx.SaveAgentState(&stale)
	}), ledger.CodeConflict)
	wantCode(t, s.Update(t.Context(), func(tx ledger.Tx) error {
		l := stale
		l.EventSeq = 7
		return tx.Append(&l, told(1, 4, 0)...)
	}), ledger.CodeConflict)
}

func stop(t *testing.T, s ledger.Store, agentID string, stopped bool) {
	t.Helper()
	write(t, s, onState(agentID, func(tx ledger.Tx, l *ledger.AgentState) error {
		l.Stopped = stopped
		return tx.SaveAgentState(l)
	}))
}
