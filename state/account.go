package state

import (
	"encoding/json"
	"fmt"
	"strings"

	"holon/responses"
	"holon/responses/turns"
)

// Amount is money in millionths of the unit in which the user wrote the prices:
// no currency is known.
type Amount int64

const unit = 1_000_000

// String returns the amount in units, without needless zeros.
func (a Amount) String() string {
	sign := ""
	if a < 0 {
		sign, a = "-", -a
	}
	text := fmt.Sprintf("%s%d.%06d", sign, a/unit, a%unit)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}

// Tokens counts what a model read and wrote, as providers count.
type Tokens struct {
	Input      int64 `json:"input_tokens"`       // all of it, cached or not
	CacheRead  int64 `json:"cached_tokens"`      // of Input: the provider had it cached
	CacheWrite int64 `json:"cache_write_tokens"` // of Input: the provider cached it now
	Output     int64 `json:"output_tokens"`      // reasoning included
	Reasoning  int64 `json:"reasoning_tokens"`   // of Output
}

// HostBudget is the setting with the bound of everything on a host that Account.Exhausted names: day_tokens, day_cost,
// all_tokens or all_cost. It is "" for any other bound.
func HostBudget(bound string) string {
	switch period, what, _ := strings.Cut(bound, "_"); bound {
	case "day_tokens", "day_cost", "all_tokens", "all_cost":
		return "budgets." + period + ".max_" + what
	}
	return ""
}

// Responses returns the counts in the form of the protocol.
func (t Tokens) Responses(estimated bool) responses.Usage {
	return responses.Usage{InputTokens: t.Input, OutputTokens: t.Output, TotalTokens: t.Input + t.Output,
		InputTokenDetails:  responses.InputTokenDetails{CachedTokens: t.CacheRead},
		OutputTokenDetails: responses.OutputTokenDetails{ReasoningTokens: t.Reasoning}, Estimated: estimated}
}

// Usage is what a number of requests took.
type Usage struct {
	Requests int64 `json:"requests"` // passed on to a provider
	// of Requests: the provider did not say, or the answer broke off; estimated from its size
	Estimated int64 `json:"estimated_requests"`
	Unpriced  int64 `json:"unpriced_requests"` // of Requests: for models without a price, not in Cost
	Tokens
	Total int64  `json:"total_tokens"` // Input + Output
	Cost  Amount `json:"cost_micros"`
}

// Approximately is the mark before a number of which a part is an estimate.
const Approximately = turns.Approximately

// Mark is Approximately where a part of the usage is estimated, else "".
func (u Usage) Mark() string {
	if u.Estimated > 0 {
		return Approximately
	}
	return ""
}

// Spent is what something cost, for a person.
type Spent struct {
	Cost         Amount
	Estimated    bool   // a part of it
	Unpriced     bool   // some requests have no price and are not in Cost
	ListPricesOf string // see Account
}

// Spent returns what an account has of money.
func (a Account) Spent() Spent {
	return Spent{a.Cost, a.Estimated > 0, a.Unpriced > 0, a.ListPricesOf}
}

// Recorded is the record of what a turn cost. The gateway metered it, or no provider was asked and its container
// counted.
func (s Spent) Recorded(tokens int64, metered bool) turns.Cost {
	c := turns.Cost{Amount: "unknown", PriceSource: "unknown", Tokens: tokens, Estimated: s.Estimated}
	if metered {
		c.CountedBy = "gateway"
	}
	if metered && !s.Unpriced {
		c.Amount, c.PriceSource = json.RawMessage(s.Cost.String()), "settings"
		if s.ListPricesOf != "" {
			c.PriceSource = "list of " + s.ListPricesOf
		}
	}
	return c
}

// Short returns for example "~0.0123", and "unknown" where no request had a price.
func (s Spent) Short() string {
	switch {
	case s.Cost == 0 && s.Unpriced:
		return "unknown"
	case s.Estimated && s.Cost > 0:
		return Approximately + s.Cost.String()
	}
	return s.Cost.String()
}

// String is Short with what it rests on: "~0.0123 (list prices of 2026-11-06)".
func (s Spent) String() string {
	text, notes := s.Short(), []string(nil)
	if s.Cost == 0 && s.Unpriced {
		return text
	}
	if s.ListPricesOf != "" {
		notes = append(notes, "list prices of "+s.ListPricesOf)
	}
	if s.Unpriced {
		notes = append(notes, "without models that have no price")
	}
	if len(notes) > 0 {
		text += " (" + strings.Join(notes, "; ") + ")"
	}
	return text
}

// Budget bounds what a grant may take; 0 means no bound. It is looked at before
// a request is passed on: an answer that began is not cut short, so the requests
// that ran when a bound was reached are what it can be exceeded by.
type Budget struct {
	MaxRequests int64  `json:"max_requests"`
	MaxTokens   int64  `json:"max_tokens"`      // Usage.Total
	MaxCost     Amount `json:"max_cost_micros"` // needs a Price for every model of the grant
}

// Account says what was taken of a budget.
type Account struct {
	Usage
	Budget Budget `json:"budget"`
	// the bound for which a request was refused: max_requests, max_tokens, max_cost, of an agent's tree tree_tokens,
	// tree_cost, of the home day_tokens, day_cost, all_tokens, all_cost; "" for none
	Exhausted string           `json:"exhausted"`
	Models    map[string]Usage `json:"models"` // by reference
	// date of the list prices by which part of the cost was counted; "": all prices were set
	ListPricesOf string   `json:"list_prices_of"`
	Refused      []string `json:"refused"` // features that were asked for and usage that was claimed, each once
}

// MarshalJSON escapes <, > and & in names, as every manifest has them.
func (a Account) MarshalJSON() ([]byte, error) {
	type plain Account
	return json.Marshal(plain(a))
}
