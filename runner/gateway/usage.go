package gateway

import (
	"cmp"
	"maps"
	"slices"

	"holon/state"
)

// Tokens, Usage, Budget and Account are as the record of a run has them.
type (
	Tokens  = state.Tokens
	Usage   = state.Usage
	Budget  = state.Budget
	Account = state.Account
)

// plus returns the sum of both.
func plus(u, v Usage) Usage {
	return Usage{
		Requests: add(u.Requests, v.Requests), Estimated: add(u.Estimated, v.Estimated),
		Unpriced: add(u.Unpriced, v.Unpriced),
		Tokens: Tokens{
			Input: add(u.Input, v.Input), CacheRead: add(u.CacheRead, v.CacheRead),
			CacheWrite: add(u.CacheWrite, v.CacheWrite),
			Output:     add(u.Output, v.Output), Reasoning: add(u.Reasoning, v.Reasoning),
		},
		Total: add(u.Total, v.Total), Cost: add(u.Cost, v.Cost),
	}
}

// Sum adds an account to a sum of accounts of one budget, nil for the first.
func Sum(sum, a *Account) *Account {
	total := Account{Usage: a.Usage, Budget: a.Budget, Exhausted: a.Exhausted, Models: maps.Clone(a.Models),
		Refused: slices.Clone(a.Refused), ListPricesOf: a.ListPricesOf}
	if sum == nil {
		return &total
	}
	total.Usage, total.Exhausted = plus(sum.Usage, a.Usage), cmp.Or(sum.Exhausted, a.Exhausted)
	total.ListPricesOf = max(sum.ListPricesOf, a.ListPricesOf)
	for model, u := range sum.Models {
		total.Models[model] = plus(total.Models[model], u)
	}
	total.Refused = slices.Compact(slices.Sorted(slices.Values(append(total.Refused, sum.Refused...))))
	return &total
}

// usageOf is the usage of one request that was counted before, on its end.
func usageOf(t Tokens, price *Price, estimated bool) Usage {
	u := Usage{Tokens: t, Total: t.Input + t.Output}
	if price != nil {
		u.Cost = price.cost(t)
	} else {
		u.Unpriced = 1
	}
	if estimated {
		u.Estimated = 1
	}
	return u
}
