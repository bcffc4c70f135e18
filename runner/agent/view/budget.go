package view

import (
	"holon/state"
	"holon/state/ledger"
)

// TreeBudget is what an agent and all private agents below it have taken together, and what they may take; 0 is no
// bound.
type TreeBudget struct {
	AgentID       string       `json:"agent_id"`
	MaxTokens     int64        `json:"max_tokens"`
	MaxCost       state.Amount `json:"max_cost_micros"`
	MaxContainers int          `json:"max_containers"`
	Tokens        int64        `json:"tokens"`
	Cost          state.Amount `json:"cost_micros"`
	Spent         string       `json:"spent,omitempty"` // tokens, cost: the bound for which they pause
	Children      int          `json:"children"`        // that go on
}

// Budget is the account of an agent and the private agents below it. Errors are those of Summary.
func (s Snapshot) Budget(agentID string) (TreeBudget, error) {
	if _, err := s.shown(agentID); err != nil {
		return TreeBudget{}, err
	}
	stored, err := s.ledger.AgentState(agentID)
	if err != nil {
		return TreeBudget{}, err
	}
	n, err := below(s.ledger, agentID)
	t := stored.Tree
	return TreeBudget{agentID, t.MaxTokens, t.MaxCost, t.MaxContainers, t.Tokens, t.Cost, t.Spent, n}, err
}

// below is how many private agents go on below an agent.
func below(v ledger.View, agentID string) (n int, err error) {
	open, err := v.OpenChildren(agentID)
	for _, t := range open {
		more, err := below(v, t.Child().AgentID)
		if err != nil {
			return 0, err
		}
		n += 1 + more
	}
	return n, err
}
