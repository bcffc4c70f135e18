package turns

// Routing is the payload of routing.decided: the model that a turn asks first, and those that it may ask after it.
type Routing struct {
	RoutingMode      string   `json:"routing_mode"` // fixed: the first model is asked, the others when it fails
	CandidateCount   int      `json:"candidate_count"`
	SelectedProvider string   `json:"selected_provider"`
	SelectedModel    string   `json:"selected_model"`
	RequestedModel   string   `json:"requested_model,omitzero"` // as the request has it
	DecisionSource   string   `json:"decision_source"`          // request, or default
	DecisionReason   string   `json:"decision_reason"`
	FallbackChain    []string `json:"fallback_chain" most:"16"` // provider/model, in the order in which they are asked
}

// RoutingDecided says which model a turn asks. A turn that asks a model has exactly one.
func (s Scope) RoutingDecided(p Routing) RuntimeEvent {
	p.CandidateCount = 1 + len(p.FallbackChain)
	return s.event(RoutingDecided, "", p)
}

// Fallback is the payload of routing.fallback.applied.
type Fallback struct {
	From   string `json:"from"` // provider/model
	To     string `json:"to"`
	Reason string `json:"reason"` // the failure of the one before
}

// FallbackApplied says that the next model is asked in place of one that failed.
func (s Scope) FallbackApplied(p Fallback) RuntimeEvent {
	return s.event(FallbackApplied, "", p)
}

// Cost is the payload of cost.recorded: what a request to a model took. agentd knows no prices.
type Cost struct {
	Usage       TokenUsage `json:"usage"`
	Amount      string     `json:"amount"` // unknown
	PriceSource string     `json:"price_source"`
}

// CostRecorded says what the model request with the given id took.
func (s Scope) CostRecorded(requestID string, used TokenUsage) RuntimeEvent {
	return s.ofRequest(CostRecorded, "", requestID, Cost{used, "unknown", "unknown"})
}

// RateLimit is the payload of rate_limit.hit.
type RateLimit struct {
	By           string `json:"by"`
	Scope        string `json:"scope"`                   // provider/model
	RetryAfterMS int64  `json:"retry_after_ms,omitzero"` // as the provider says; 0 when it does not
}

// RateLimitHit says that a provider refused the model request with the given id because there were too many.
func (s Scope) RateLimitHit(requestID string, p RateLimit) RuntimeEvent {
	p.By = "provider"
	return s.ofRequest(RateLimitHit, "", requestID, p)
}
