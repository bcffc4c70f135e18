package anthropic

import (
	"encoding/json"

	"holon/agentd/model"
	"holon/agentd/model/scan"
	"holon/responses"
)

// wireEvent has the keys of the events that are read.
type wireEvent struct {
	Type         string       `json:"type"`
	Index        int          `json:"index"`
	Message      *wireMessage `json:"message"`       // message_start
	ContentBlock *wireBlock   `json:"content_block"` // content_block_start
	Delta        *wireDelta   `json:"delta"`         // content_block_delta, message_delta
	Usage        *wireUsage   `json:"usage"`         // message_delta
}

type wireMessage struct {
	ID    string     `json:"id"`
	Usage *wireUsage `json:"usage"`
}

type wireBlock struct {
	Type      string          `json:"type"`
	Text      model.WireText  `json:"text"`
	Thinking  model.WireText  `json:"thinking"`
	Signature string          `json:"signature"`
	Data      string          `json:"data"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
}

type wireDelta struct {
	Type        string         `json:"type"`
	Text        model.WireText `json:"text"`
	Thinking    model.WireText `json:"thinking"`
	Signature   string         `json:"signature"`
	PartialJSON model.WireText `json:"partial_json"`
	Citation    *wireCitation  `json:"citation"`

	StopReason  string       `json:"stop_reason"` // message_delta
	StopDetails *stopDetails `json:"stop_details"`
}

type stopDetails struct {
	Category    string `json:"category"`
	Explanation string `json:"explanation"`
}

type wireCitation struct {
	URL   string `json:"url"`
	Title string `json:"title"`
}

// wireUsage is what an answer cost so far. Its events repeat only what changed.
type wireUsage struct {
	InputTokens         *int64 `json:"input_tokens"`
	CacheCreation       *int64 `json:"cache_creation_input_tokens"`
	CacheRead           *int64 `json:"cache_read_input_tokens"`
	OutputTokens        *int64 `json:"output_tokens"`
	OutputTokensDetails *struct {
		ThinkingTokens *int64 `json:"thinking_tokens"`
	} `json:"output_tokens_details"`
}

// usage sums up what an answer cost.
type usage struct{ input, created, read, output, thinking int64 }

func (u *usage) take(w *wireUsage) {
	if w == nil {
		return
	}
	set := func(n, v *int64) {
		if v != nil {
			*n = max(0, *v)
		}
	}
	set(&u.input, w.InputTokens)
	set(&u.created, w.CacheCreation)
	set(&u.read, w.CacheRead)
	set(&u.output, w.OutputTokens)
	if d := w.OutputTokensDetails; d != nil {
		set(&u.thinking, d.ThinkingTokens)
	}
}

// sum returns the cost in the terms of Open Responses: what was read from a cache
// and what was put into one are input too.
func (u usage) sum() responses.Usage {
	in := u.input + u.created + u.read
	return responses.Usage{
		InputTokens: in, OutputTokens: u.output, TotalTokens: in + u.output,
		InputTokenDetails:  responses.InputTokenDetails{CachedTokens: u.read},
		OutputTokenDetails: responses.OutputTokenDetails{ReasoningTokens: min(u.thinking, u.output)},
	}
}

// known reports whether the assembly acts on events of the type. Only those are
// decoded, so that others may have any shape.
func known(eventType string) bool {
	switch eventType {
	case "message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta",
		"message_stop", "error":
		return true
	}
	return false
}

// deltaKind maps pieces of a block to events of ours; 0 for those that make none.
func deltaKind(d *wireDelta) (kind model.EventKind, text model.WireText) {
	switch d.Type {
	case "text_delta":
		return model.TextDelta, d.Text
	case "thinking_delta":
		return model.SummaryDelta, d.Thinking
	case "input_json_delta":
		return model.CallDelta, d.PartialJSON
	}
	return 0, ""
}

// scanDelta reads a piece of a block of ordinary form in one pass. It gives up,
// with ok false, on everything unusual, which encoding/json then reads; what it
// accepts means the same to both.
func scanDelta(data []byte) (index int, d wireDelta, ok bool) {
	s := scan.Of(data)
	// The order of keys is the API's; others are unusual.
	if !s.Next('{') || !word(&s, "type", ':') || !word(&s, "content_block_delta", ',') || !word(&s, "index", ':') {
		return 0, d, false
	}
	if index, ok = s.Number(); !ok || !s.Next(',') || !word(&s, "delta", ':') || !s.Next('{') ||
		!word(&s, "type", ':') {
		return 0, d, false
	}
	kind, ok := s.Plain()
	if !ok || !s.Next(',') {
		return 0, d, false
	}
	key, text := "", &d.Text
	switch string(kind) {
	case "text_delta":
		d.Type, key = "text_delta", "text"
	case "thinking_delta":
		d.Type, key, text = "thinking_delta", "thinking", &d.Thinking
	case "input_json_delta":
		d.Type, key, text = "input_json_delta", "partial_json", &d.PartialJSON
	default:
		return 0, d, false
	}
	if !word(&s, key, ':') {
		return 0, d, false
	}
	if *text, ok = s.Text(); !ok {
		return 0, d, false
	}
	if !s.Next('}') { // of the delta
		return 0, d, false
	}
	return index, d, s.Next('}') && s.End()
}

// word consumes a string without escapes, if it is want, and what follows it.
func word(s *scan.Scanner, want string, then byte) bool {
	got, ok := s.Plain()
	return ok && string(got) == want && s.Next(then)
}
