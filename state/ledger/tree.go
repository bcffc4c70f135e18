package ledger

import "holon/state"

// TreeAccount is what a public agent and all private agents below it have taken together, and what they may take; a
// bound of 0 is none.
type TreeAccount struct {
	MaxTokens     int64        `json:"max_tokens,omitempty"`
	MaxCost       state.Amount `json:"max_cost_micros,omitempty"`
	MaxContainers int          `json:"max_containers,omitempty"` // at a time
	Tokens        int64        `json:"tokens,omitempty"`
	Cost          state.Amount `json:"cost_micros,omitempty"`
	Spent         string       `json:"spent,omitempty"` // the bound that was reached: tokens, cost; "": the agents go on
}

// Reached returns the bound that is reached, "" for none.
func (a TreeAccount) Reached() string {
	switch {
	case a.MaxTokens > 0 && a.Tokens >= a.MaxTokens:
		return "tokens"
	case a.MaxCost > 0 && a.Cost >= a.MaxCost:
		return "cost"
	}
	return ""
}
