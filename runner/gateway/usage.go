package gateway

// Tokens counts what a model read and wrote, as providers count.
type Tokens struct {
	Input      int64 `json:"input_tokens"`       // all of it, cached or not
	CacheRead  int64 `json:"cached_tokens"`      // of Input: the provider had it cached
	CacheWrite int64 `json:"cache_write_tokens"` // of Input: the provider cached it now
	Output     int64 `json:"output_tokens"`      // reasoning included
	Reasoning  int64 `json:"reasoning_tokens"`   // of Output
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

// plus returns the sum of both.
func (u Usage) plus(v Usage) Usage {
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
