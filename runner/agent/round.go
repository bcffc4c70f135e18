package agent

import (
	"encoding/json"
	"slices"
	"strings"

	"holon/internal/visible"
	"holon/responses"
	"holon/responses/agentruntime"
	"holon/responses/turns"
	"holon/runner/agent/record"
	"holon/runner/agent/scheduler"
	"holon/state/ledger"
)

// rounds puts together what a round of the model said, which comes with the response, and what the facts tell of it,
// which come on a connection of their own.
type rounds struct {
	said   []said          // messages that no round has yet, in order
	known  map[string]bool // ids of all messages that came
	cut    []string        // ids of messages of answers that broke off and were made anew
	number int             // of the newest round
	tried  turns.ProviderTimeline
	asked  turns.RuntimeEvent // the newest fact of a request for an answer
}

// said is a complete message of the model.
type said struct {
	id, text string
	phase    responses.Phase
}

// hear takes a message, once.
func (r *rounds) hear(m *responses.Message, text string) {
	if r.known[m.ID] {
		return
	}
	if r.known == nil {
		r.known = make(map[string]bool)
	}
	r.known[m.ID] = true
	if !slices.Contains(r.cut, m.ID) {
		r.said = append(r.said, said{m.ID, text, m.Phase})
	}
}

// lacks reports whether a fact names messages that have not come.
func (r *rounds) lacks(ev turns.RuntimeEvent) bool {
	s, ok := answered(ev)
	return ok && slices.ContainsFunc(s.Messages, func(id string) bool { return !r.known[id] })
}

// end returns the round that a fact ends, and how many messages it has; false for other facts.
func (r *rounds) end(ev turns.RuntimeEvent) (scheduler.Progress, int, bool) {
	s, ok := answered(ev)
	if !ok {
		r.ask(ev)
		return scheduler.Progress{}, 0, false
	}
	r.number, r.asked = s.ProviderAttempt.Round, ev
	r.try(*s.ProviderAttempt)
	tried := r.tried
	r.tried = turns.ProviderTimeline{}
	n := 0
	for i, m := range r.said {
		if slices.Contains(s.Messages, m.id) {
			n = i + 1
		}
	}
	p := r.tell(n, round{ModelRef: s.ProviderAttempt.ModelRef, StopReason: s.StopReason, Calls: s.Calls,
		Tokens: &roundTokens{Input: s.Usage.InputTokens, Output: s.Usage.OutputTokens, Total: s.Usage.TotalTokens,
			Cached: s.Usage.InputTokenDetails.CachedTokens, Estimated: s.Usage.Estimated}}, &tried)
	identify(&p, ev)
	return p, n, true
}

// ask takes a fact of a request that has no answer yet, or failed. Other facts say nothing.
func (r *rounds) ask(ev turns.RuntimeEvent) {
	var p turns.Requested
	var f turns.AttemptFailure
	switch {
	case ev.Type == turns.ModelRequested && json.Unmarshal(ev.Payload, &p) == nil && p.Purpose == "":
		r.number, r.asked = p.Round, ev
	case ev.Type == turns.ModelFailed && json.Unmarshal(ev.Payload, &f) == nil && f.ProviderAttempt != nil:
		r.try(*f.ProviderAttempt)
		r.cut = append(r.cut, f.Discarded...)
		r.said = slices.DeleteFunc(r.said, func(m said) bool { return slices.Contains(f.Discarded, m.id) })
		if f.ProviderAttempt.Purpose == "" {
			r.asked = ev
		}
	}
}

// failed reports whether the newest request for an answer failed and is not tried again, neither at once nor after a
// wait: it is a round without an answer.
func (r *rounds) failed() bool {
	var f turns.AttemptFailure
	return r.asked.Type == turns.ModelFailed && json.Unmarshal(r.asked.Payload, &f) == nil &&
		f.Outcome != turns.OutcomeRetrying && f.BackoffMS == 0 && !f.AdvancedToFallback
}

// rest returns the round of messages that no answer named, and how many they are: the request failed, or its end is not
// known, or the message was cut short.
func (r *rounds) rest() (scheduler.Progress, int) {
	n, tried, ev := len(r.said), r.tried, r.asked
	var made round
	var p turns.Requested
	var f turns.AttemptFailure
	switch s, ok := answered(ev); {
	case ok: // its tokens are told with the answer
		made.ModelRef = s.ProviderAttempt.ModelRef
	case ev.Type == turns.ModelRequested && json.Unmarshal(ev.Payload, &p) == nil:
		made.ModelRef = p.ProviderName + "/" + p.ModelName
	case ev.Type == turns.ModelFailed && json.Unmarshal(ev.Payload, &f) == nil:
		made.ModelRef = f.ProviderAttempt.ModelRef
		if u := f.ProviderAttempt.TokenUsage; u != nil {
			made.Tokens = &roundTokens{Input: u.InputTokens, Output: u.OutputTokens, Total: u.TotalTokens,
				Estimated: u.Estimated}
		}
	}
	told := r.tell(n, made, &tried)
	if ev.Type != "" {
		identify(&told, ev)
	}
	return told, n
}

// identify joins a round to the request that a fact is about.
func identify(p *scheduler.Progress, ev turns.RuntimeEvent) {
	p.Event.CreatedAt, p.Cause = ev.Timestamp.Time(), ev.Sequence
	p.Event.IDs[agentruntime.ModelRequest] = ev.ModelRequestID
	p.Event.IDs[agentruntime.Trace], p.Event.IDs[agentruntime.Span] = ev.TraceID, ev.SpanID
}

// try adds an attempt of the round. The first one asks for the model that the round is to have.
func (r *rounds) try(a turns.ProviderAttempt) {
	if len(r.tried.Attempts) == 0 {
		r.tried.RequestedModelRef = a.ModelRef
	}
	r.tried.Add(a)
}

// answered is the payload of a fact that ends a round; false for other facts.
func answered(ev turns.RuntimeEvent) (s turns.Sampled, ok bool) {
	ok = ev.Type == turns.ModelCompleted && json.Unmarshal(ev.Payload, &s) == nil && s.ProviderAttempt != nil &&
		s.ProviderAttempt.Purpose == ""
	return s, ok
}

// round is what events and transcript tell of a round of the model.
type round struct {
	Round      int             `json:"round,omitempty"` // of the turn, from 1
	Phase      responses.Phase `json:"phase,omitempty"`
	Preview    string          `json:"text_preview,omitempty"`
	Text       string          `json:"text,omitempty"` // of the transcript alone
	Chars      int             `json:"chars"`
	Calls      []string        `json:"tool_call_ids,omitempty"`
	ModelRef   string          `json:"model_ref,omitempty"`
	StopReason string          `json:"stop_reason,omitempty"`
	Tokens     *roundTokens    `json:"token_usage,omitempty"`

	Tried *turns.ProviderTimeline `json:"provider_attempt_timeline,omitempty"` // of the transcript alone
}

// roundTokens are those of the attempt that gave the answer.
type roundTokens struct {
	Input  int64 `json:"input_tokens"`
	Output int64 `json:"output_tokens"`
	Total  int64 `json:"total_tokens"`
	Cached int64 `json:"cached_tokens"` // of Input

	Estimated bool `json:"estimated,omitempty"` // the provider did not count all of them
}

// tell makes the records of a round that has the first n messages that no other has.
func (r *rounds) tell(n int, made round, tried *turns.ProviderTimeline) scheduler.Progress {
	var texts []string
	for _, m := range r.said[:n] {
		texts, made.Phase = append(texts, m.text), m.phase
	}
	r.said = r.said[n:]
	text := strings.Join(texts, "\n\n")
	made.Round, made.Preview, made.Chars = r.number, visible.Clip(text, maxPreview), len(text)
	entry := &ledger.TranscriptEntry{Kind: ledger.TranscriptRound, Round: made.Round, StopReason: made.StopReason}
	if made.Tokens != nil {
		entry.InputTokens, entry.OutputTokens = made.Tokens.Input, made.Tokens.Output
	}
	p := scheduler.Progress{Event: ledger.Event{Type: record.AssistantRound, Data: encode(made)}, Transcript: entry}
	made.Preview, made.Text, made.Tried = "", visible.Clip(text, maxTranscript), tried
	entry.Data = encode(made)
	return p
}
