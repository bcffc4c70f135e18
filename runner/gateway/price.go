package gateway

import (
	"math"
	"math/bits"

	"holon/state"
)

// Amount is money in millionths of the unit in which the user wrote the prices:
// the gateway knows no currency.
type Amount = state.Amount

const unit = 1_000_000

// maxAmount bounds what is believed of one request, so that sums stay in range.
const maxAmount Amount = 1e9 * unit

// Price is what a million tokens of one model cost.
type Price struct {
	Input      Amount
	Output     Amount  // reasoning included
	CacheRead  *Amount // input that the provider had cached; nil: as Input
	CacheWrite *Amount // input that it cached; nil: as Input
	ListOf     string  // date of the list prices from which it is; "": the user set it
}

// Prices are those of models by their references, provider/model.
type Prices map[string]Price

// cost returns what usage costs, rounded up.
func (p Price) cost(u Tokens) Amount {
	read, write := p.Input, p.Input
	if p.CacheRead != nil {
		read = *p.CacheRead
	}
	if p.CacheWrite != nil {
		write = *p.CacheWrite
	}
	fresh := max(0, u.Input-u.CacheRead-u.CacheWrite)
	return charge(fresh, p.Input) + charge(u.CacheRead, read) + charge(u.CacheWrite, write) + charge(u.Output, p.Output)
}

// charge is tokens × price ÷ a million, rounded up, at most what sums can bear.
func charge(tokens int64, price Amount) Amount {
	hi, lo := bits.Mul64(uint64(tokens), uint64(price))
	if hi >= unit {
		return maxAmount
	}
	whole, rest := bits.Div64(hi, lo, unit)
	if rest > 0 {
		whole++
	}
	return Amount(min(whole, uint64(maxAmount)))
}

// add is a+b, at most the largest number.
func add[N ~int64](a, b N) N {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
