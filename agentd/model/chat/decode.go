package chat

import (
	"bytes"
	"encoding/json"

	"holon/agentd/model"
	"holon/agentd/model/endpoint"
	"holon/responses"
)

// chunk has the keys that are read of a chunk or of a whole answer.
type chunk struct {
	ID      endpoint.Text `json:"id"`
	Choices []choice      `json:"choices"`
	Usage   *usage        `json:"usage"`
	Groq    *struct {
		Usage *usage `json:"usage"`
	} `json:"x_groq"`
}

type choice struct {
	Index        endpoint.Index  `json:"index"`
	Delta        *delta          `json:"delta"`
	Message      *delta          `json:"message"` // of a whole answer
	FinishReason endpoint.Text   `json:"finish_reason"`
	Usage        *usage          `json:"usage"` // some put it here
	Logprobs     json.RawMessage `json:"logprobs"`
}

// logprobs reads log probabilities. Malformed ones are left out: an answer does not
// fail because of them.
func (c *choice) logprobs() []responses.LogProb {
	var list struct {
		Content []responses.LogProb `json:"content"`
	}
	if len(c.Logprobs) == 0 || json.Unmarshal(c.Logprobs, &list) != nil {
		return nil
	}
	return list.Content
}

type delta struct {
	Content          json.RawMessage   `json:"content"` // a string, or parts
	Refusal          model.WireText    `json:"refusal"`
	ReasoningContent json.RawMessage   `json:"reasoning_content"`
	Reasoning        json.RawMessage   `json:"reasoning"` // a string; some put an object
	ReasoningDetails []json.RawMessage `json:"reasoning_details"`
	ToolCalls        []callDelta       `json:"tool_calls"`
	Annotations      []struct {
		Type        string                `json:"type"`
		URLCitation *responses.Annotation `json:"url_citation"`
	} `json:"annotations"`
}

type callDelta struct {
	Index    *endpoint.Index `json:"index"` // some leave it out
	ID       endpoint.Text   `json:"id"`
	Function functionDelta   `json:"function"`
	// Extra is returned to the provider with the call: Gemini's signature of the
	// thought that led to it.
	Extra json.RawMessage `json:"extra_content"`
}

type functionDelta struct {
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"` // a string; some put the object itself
}

// arguments returns arguments as they stand between the quotes; some servers send an object.
func (f *functionDelta) arguments() model.WireText {
	var b bytes.Buffer
	if text := textOf(f.Arguments); text != "" || len(f.Arguments) == 0 || f.Arguments[0] == '"' ||
		string(f.Arguments) == "null" || json.Compact(&b, f.Arguments) != nil {
		return text
	}
	quoted, _ := endpoint.EncodeJSON(b.String()) // a string always has a form
	return textOf(bytes.TrimSpace(quoted))
}

// textOf reads a JSON string. Anything else is an empty text.
func textOf(raw json.RawMessage) (text model.WireText) {
	if len(raw) > 0 {
		_ = text.UnmarshalJSON(raw) // it has no error
	}
	return text
}

// contentOf reads content: a string, or parts of text and of thinking.
func contentOf(raw json.RawMessage) (text, thinking model.WireText) {
	var parts []struct {
		Type     string          `json:"type"`
		Text     model.WireText  `json:"text"`
		Thinking json.RawMessage `json:"thinking"`
	}
	if len(raw) == 0 || raw[0] == '"' || json.Unmarshal(raw, &parts) != nil {
		return textOf(raw), ""
	}
	for _, p := range parts {
		text += p.Text
		if p.Type == "thinking" {
			inner, _ := contentOf(p.Thinking)
			thinking += inner
		}
	}
	return text, thinking
}

// usage has the keys in which providers count tokens.
type usage struct {
	Prompt        int64 `json:"prompt_tokens"`
	Completion    int64 `json:"completion_tokens"`
	Total         int64 `json:"total_tokens"`
	Cached        int64 `json:"cached_tokens"`           // some put it here
	CacheHit      int64 `json:"prompt_cache_hit_tokens"` // DeepSeek
	PromptDetails *struct {
		Cached int64 `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	CompletionDetails *struct {
		Reasoning int64 `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
}

// UnmarshalJSON ignores malformed counts: an answer does not fail because of them.
func (u *usage) UnmarshalJSON(data []byte) error {
	type plain usage // without this method
	var p plain
	_ = json.Unmarshal(data, &p) // a field of another type stays 0
	*u = usage(p)
	return nil
}

func (u *usage) usage() responses.Usage {
	out := responses.Usage{InputTokens: count(u.Prompt), OutputTokens: count(u.Completion)}
	cached := max(u.Cached, u.CacheHit)
	if d := u.PromptDetails; d != nil {
		cached = max(cached, d.Cached)
	}
	out.InputTokenDetails.CachedTokens = min(count(cached), out.InputTokens)
	if d := u.CompletionDetails; d != nil {
		reasoning := count(d.Reasoning)
		if u.Total == out.InputTokens+out.OutputTokens+reasoning { // some do not count it as part of the completion
			out.OutputTokens += reasoning
		}
		out.OutputTokenDetails.ReasoningTokens = min(reasoning, out.OutputTokens)
	}
	if out.TotalTokens = out.InputTokens + out.OutputTokens; out.TotalTokens == 0 {
		out.TotalTokens = count(u.Total) // all that is known
	}
	return out
}

// count bounds the number that a provider claims, so that sums do not overflow.
func count(n int64) int64 { return min(max(0, n), 1<<40) }
