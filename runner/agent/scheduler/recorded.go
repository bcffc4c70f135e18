package scheduler

import (
	"cmp"
	"encoding/json"
	"maps"

	"holon/responses"
	"holon/responses/agentruntime"
	"holon/responses/turns"
	"holon/runner/agent/record"
	"holon/state"
	"holon/state/ledger"
)

// maxAttempts bounds the attempts at models that the counts of a turn have, in bytes: they are written with each fact.
const maxAttempts = 2 << 10

// count adds a fact of the container to what is recorded of a turn.
func count(a *ledger.Attempt, class string, data json.RawMessage) {
	var p struct {
		Round   int                    `json:"round"`
		Purpose string                 `json:"purpose"`
		Usage   *responses.Usage       `json:"usage"`
		Attempt *turns.ProviderAttempt `json:"provider_attempt"`
	}
	if class != turns.ModelRequested && class != turns.ModelCompleted && class != turns.ModelFailed &&
		class != turns.CostRecorded && class != turns.ToolResult && class != turns.ToolFailed {
		return
	}
	_ = json.Unmarshal(data, &p) // a fact without them counts all the same
	if a.Recorded == nil {
		a.Recorded = &ledger.Recorded{}
	}
	r := a.Recorded
	switch {
	case class == turns.ToolResult, class == turns.ToolFailed:
		r.ToolCalls++
	case class == turns.ModelRequested && p.Purpose == "":
		r.ModelRounds = max(r.ModelRounds, p.Round)
	case class == turns.CostRecorded && p.Usage != nil:
		spend(r, *p.Usage)
	case p.Attempt != nil:
		attempted(r, *p.Attempt)
	}
}

// toldRound takes an event of a round.
func toldRound(a *ledger.Attempt, data json.RawMessage) {
	var p struct {
		Round int `json:"round"`
	}
	_ = json.Unmarshal(data, &p) // the host wrote it
	if a.Recorded == nil {
		a.Recorded = &ledger.Recorded{}
	}
	a.Recorded.ToldRounds = max(a.Recorded.ToldRounds, p.Round)
}

// tellCutRound tells of the newest round of a turn unless that was done: its request was cut off before it had said
// anything, which e is about, or waited for another attempt.
func (s *step) tellCutRound(a ledger.Attempt, e ledger.Event) error {
	r := a.Recorded
	if r == nil || r.ToldRounds >= r.ModelRounds {
		return nil
	}
	f := facts{"round": r.ModelRounds, "chars": 0}
	entry := ledger.TranscriptEntry{Kind: ledger.TranscriptRound, Round: r.ModelRounds, MessageID: a.MessageID}
	if last := newestAttempt(r); last.Round == r.ModelRounds {
		f["model_ref"] = last.ModelRef
		if u := last.TokenUsage; u != nil {
			entry.InputTokens, entry.OutputTokens = u.InputTokens, u.OutputTokens
			f["token_usage"] = facts{"input_tokens": u.InputTokens, "output_tokens": u.OutputTokens,
				"total_tokens": u.TotalTokens, "cached_tokens": 0, "estimated": u.Estimated}
		}
	}
	e.MessageID, e.TurnID = a.MessageID, a.TurnID
	s.emit(record.AssistantRound, e, f)
	entry.Data = mustJSON(f)
	return s.Insert(s.transcript(a, entry))
}

// newestAttempt is the newest attempt at a model that is recorded.
func newestAttempt(r *ledger.Recorded) (a turns.ProviderAttempt) {
	if r.Provider != nil && len(r.Provider.Attempts) > 0 {
		a = r.Provider.Attempts[len(r.Provider.Attempts)-1]
	}
	return a
}

// maxTokens bounds what a request can have taken: it is a container's word.
const maxTokens = 1 << 40

// spend adds what a request to a model took.
func spend(r *ledger.Recorded, u responses.Usage) {
	if min(u.InputTokens, u.OutputTokens) < 0 || max(u.InputTokens, u.OutputTokens) > maxTokens {
		return
	}
	if r.Usage == nil {
		r.Usage = &responses.Usage{}
	}
	sum := r.Usage
	sum.InputTokens, sum.OutputTokens = sum.InputTokens+u.InputTokens, sum.OutputTokens+u.OutputTokens
	sum.TotalTokens = sum.InputTokens + sum.OutputTokens
}

// attempted adds an attempt at a model.
func attempted(r *ledger.Recorded, a turns.ProviderAttempt) {
	if r.Provider == nil {
		r.Provider = &turns.ProviderTimeline{RequestedModelRef: a.ModelRef}
	}
	r.Provider.Add(a)
	r.Provider, r.Model = r.Provider.Within(maxAttempts), r.Provider.WinningModelRef
}

// completed is the end of a turn with what is recorded of it, where the end does not tell: its container was lost.
func (e End) completed(r *ledger.Recorded) End {
	if r == nil {
		return e
	}
	e.Model, e.Usage, e.Provider = cmp.Or(e.Model, r.Model), cmp.Or(e.Usage, r.Usage), cmp.Or(e.Provider, r.Provider)
	e.ModelRounds, e.ToolCalls = max(e.ModelRounds, r.ModelRounds), max(e.ToolCalls, r.ToolCalls)
	return e
}

// cutOff tells what a request to a model took that was cut off: no more is known than how much it was told.
func (s *step) cutOff(a *ledger.Attempt, u ledger.Unfinished) {
	if u.Request == nil {
		return
	}
	in := min(max(int64(u.Request.EstimatedTokens), 0), maxTokens)
	used := turns.TokenUsage{InputTokens: in, TotalTokens: in, Estimated: true}
	cost := mustJSON(turns.Cost{Usage: used, Amount: "unknown", PriceSource: "unknown"})
	e := ledger.Event{MessageID: a.MessageID, TurnID: a.TurnID, Cause: u.Event, Data: cost}
	e.IDs[agentruntime.ModelRequest] = u.IDs[agentruntime.ModelRequest]
	s.emit(turns.CostRecorded, e, nil)
	count(a, turns.CostRecorded, cost) // makes a.Recorded
	attempted(a.Recorded, turns.ProviderAttempt{Provider: u.Request.ProviderName,
		ModelRef: u.Request.ProviderName + "/" + u.Request.ModelName, Round: u.Request.Round,
		Attempt: u.Request.Attempt, MaxAttempts: u.Request.MaxAttempts, Purpose: u.Request.Purpose,
		StartedAt: u.At, CompletedAt: turns.At(s.now), DurationMS: max(0, turns.At(s.now).Sub(u.At).Milliseconds()),
		FailureKind: "interrupted",
		Disposition: "fail_fast", Outcome: turns.OutcomeFailFast, TokenUsage: &used})
}

// cutOffCall records a call of a tool that was cut off, as one that failed, and adds to f what its event tells of that.
func (s *step) cutOffCall(a ledger.Attempt, u ledger.Unfinished, kind string, f facts) error {
	ran := ledger.ToolExecution{ID: u.IDs[agentruntime.ToolCall], AgentID: a.AgentID, TurnID: a.TurnID,
		TurnIndex: a.TurnIndex, WorkItemID: u.WorkItemID, Tool: u.Tool, CreatedAt: u.At.Time(), CompletedAt: s.now,
		DurationMS: max(0, turns.At(s.now).Sub(u.At).Milliseconds()), Status: "error", Input: u.Input,
		Summary: "the turn ended before it did"}
	f["call"], f["kind"], f["error"], f["status"], f["duration_ms"] = u.Does, kind, ran.Summary, ran.Status, ran.DurationMS
	err := s.Insert(&ran)
	if state.IsCode(err, ledger.CodeConflict) { // a container may repeat an id
		return nil
	}
	if err != nil {
		return err
	}
	entry := facts{"tool_call_id": ran.ID, "arguments": u.Input, "output": "", "exit_code": nil}
	maps.Copy(entry, f)
	return s.Insert(s.transcript(a, ledger.TranscriptEntry{Kind: ledger.TranscriptTools, Round: u.Round,
		MessageID: a.MessageID, Data: mustJSON(entry)}))
}
