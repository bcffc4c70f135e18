package turns

import (
	"slices"

	"holon/responses"
)

// Outcomes of an attempt at a model (runtime specification, "Provider attempt
// timeline contract").
const (
	outcomeSucceeded = "succeeded"
	OutcomeRetrying  = "retrying"
	OutcomeExhausted = "retries_exhausted"
	OutcomeFailFast  = "fail_fast_aborted"
)

// PurposeSummary is the Purpose of an attempt at a summary of the conversation.
const PurposeSummary = "summary"

// ProviderAttempt is one request that was made of a provider, or that a provider
// was spared because it cannot do what was wanted. Its times leave out the pause
// before the next attempt.
type ProviderAttempt struct {
	Provider             string                `json:"provider"`
	ModelRef             string                `json:"model_ref"` // provider/model
	Round                int                   `json:"round"`     // of the turn, from 1
	Attempt              int                   `json:"attempt"`   // at this model in this round, from 1
	MaxAttempts          int                   `json:"max_attempts"`
	StartedAt            Time                  `json:"started_at"`
	CompletedAt          Time                  `json:"completed_at"`
	DurationMS           int64                 `json:"duration_ms"`
	ContextBuildMS       int64                 `json:"context_build_ms,omitzero"` // of a round's first attempt
	FailureKind          string                `json:"failure_kind,omitzero"`
	HTTPStatus           int                   `json:"http_status,omitzero"` // of a failure
	Disposition          string                `json:"disposition,omitzero"` // retryable or fail_fast, of a failure
	Outcome              string                `json:"outcome"`
	AdvancedToFallback   bool                  `json:"advanced_to_fallback"`
	BackoffMS            int64                 `json:"backoff_ms,omitzero"`
	TokenUsage           *TokenUsage           `json:"token_usage,omitzero"`
	TransportDiagnostics *TransportDiagnostics `json:"transport_diagnostics,omitzero"`
	Prompt               *Prompt               `json:"prompt,omitzero"`
	Purpose              string                `json:"purpose,omitzero"` // PurposeSummary; "" for an answer
}

// Why a provider could not find what it was told before in its cache.
const (
	CacheFirst     = "first_request"   // it was told nothing of the conversation before
	CacheModel     = "model_changed"   // another model was
	CachePreamble  = "frame_changed"   // instructions, tools or the form of the answer are others
	CacheCompacted = "compacted"       // the conversation was shortened
	CacheHistory   = "history_changed" // it is another conversation
	CacheShort     = "too_short"       // what it was told is less than providers cache
	CacheMissed    = "missed"          // it could have: the entry is gone, or it has no cache
)

// Prompt says what an attempt told a provider, and how much of it the provider
// had in its cache (runtime specification, "Provider Prompt Frame").
type Prompt struct {
	Fingerprint         string  `json:"fingerprint"`       // of all that was told
	PreambleFingerprint string  `json:"frame_fingerprint"` // of what is the same in every round: instructions, tools, form
	EstimatedTokens     int     `json:"estimated_tokens"`
	Epoch               int     `json:"epoch"`                  // compactions before it
	ExpectedTokens      int64   `json:"expected_cached_tokens"` // of the prefix that was told before
	CachedTokens        int64   `json:"cached_tokens"`          // as the provider says
	HitRatio            float64 `json:"hit_ratio"`              // of the two, at most 1; 0 when nothing was expected
	Broken              string  `json:"cache_broken,omitzero"`  // why nothing was found, or nothing expected
	Mode                string  `json:"mode,omitzero"`          // full
	Items               int     `json:"items,omitzero"`         // of the conversation, that were sent
	Bytes               int     `json:"bytes,omitzero"`         // of the request's body
	CacheKey            bool    `json:"cache_key,omitzero"`     // a cache key was sent
	Breakpoints         int     `json:"breakpoints,omitzero"`   // markers of cacheable prefixes that were sent
}

// TokenUsage counts tokens.
type TokenUsage struct {
	InputTokens  int64 `json:"input_tokens"`
	OutputTokens int64 `json:"output_tokens"`
	TotalTokens  int64 `json:"total_tokens"`
	Estimated    bool  `json:"estimated,omitzero"` // the provider did not count all of it
}

// Approximately is the mark before a number of which a part is an estimate.
const Approximately = "~"

// Mark is Approximately where the provider did not count all, else "".
func (u TokenUsage) Mark() string {
	if u.Estimated {
		return Approximately
	}
	return ""
}

// Usage is what models used as events tell it: the protocol has no key for an estimate.
type Usage struct {
	responses.Usage
	Estimated bool `json:"estimated,omitzero"` // a provider did not count all of it
}

// Mark is Approximately where a provider did not count all, else "".
func (u Usage) Mark() string { return TokenUsage{Estimated: u.Estimated}.Mark() }

// UsageOf is u as events tell it.
func UsageOf(u responses.Usage) Usage { return Usage{u, u.Estimated} }

// Tokens returns the counts of u, nil when there are none.
func Tokens(u responses.Usage) *TokenUsage {
	if u == (responses.Usage{}) {
		return nil
	}
	return &TokenUsage{u.InputTokens, u.OutputTokens, u.TotalTokens, u.Estimated}
}

// TransportDiagnostics tell where between here and a provider an attempt failed.
type TransportDiagnostics struct {
	Stage       string   `json:"stage"`
	Provider    string   `json:"provider,omitzero"`
	ModelRef    string   `json:"model_ref,omitzero"`
	URL         string   `json:"url,omitzero"`
	Status      int      `json:"status,omitzero"`
	Reqwest     *Reqwest `json:"reqwest,omitzero"` // the specification's name for the HTTP client's view
	SourceChain []string `json:"source_chain,omitempty" most:"6"`
}

// Reqwest says what the HTTP client knows of a failure.
type Reqwest struct {
	IsTimeout  bool `json:"is_timeout"`
	IsConnect  bool `json:"is_connect"`
	IsRequest  bool `json:"is_request"`
	IsBody     bool `json:"is_body"`
	IsDecode   bool `json:"is_decode"`
	IsRedirect bool `json:"is_redirect"`
	Status     int  `json:"status,omitzero"`
}

// maxTimeline bounds the attempts of a Timeline.
const maxTimeline = 64

// ProviderTimeline is what was tried to get the turn's answers, in order. It
// holds a bounded number of attempts: of too many, the oldest plain successes go
// first. runtime.ndjson has them all.
type ProviderTimeline struct {
	Attempts             []ProviderAttempt `json:"attempts"`
	Omitted              int               `json:"omitted,omitzero"` // attempts that are not listed
	RequestedModelRef    string            `json:"requested_model_ref"`
	ActiveModelRef       string            `json:"active_model_ref,omitzero"`  // of the last attempt
	WinningModelRef      string            `json:"winning_model_ref,omitzero"` // of the last success
	AggregatedTokenUsage *TokenUsage       `json:"aggregated_token_usage,omitzero"`
}

// Add appends an attempt.
func (l *ProviderTimeline) Add(a ProviderAttempt) {
	a = bounded(a)
	if a.Purpose == "" {
		l.ActiveModelRef = a.ModelRef
	}
	if a.Purpose == "" && a.Outcome == outcomeSucceeded {
		l.WinningModelRef = a.ModelRef
	}
	if u := a.TokenUsage; u != nil {
		if l.AggregatedTokenUsage == nil {
			l.AggregatedTokenUsage = &TokenUsage{}
		}
		sum := l.AggregatedTokenUsage
		sum.InputTokens += u.InputTokens
		sum.OutputTokens += u.OutputTokens
		sum.TotalTokens += u.TotalTokens
		sum.Estimated = sum.Estimated || u.Estimated
	}
	l.Attempts = append(l.Attempts, a)
	if len(l.Attempts) <= maxTimeline {
		return
	}
	drop := 0
	for i, old := range l.Attempts[:maxTimeline] {
		if old.Outcome == outcomeSucceeded && old.Attempt == 1 {
			drop = i
			break
		}
	}
	l.Attempts = append(l.Attempts[:drop:drop], l.Attempts[drop+1:]...)
	l.Omitted++
}

// Within returns a copy of l for an event, of at most size bytes of JSON: without diagnostics and prompts, and without
// the oldest attempts if need be. It is nil when l is.
func (l *ProviderTimeline) Within(size int) *ProviderTimeline {
	if l == nil {
		return nil
	}
	short := *l
	short.Attempts = slices.Clone(l.Attempts)
	for i := range short.Attempts {
		short.Attempts[i].TransportDiagnostics, short.Attempts[i].Prompt = nil, nil
	}
	for len(short.Attempts) > 0 {
		if b, err := marshal(short); err == nil && len(b) <= size {
			break
		}
		short.Attempts = short.Attempts[1:]
		short.Omitted++
	}
	return &short
}

// Categories of a FailureArtifact (runtime specification, "Failure Artifact
// Envelope").
const (
	FailureTransport = "transport"
	FailureProtocol  = "protocol"
	FailureRuntime   = "runtime"
	failureUnknown   = "unknown"
)

// FailureArtifact says why a turn failed, for operators. With the timeline it is
// also a file of the turn, FailureFile.
type FailureArtifact struct {
	Category    string            `json:"category"`
	Kind        string            `json:"kind"`
	Summary     string            `json:"summary" max:"2048"`
	Provider    string            `json:"provider,omitzero"`
	ModelRef    string            `json:"model_ref,omitzero"`
	Status      int               `json:"status,omitzero"` // HTTP status of the provider
	TaskID      string            `json:"task_id,omitzero"`
	ExitStatus  *int              `json:"exit_status,omitzero"`
	SourceChain []string          `json:"source_chain,omitempty" most:"6"`
	Metadata    map[string]string `json:"metadata,omitempty"`
}

// Bounded returns a copy of f whose texts are cut.
func (f FailureArtifact) Bounded() *FailureArtifact {
	f = bounded(f)
	return &f
}

// FailureReport is the content of FailureFile.
type FailureReport struct {
	FailureArtifact
	ProviderAttempts *ProviderTimeline `json:"provider_attempts"`
}

// FailureReport returns the content of FailureFile, nil when r did not fail.
func (r *Record) FailureReport() *FailureReport {
	if r.FailureArtifact == nil {
		return nil
	}
	return &FailureReport{*r.FailureArtifact, r.ProviderAttempts}
}

// failureOf is the artifact of a response that failed for a reason of its own.
func failureOf(e *responses.ResponseError) *FailureArtifact {
	if e == nil {
		return nil
	}
	return FailureArtifact{Category: FailureRuntime, Kind: e.Code, Summary: e.Message}.Bounded()
}
