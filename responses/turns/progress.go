package turns

import (
	"cmp"
	"encoding/json"
	"time"

	"holon/internal/tracecontext"
	"holon/responses"
)

// Totals are what only the end of a turn knows.
type Totals struct {
	Rounds    int
	ToolCalls ToolCalls
	Attempts  ProviderTimeline // at models
	Failure   *FailureArtifact // nil: what the response's error says
}

// count takes in one fact.
func (t *Totals) count(ev RuntimeEvent) {
	var p struct {
		ToolName string           `json:"tool_name"`
		Host     string           `json:"host"`
		Round    int              `json:"round"`
		Attempt  *ProviderAttempt `json:"provider_attempt"`
	}
	_ = json.Unmarshal(ev.Payload, &p) // a call without a name counts all the same
	switch ev.Type {
	case ModelCompleted, ModelFailed:
		if p.Attempt != nil {
			t.Attempts.Add(*p.Attempt)
		}
	case ModelRequested: // one attempt of possibly several in its round
		t.Rounds = max(t.Rounds, p.Round)
	case ToolResult, ToolFailed:
		if p.Host != HostClient {
			t.ToolCalls.Add(p.ToolName, ev.Type == ToolFailed)
		}
	}
}

// Settle completes a record with the end of its turn.
func (t *Totals) Settle(rec *Record, resp *responses.Response, now time.Time) {
	requested := rec.Model
	if list := rec.ProviderAttempts; list != nil {
		requested = list.RequestedModelRef
	}
	rec.Settle(resp, now)
	rec.Rounds, rec.ToolCalls = t.Rounds, t.ToolCalls
	if timeline := t.Attempts; len(timeline.Attempts) > 0 {
		timeline.RequestedModelRef = requested
		rec.ProviderAttempts = &timeline
	}
	if t.Failure != nil && rec.FailureArtifact != nil {
		rec.FailureArtifact = t.Failure
	}
}

// Progress is what the facts of a turn say that was cut off, from which its end follows: agentd settles a turn with it
// whose process ended, and the host one whose container did. What it keeps is bounded: a hostile container
// may have written the facts.
type Progress struct {
	Totals
	Sequence int64             // of the newest fact
	Trace    tracecontext.Span // of the turn; zero when it is not traced
	causes   Causes
	open     open
}

// Take takes in the next fact of the turn.
func (p *Progress) Take(ev RuntimeEvent) {
	if len(ev.Payload) > 4*maxPayload { // a secret in it may have become longer
		ev.Payload = nil
	}
	if ev.Type == TurnSubmitted {
		p.Trace = ev.Span()
	}
	p.count(ev)
	p.open.take(ev)
}

func (p *Progress) count(ev RuntimeEvent) {
	p.Totals.count(ev)
	p.causes.Take(ev)
	p.Sequence = max(p.Sequence, ev.Sequence)
}

// Next returns a fact that is added to those of the turn, with its number and its cause.
func (p *Progress) Next(ev RuntimeEvent) RuntimeEvent {
	ev.Sequence, ev.Correlation.CausationID = p.Sequence+1, p.causes.Of(ev)
	p.count(ev)
	return ev
}

// bytesPerToken is about how long a token is.
const bytesPerToken = 4

// Spent is what the attempts at models took: what is on record of those that ended, and for one that did not what it
// was sent, as was estimated, and had streamed: text is how many bytes the models of the turn said.
func (p *Progress) Spent(text int64) (u responses.Usage) {
	if sum := p.Attempts.AggregatedTokenUsage; sum != nil {
		u.InputTokens, u.OutputTokens, u.Estimated = sum.InputTokens, sum.OutputTokens, sum.Estimated
	}
	for _, request := range p.open.of(ModelRequested) {
		var p Requested
		_ = json.Unmarshal(request.Payload, &p) // without an estimate it is 0
		u.InputTokens += int64(p.EstimatedTokens)
		u.OutputTokens, u.Estimated = max(u.OutputTokens, (text+bytesPerToken-1)/bytesPerToken), true
	}
	u.TotalTokens = u.InputTokens + u.OutputTokens
	return u
}

// Closing are the facts that end what the end of the turn cut off, after the facts before, which are not taken in yet.
func (p *Progress) Closing(scope Scope, resp *responses.Response, before ...RuntimeEvent) []RuntimeEvent {
	for _, ev := range before {
		p.open.take(ev)
	}
	return p.open.closing(scope, beyond(resp.Usage, p.Attempts.AggregatedTokenUsage))
}

// beyond is what a response used beyond its attempts that ended, nil for nothing.
func beyond(whole *responses.Usage, attempts *TokenUsage) *TokenUsage {
	if whole == nil {
		return nil
	}
	rest := *whole
	if attempts != nil {
		rest.InputTokens -= attempts.InputTokens
		rest.OutputTokens -= attempts.OutputTokens
	}
	if rest.InputTokens <= 0 && rest.OutputTokens <= 0 {
		return nil
	}
	rest.TotalTokens, rest.Estimated = rest.InputTokens+rest.OutputTokens, true
	return Tokens(rest)
}

// End says how a settled turn ended that was accepted at a time. lost is what cut it off; a turn with a complete stream
// ended as the stream says, and was lost only afterwards.
func (p *Progress) End(scope Scope, accepted Time, resp *responses.Response, lost string,
	actions []string) RuntimeEvent {
	end := End{DurationMS: lasted(accepted, At(scope.now())), Rounds: p.Rounds, ToolCalls: p.ToolCalls.Total,
		OpenActions: actions, Phase: "recovery"}
	switch u, sum := resp.Usage, p.Attempts.AggregatedTokenUsage; {
	case sum == nil: // no request of the log has a cost
	case u != nil && u.InputTokens == sum.InputTokens && u.OutputTokens == sum.OutputTokens:
		end.Usage = new(UsageOf(*u))
	default: // the readers got an end without it, or requests of the response are not in the log
		end.Usage = new(UsageOf(responses.Usage{InputTokens: sum.InputTokens,
			OutputTokens: sum.OutputTokens, TotalTokens: sum.TotalTokens, Estimated: sum.Estimated}))
	}
	if resp.Error != nil && resp.Error.Code == responses.CodeInterrupted {
		end.Lost = lost
	}
	return scope.TurnEnded(resp, end)
}

// Settle completes the record of a turn with its end.
func (p *Progress) Settle(rec *Record, resp *responses.Response, now time.Time) {
	p.Totals.Settle(rec, resp, now)
	if u := resp.Usage; u != nil && u.Estimated {
		rec.ProviderAttempts = cmp.Or(rec.ProviderAttempts, &ProviderTimeline{RequestedModelRef: rec.Model})
		rec.ProviderAttempts.AggregatedTokenUsage = Tokens(*u)
	}
}
