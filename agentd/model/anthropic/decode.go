package anthropic

import (
	"encoding/json"

	"holon/agentd/model"
	"holon/agentd/model/endpoint"
	"holon/responses"
)

// wireEvent has the keys that are read of events. The client's event type replaces
// halves of characters by U+FFFD.
type wireEvent struct {
	Type         string          `json:"type"`
	Index        *endpoint.Index `json:"index"`         // some leave it out
	Message      *wireMessage    `json:"message"`       // message_start
	ContentBlock *wireBlock      `json:"content_block"` // content_block_start
	Delta        *wireDelta      `json:"delta"`         // content_block_delta, message_delta
	Usage        *wireUsage      `json:"usage"`         // message_delta
}

type wireMessage struct {
	ID    endpoint.Text `json:"id"`
	Usage *wireUsage    `json:"usage"`

	Content     []*wireBlock `json:"content"` // the rest is of a whole answer
	StopReason  string       `json:"stop_reason"`
	StopDetails *stopDetails `json:"stop_details"`
}

type wireBlock struct {
	Type      string          `json:"type"`
	Text      model.WireText  `json:"text"`
	Thinking  model.WireText  `json:"thinking"`
	Signature string          `json:"signature"`
	Data      string          `json:"data"`
	ID        endpoint.Text   `json:"id"`
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
