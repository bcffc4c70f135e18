// Package chat maps the Chat Completions API onto Open Responses: a request becomes the body of one for a response, and
// the answer to that becomes a completion, or its chunks as they come.
//
//	messages, tools, response_format … ─▶ input, tools, text.format …
//	completion, chunks ◀─ response, events
//
// The invariant: what a request means is mapped or refused with the name of its field; only hints are left out. A
// completion is not stored unless the client says so, as with OpenAI. Not promised: anything of Open Responses that
// Chat Completions has no word for, such as reasoning and the tools that an agent runs itself.
package chat

import (
	"encoding/json"
	"fmt"

	"holon/responses"
)

// Request is a request for a completion, mapped.
type Request struct {
	Body         []byte // of POST /v1/responses
	Stream       bool
	IncludeUsage bool // in a chunk at the end
}

// incoming is the body of POST /v1/chat/completions, as far as it is read.
type incoming struct {
	Messages            []message       `json:"messages"`
	Tools               []tool          `json:"tools"`
	ToolChoice          json.RawMessage `json:"tool_choice"`
	ResponseFormat      *format         `json:"response_format"`
	MaxTokens           *int64          `json:"max_tokens"`
	MaxCompletionTokens *int64          `json:"max_completion_tokens"`
	ReasoningEffort     *string         `json:"reasoning_effort"`
	Verbosity           *string         `json:"verbosity"`
	Stream              bool            `json:"stream"`
	StreamOptions       struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	Store *bool `json:"store"`

	N          *int            `json:"n"`
	Stop       json.RawMessage `json:"stop"`
	Audio      json.RawMessage `json:"audio"`
	Functions  json.RawMessage `json:"functions"`
	Logprobs   *bool           `json:"logprobs"`
	Modalities []string        `json:"modalities"`

	same
}

// same are the fields that both APIs have.
type same struct {
	Model             json.RawMessage `json:"model,omitempty"`
	Temperature       json.RawMessage `json:"temperature,omitempty"`
	TopP              json.RawMessage `json:"top_p,omitempty"`
	PresencePenalty   json.RawMessage `json:"presence_penalty,omitempty"`
	FrequencyPenalty  json.RawMessage `json:"frequency_penalty,omitempty"`
	ParallelToolCalls json.RawMessage `json:"parallel_tool_calls,omitempty"`
	Metadata          json.RawMessage `json:"metadata,omitempty"`
	ServiceTier       json.RawMessage `json:"service_tier,omitempty"`
	SafetyIdentifier  json.RawMessage `json:"safety_identifier,omitempty"`
	PromptCacheKey    json.RawMessage `json:"prompt_cache_key,omitempty"`
	Holon             json.RawMessage `json:"holon,omitempty"`
}

// outgoing is the body of POST /v1/responses.
type outgoing struct {
	same
	Input           []any             `json:"input"`
	Tools           []any             `json:"tools,omitempty"`
	ToolChoice      any               `json:"tool_choice,omitempty"`
	Text            map[string]any    `json:"text,omitempty"`
	Reasoning       map[string]string `json:"reasoning,omitempty"`
	MaxOutputTokens *int64            `json:"max_output_tokens,omitempty"`
	Stream          bool              `json:"stream"`
	Store           bool              `json:"store"`
}

type format struct {
	Type   string          `json:"type"`
	Schema json.RawMessage `json:"json_schema"`
}

// Decode maps the body of POST /v1/chat/completions. Errors are *responses.Error that name the field.
func Decode(body []byte) (q Request, err error) {
	var in incoming
	if err := responses.CheckBody(body); err != nil {
		return q, err
	}
	if err := responses.Unmarshal(body, &in); err != nil {
		return q, err
	}
	if err := in.check(); err != nil {
		return q, err
	}
	out := outgoing{same: in.same, MaxOutputTokens: in.MaxCompletionTokens, Stream: in.Stream,
		Store: in.Store != nil && *in.Store}
	if out.MaxOutputTokens == nil {
		out.MaxOutputTokens = in.MaxTokens
	}
	if in.ReasoningEffort != nil {
		out.Reasoning = map[string]string{"effort": *in.ReasoningEffort}
	}
	if out.Text, err = in.text(); err != nil {
		return q, err
	}
	for i, m := range in.Messages {
		items, err := m.items(fmt.Sprintf("messages[%d]", i))
		if err != nil {
			return q, err
		}
		out.Input = append(out.Input, items...)
	}
	for i, t := range in.Tools {
		if t.Type != "function" {
			return q, unsupported(fmt.Sprintf("tools[%d].type", i), "only function tools are offered")
		}
		out.Tools = append(out.Tools, t.mapped())
	}
	if out.ToolChoice, err = in.choice(); err != nil {
		return q, err
	}
	q = Request{Stream: in.Stream, IncludeUsage: in.StreamOptions.IncludeUsage}
	if q.Body, err = responses.Marshal(out); err != nil {
		return q, responses.Internal("the request cannot be encoded", err)
	}
	return q, nil
}

func unsupported(param, message string) error {
	return responses.Invalid(param, responses.CodeUnsupportedParameter, message)
}

func null(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }

// check refuses what would lose its meaning.
func (in *incoming) check() error {
	switch {
	case len(in.Messages) == 0:
		return responses.Invalid("messages", responses.CodeMissingParameter, "a completion needs messages")
	case in.N != nil && *in.N != 1:
		return unsupported("n", "there is one choice")
	case !null(in.Stop):
		return unsupported("stop", "an answer has no stop sequences")
	case !null(in.Audio):
		return unsupported("audio", "an answer is text")
	case !null(in.Functions):
		return unsupported("functions", "functions are given as tools")
	case in.Logprobs != nil && *in.Logprobs:
		return unsupported("logprobs", "a completion has no probabilities; POST /v1/responses gives them")
	case len(in.Modalities) > 1 || len(in.Modalities) == 1 && in.Modalities[0] != "text":
		return unsupported("modalities", "an answer is text")
	}
	return nil
}

// text maps response_format and verbosity.
func (in *incoming) text() (map[string]any, error) {
	text := make(map[string]any)
	if in.Verbosity != nil {
		text["verbosity"] = *in.Verbosity
	}
	if f := in.ResponseFormat; f != nil {
		mapped := map[string]any{"type": f.Type}
		if f.Type == "json_schema" {
			var schema map[string]json.RawMessage
			if err := json.Unmarshal(f.Schema, &schema); err != nil || schema == nil {
				return nil, responses.Invalid("response_format.json_schema", responses.CodeInvalidValue,
					"json_schema must be an object")
			}
			for key, value := range schema {
				mapped[key] = value
			}
			mapped["type"] = f.Type
		}
		text["format"] = mapped
	}
	return text, nil
}

type function struct {
	Name        string          `json:"name"`
	Description json.RawMessage `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters,omitempty"`
	Strict      json.RawMessage `json:"strict,omitempty"`
}

type tool struct {
	Type     string   `json:"type"`
	Function function `json:"function"`
}

// mapped is the tool of a response. Unlike there, a function is not strict unless it says so.
func (t tool) mapped() any {
	if null(t.Function.Strict) {
		t.Function.Strict = json.RawMessage("false")
	}
	return struct {
		Type string `json:"type"`
		function
	}{t.Type, t.Function}
}

// choice maps tool_choice: a word, or the name of a function.
func (in *incoming) choice() (any, error) {
	if null(in.ToolChoice) {
		return nil, nil
	}
	if in.ToolChoice[0] == '"' {
		return in.ToolChoice, nil
	}
	var named tool
	if err := json.Unmarshal(in.ToolChoice, &named); err != nil || named.Type != "function" || named.Function.Name == "" {
		return nil, unsupported("tool_choice", "tool_choice must be a word or name a function")
	}
	return map[string]string{"type": "function", "name": named.Function.Name}, nil
}
