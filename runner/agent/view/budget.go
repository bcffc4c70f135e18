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
	Estimated     bool         `json:"estimated"`                // a part of tokens and cost
	Unpriced      bool         `json:"unpriced"`                 // some requests have no price and are not in the cost
	ListPricesOf  string       `json:"list_prices_of,omitempty"` // date of the list prices in the cost
	// the bound for which they pause: tokens, cost, or of the host: day_tokens, day_cost, all_tokens, all_cost
	Spent    string      `json:"spent,omitempty"`
	Children int         `json:"children"`       // that go on
	Host     *HostBudget `json:"host,omitempty"` // absent where the host keeps no account
}

// Money is the cost for a person.
func (b TreeBudget) Money() state.Spent {
	return state.Spent{Cost: b.Cost, Estimated: b.Estimated, Unpriced: b.Unpriced, ListPricesOf: b.ListPricesOf}
}

// HostBudget is what everything on the host has taken, and may take; 0 is no bound.
type HostBudget struct {
	Day          string       `json:"day"` // of UTC
	DayTokens    int64        `json:"day_tokens"`
	DayCost      state.Amount `json:"day_cost_micros"`
	Tokens       int64        `json:"tokens"` // of all days
	Cost         state.Amount `json:"cost_micros"`
	MaxDayTokens int64        `json:"max_day_tokens"`
	MaxDayCost   state.Amount `json:"max_day_cost_micros"`
	MaxTokens    int64        `json:"max_tokens"`
	MaxCost      state.Amount `json:"max_cost_micros"`
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
	b := s.budget(agentID, stored.Tree)
	b.Children, err = below(s.ledger, agentID)
	return b, err
}

// budget is the account of an agent, without the number of its children.
func (s Snapshot) budget(agentID string, t ledger.TreeAccount) TreeBudget {
	if s.facts.Bounds != nil {
		t = t.Within(s.facts.Bounds())
	}
	b := TreeBudget{AgentID: agentID, MaxTokens: t.MaxTokens, MaxCost: t.MaxCost, MaxContainers: t.MaxContainers,
		Tokens: t.Tokens, Cost: t.Cost, Estimated: t.Estimated, Unpriced: t.Unpriced, ListPricesOf: t.ListPricesOf,
		Spent: t.Spent}
	if s.facts.HostBudget != nil {
		b.Host = s.facts.HostBudget()
	}
	return b
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
