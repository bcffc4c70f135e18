package turns

import "math"

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

// Unrouted is the payload of routing.not_possible: no model can be asked what the turn would ask first.
type Unrouted struct {
	CandidateCount int        `json:"candidate_count"` // 0
	RequestedModel string     `json:"requested_model,omitzero"`
	ReasonCode     string     `json:"reason_code"`
	Excluded       []Excluded `json:"excluded"`
}

// Excluded is a model that cannot be asked.
type Excluded struct {
	Ref    string `json:"ref"` // provider/model
	Reason string `json:"reason"`
}

// Fallback is the payload of routing.fallback.applied.
type Fallback struct {
	From   string `json:"from"` // provider/model
	To     string `json:"to"`
	Reason string `json:"reason"` // the failure of the one before
}

// Cost is the payload of cost.recorded: what a request to a model took as agentd counts, which knows no prices, or what
// a turn took as the host counts.
type Cost struct {
	Usage       *TokenUsage `json:"usage,omitzero"` // of a request
	Amount      any         `json:"amount"`         // a number, or unknown
	PriceSource string      `json:"price_source"`
	Tokens      int64       `json:"tokens,omitzero"`     // of a turn
	Estimated   bool        `json:"estimated,omitzero"`  // a part of the tokens
	CountedBy   string      `json:"counted_by,omitzero"` // of a turn: gateway, or "" where no provider was asked
}

// Micros is the amount in millionths, 0 where it is unknown.
func (c Cost) Micros() int64 {
	amount, _ := c.Amount.(float64)
	return int64(math.Round(amount * 1e6))
}

// CostRecorded says what the model request with the given id took.
func (s Scope) CostRecorded(requestID string, used TokenUsage) RuntimeEvent {
	return s.OfRequest(CostRecorded, requestID, Cost{Usage: &used, Amount: "unknown", PriceSource: "unknown"})
}

// RateLimit is the payload of rate_limit.hit.
type RateLimit struct {
	By           string `json:"by"`
	Scope        string `json:"scope"`                   // provider/model
	RetryAfterMS int64  `json:"retry_after_ms,omitzero"` // as the provider says; 0 when it does not
}

// Classes of the facts about reasoning. None of them has its text.
const (
	ReasoningDelta   = "reasoning.delta"
	ReasoningSummary = "reasoning.summary"
)

// Withheld is the payload of reasoning.delta: the reasoning of an item that no client sees, all in one.
type Withheld struct {
	Redacted       bool `json:"redacted"`                 // always
	OutputChars    int  `json:"output_chars,omitzero"`    // of raw reasoning
	EncryptedBytes int  `json:"encrypted_bytes,omitzero"` // of its sealed form
}

// Summarized is the payload of reasoning.summary: one part of the summary of an item.
type Summarized struct {
	TextRef     string `json:"text_ref"` // the item of the response, which has the text
	PartIndex   int    `json:"part_index"`
	OutputChars int    `json:"output_chars"`
}
