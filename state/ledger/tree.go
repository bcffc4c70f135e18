package ledger

import (
	"cmp"

	"holon/state"
)

// TreeAccount is what a public agent and all private agents below it have taken together, and what they may take; a
// bound of 0 is that of the settings, or none.
type TreeAccount struct {
	MaxTokens     int64        `json:"max_tokens,omitempty"`
	MaxCost       state.Amount `json:"max_cost_micros,omitempty"`
	MaxContainers int          `json:"max_containers,omitempty"` // at a time
	Tokens        int64        `json:"tokens,omitempty"`
	Cost          state.Amount `json:"cost_micros,omitempty"`
	Estimated     bool         `json:"estimated,omitempty"`      // a part of Tokens and Cost
	Unpriced      bool         `json:"unpriced,omitempty"`       // some requests have no price and are not in Cost
	ListPricesOf  string       `json:"list_prices_of,omitempty"` // date of the list prices in Cost; "": it has none
	// the bound that was reached: tokens, cost, or of the host: day_tokens, day_cost, all_tokens, all_cost; "": the
	// agents go on
	Spent string `json:"spent,omitempty"`
}

// TreeBounds are what the settings allow an agent and the agents below it for which nothing else was set; 0: no bound.
type TreeBounds struct {
	MaxTokens int64
	MaxCost   state.Amount
}

// Within returns the account with the bounds b where it has none of its own.
func (a TreeAccount) Within(b TreeBounds) TreeAccount {
	a.MaxTokens, a.MaxCost = cmp.Or(a.MaxTokens, b.MaxTokens), cmp.Or(a.MaxCost, b.MaxCost)
	return a
}

// Reached returns the bound of its own that is reached, "" for none.
func (a TreeAccount) Reached() string {
	switch {
	case a.MaxTokens > 0 && a.Tokens >= a.MaxTokens:
		return boundTokens
	case a.MaxCost > 0 && a.Cost >= a.MaxCost:
		return boundCost
	}
	return ""
}

const (
	boundTokens = "tokens"
	boundCost   = "cost"
)

// SpentByHost reports whether the agents pause for a bound of everything on the host.
func (a TreeAccount) SpentByHost() bool { return state.HostBudget(a.Spent) != "" }

// Money is the cost for a person.
func (a TreeAccount) Money() state.Spent {
	return state.Spent{Cost: a.Cost, Estimated: a.Estimated, Unpriced: a.Unpriced, ListPricesOf: a.ListPricesOf}
}
