package record

import (
	"encoding/json"
	"slices"
	"strings"

	"holon/internal/visible"
	"holon/responses"
	"holon/responses/turns"
	"holon/state/ledger"
)

// EntryKind is what an entry of a transcript shows.
type EntryKind string

const (
	EntryMessage  EntryKind = "incoming_message"
	EntryRound    EntryKind = "assistant_round"
	EntryTools    EntryKind = "tool_results"
	EntryFailure  EntryKind = "runtime_failure"
	EntryContinue EntryKind = "continuation_prompt"
)

// TranscriptEntry is one entry of what was written and done, as it is shown. Data of an entry of a message is left to
// the reader, which has the message.
type TranscriptEntry struct {
	ID           string          `json:"id"`
	AgentID      string          `json:"agent_id"`
	CreatedAt    turns.Time      `json:"created_at"`
	Kind         EntryKind       `json:"kind"`
	Round        int             `json:"round,omitempty"`
	TurnID       string          `json:"turn_id,omitempty"`
	MessageID    string          `json:"related_message_id,omitempty"`
	StopReason   string          `json:"stop_reason,omitempty"`
	InputTokens  int64           `json:"input_tokens,omitempty"`
	OutputTokens int64           `json:"output_tokens,omitempty"`
	Data         json.RawMessage `json:"data,omitempty"`
}

// Transcript returns the newest entries of an agent's transcript, at most limit, the oldest first.
func Transcript(v ledger.View, agentID string, limit int) ([]TranscriptEntry, error) {
	shown := []string{turns.TurnStarted, turns.InputInserted, turns.ModelCompleted, turns.ToolResult, turns.ToolFailed,
		turns.RuntimeError}
	events, err := newestTurns(v, agentID, limit, func(e ledger.Event) bool { return slices.Contains(shown, e.Class) })
	t := transcript{calls: executions{}, gone: map[string]*Expired{}}
	for _, e := range events {
		t.apply(e)
	}
	for _, ran := range t.ran {
		if ran.Expired = t.gone[ran.TurnID]; ran.OutputRef == "" {
			ran.Expired = nil
		}
		t.entries[ran.at].Data = encoded(ran.execution)
	}
	return t.entries[max(0, len(t.entries)-limit):], err
}

// transcript folds events of turns. An agent has one turn at a time.
type transcript struct {
	entries []TranscriptEntry
	round   round
	begun   bool     // the turn
	offered []string // ids of messages that the turn was offered and has not taken in
	calls   executions
	ran     []ranAt
	gone    map[string]*Expired // turns whose files are gone
}

type ranAt struct {
	execution
	at int // the entry
}

// apply adds an event.
func (t *transcript) apply(e ledger.Event) {
	if ran := t.calls.apply(e); ran != nil {
		t.ran = append(t.ran, ranAt{*ran, len(t.entries)})
		t.add(e, TranscriptEntry{Kind: EntryTools, Round: t.round.Round})
		return
	}
	switch e.Class {
	case TurnSubmitted:
		t.round, t.offered, t.begun = round{}, nil, false
	case turns.TurnStarted:
		t.begun = true
		kind := EntryMessage
		if field[bool](e, "continued") {
			kind = EntryContinue
		}
		t.add(e, TranscriptEntry{Kind: kind})
	case "queue.changed", turns.InputInserted:
		t.takeIn(e)
	case ModelDelta, turns.ModelRequested, turns.ModelFailed, turns.ModelCompleted:
		if t.round.apply(e) {
			t.endRound(e)
		}
	case turns.TurnCompleted, turns.TurnFailed:
		if t.round.open {
			t.endRound(e)
		}
	case turns.RuntimeError:
		t.fail(e)
	case OutputExpired:
		var p struct {
			TurnID string              `json:"turn_id"`
			At     turns.Time          `json:"expires_at"`
			Reason ledger.OutputReason `json:"reason"`
		}
		_ = json.Unmarshal(e.Data, &p) // the host wrote it
		t.gone[p.TurnID] = &Expired{p.At, p.Reason}
	}
}

// fail adds a host's error of a turn. An error before a turn begins that is tried again is only an event.
func (t *transcript) fail(e ledger.Event) {
	if e.TurnID != "" && e.ProducerSeq == 0 && (t.begun || e.Level != LevelProgress) {
		t.add(e, TranscriptEntry{Kind: EntryFailure, StopReason: field[string](e, "code"), Data: e.Data})
	}
}

// takeIn adds a message that the turn took in: the container reports it, or the settlement of the turn.
func (t *transcript) takeIn(e ledger.Event) {
	var p struct {
		Op      string             `json:"op"`
		Status  ledger.EntryStatus `json:"status"`
		InputID string             `json:"input_id"`
		Entry   struct {
			MessageID string `json:"message_id"`
		} `json:"entry"`
	}
	_ = json.Unmarshal(e.Data, &p) // what is wrong names no message
	if p.Op == "interject" {
		t.offered = append(t.offered, p.Entry.MessageID)
		return
	}
	id := p.InputID
	if p.Op == "settle" && p.Status == ledger.Interjected {
		id = p.Entry.MessageID
	}
	if at := slices.Index(t.offered, id); at >= 0 {
		t.offered = slices.Delete(t.offered, at, at+1)
		t.add(e, TranscriptEntry{Kind: EntryMessage, MessageID: id})
	}
}

func (t *transcript) endRound(e ledger.Event) {
	r := t.round.end()
	entry := TranscriptEntry{Kind: EntryRound, Round: r.Round, StopReason: r.StopReason, Data: encoded(r)}
	if r.Tokens != nil {
		entry.InputTokens, entry.OutputTokens = r.Tokens.Input, r.Tokens.Output
	}
	t.add(e, entry)
}

func (t *transcript) add(e ledger.Event, entry TranscriptEntry) {
	entry.ID, entry.AgentID = "tre_"+strings.TrimPrefix(e.ID, responses.PrefixEvent), e.AgentID
	entry.TurnID, entry.CreatedAt = e.TurnID, turns.At(e.CreatedAt)
	if entry.MessageID == "" {
		entry.MessageID = e.MessageID
	}
	t.entries = append(t.entries, entry)
}

// maxTranscript bounds the text of a round in a transcript, in bytes. The log has the whole of it.
const maxTranscript = 64 << 10

// round is one round of the model: its text, and what it took to get it.
type round struct {
	Round      int             `json:"round,omitempty"` // of the turn, from 1
	Phase      responses.Phase `json:"phase,omitempty"`
	Text       string          `json:"text,omitempty"`
	Chars      int             `json:"chars"`
	Calls      []string        `json:"tool_call_ids,omitempty"`
	ModelRef   string          `json:"model_ref,omitempty"`
	StopReason string          `json:"stop_reason,omitempty"`
	Tokens     *roundTokens    `json:"token_usage,omitempty"`

	Tried turns.ProviderTimeline `json:"provider_attempt_timeline,omitzero"`

	open  bool // it was asked for, and has no end
	texts []Text
}

// roundTokens are those of the attempt that gave the answer.
type roundTokens struct {
	Input  int64 `json:"input_tokens"`
	Output int64 `json:"output_tokens"`
	Total  int64 `json:"total_tokens"`
	Cached int64 `json:"cached_tokens"` // of Input

	Estimated bool `json:"estimated,omitempty"` // the provider did not count all of them
}

// apply takes an event of a request to a model, and reports whether it ends the round: one that failed may be tried
// again as long as its turn runs.
func (r *round) apply(e ledger.Event) (ends bool) {
	switch e.Class {
	case ModelDelta:
		var p Text
		_ = json.Unmarshal(e.Data, &p) // the host wrote it
		r.texts, r.open = append(r.texts, p), true
	case turns.ModelRequested:
		var p turns.Requested
		if json.Unmarshal(e.Data, &p) == nil && p.Purpose == "" {
			r.Round, r.ModelRef, r.open = p.Round, p.ProviderName+"/"+p.ModelName, true
		}
	case turns.ModelFailed:
		var p turns.AttemptFailure
		if json.Unmarshal(e.Data, &p) != nil || p.ProviderAttempt == nil {
			return false
		}
		r.try(*p.ProviderAttempt)
		r.texts = slices.DeleteFunc(r.texts, func(t Text) bool { return slices.Contains(p.Discarded, t.ItemID) })
		if u := p.ProviderAttempt.TokenUsage; u != nil && p.ProviderAttempt.Purpose == "" {
			r.Tokens = &roundTokens{Input: u.InputTokens, Output: u.OutputTokens, Total: u.TotalTokens,
				Estimated: u.Estimated}
		}
	case turns.ModelCompleted:
		var p turns.Sampled
		if json.Unmarshal(e.Data, &p) != nil || p.ProviderAttempt == nil || p.ProviderAttempt.Purpose != "" {
			return false
		}
		r.try(*p.ProviderAttempt)
		r.Round, r.ModelRef, r.StopReason, r.Calls = p.ProviderAttempt.Round, p.ProviderAttempt.ModelRef, p.StopReason,
			p.Calls
		r.Tokens = &roundTokens{Input: p.Usage.InputTokens, Output: p.Usage.OutputTokens, Total: p.Usage.TotalTokens,
			Cached: p.Usage.InputTokenDetails.CachedTokens, Estimated: p.Usage.Estimated}
		return true
	}
	return false
}

// try adds an attempt of the round. The first one asks for the model that the round is to have.
func (r *round) try(a turns.ProviderAttempt) {
	if len(r.Tried.Attempts) == 0 {
		r.Tried.RequestedModelRef = a.ModelRef
	}
	r.Tried.Add(a)
}

// end returns the round with its text, and begins the next one.
func (r *round) end() round {
	var text strings.Builder
	for i, p := range r.texts {
		if i > 0 && p.ItemID != r.texts[i-1].ItemID {
			text.WriteString("\n\n")
		}
		text.WriteString(p.Delta)
		r.Phase = p.Phase
	}
	r.Text, r.Chars = visible.Clip(text.String(), maxTranscript), text.Len()
	out := *r
	*r = round{Round: r.Round}
	return out
}

// field is a value of a payload, the zero value if there is no such value of the type.
func field[T any](e ledger.Event, key string) (value T) {
	var fields map[string]json.RawMessage
	if json.Unmarshal(e.Data, &fields) == nil && fields[key] != nil {
		_ = json.Unmarshal(fields[key], &value) // one of another type is none
	}
	return value
}

// encoded is the JSON of a record of ours, which can be encoded.
func encoded(v any) json.RawMessage {
	data, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	return data
}

// Bounds of what is read back for a page.
const (
	backPage = 500
	maxBack  = 20_000
)

// newestTurns returns the newest events of an agent, the oldest first, from the beginning of a turn on: so many that n
// of them are wanted, or all that there are.
func newestTurns(v ledger.View, agentID string, n int, wanted func(ledger.Event) bool) ([]ledger.Event, error) {
	var events []ledger.Event
	before := int64(0)
	for {
		page, err := v.Events(agentID, ledger.EventQuery{Before: before, Limit: backPage, Descending: true})
		if err != nil {
			return nil, err
		}
		for _, e := range page.Events {
			events, before = append(events, e), e.Seq
			if wanted(e) {
				n--
			}
			if n <= 0 && e.Class == TurnSubmitted || len(events) == maxBack {
				page.HasOlder = false
				break
			}
		}
		if !page.HasOlder || len(page.Events) == 0 {
			slices.Reverse(events)
			return events, nil
		}
	}
}
