package record

import (
	"cmp"
	"encoding/json"

	"holon/responses"
	"holon/responses/turns"
	"holon/state/ledger"
)

// maxAttempts bounds the attempts at models of a turn that its container did not end, in bytes.
const maxAttempts = 2 << 10

// Recorded is what the log says of a turn, for an end that says less: its container was lost. The zero value is a turn
// of which nothing is recorded.
type Recorded struct {
	ModelRounds int
	ToolCalls   int // that have ended, or were ended with their turn
	Usage       *responses.Usage
	FirstInput  int64                   // tokens of the first request of a round that was answered
	LastInput   int64                   // and of the newest one
	Provider    *turns.ProviderTimeline // in short
}

// Model is the one that gave the newest answer, "" for none.
func (t *Recorded) Model() string {
	if t.Provider == nil {
		return ""
	}
	return t.Provider.WinningModelRef
}

// Apply adds an event of the turn.
func (t *Recorded) Apply(e ledger.Event) {
	var p struct {
		Round   int                    `json:"round"`
		Purpose string                 `json:"purpose"`
		Usage   *responses.Usage       `json:"usage"`
		Attempt *turns.ProviderAttempt `json:"provider_attempt"`
	}
	switch e.Class {
	case turns.ToolResult, turns.ToolFailed:
		t.ToolCalls++
		return
	case turns.ModelRequested, turns.ModelCompleted, turns.ModelFailed, turns.CostRecorded:
		_ = json.Unmarshal(e.Data, &p) // a payload that is wrong counts nothing
	}
	switch {
	case e.Class == turns.ModelRequested && p.Purpose == "":
		t.ModelRounds = max(t.ModelRounds, p.Round)
	case e.Class == turns.CostRecorded && p.Usage != nil:
		t.spend(*p.Usage)
	case p.Attempt != nil:
		if e.Class == turns.ModelCompleted && p.Attempt.Purpose == "" && p.Usage != nil {
			t.LastInput = min(max(p.Usage.InputTokens, 0), MaxTokens)
			t.FirstInput = cmp.Or(t.FirstInput, t.LastInput)
		}
		if t.Provider == nil {
			t.Provider = &turns.ProviderTimeline{RequestedModelRef: p.Attempt.ModelRef}
		}
		t.Provider.Add(*p.Attempt)
		t.Provider = t.Provider.Within(maxAttempts)
	}
}

// MaxTokens bounds what a request can have taken: it is a container's word.
const MaxTokens = 1 << 40

// spend adds what a request to a model took.
func (t *Recorded) spend(u responses.Usage) {
	if min(u.InputTokens, u.OutputTokens) < 0 || max(u.InputTokens, u.OutputTokens) > MaxTokens {
		return
	}
	if t.Usage == nil {
		t.Usage = &responses.Usage{}
	}
	t.Usage.InputTokens, t.Usage.OutputTokens = t.Usage.InputTokens+u.InputTokens, t.Usage.OutputTokens+u.OutputTokens
	t.Usage.TotalTokens = t.Usage.InputTokens + t.Usage.OutputTokens
}
