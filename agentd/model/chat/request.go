package chat

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"holon/agentd/model"
	"holon/agentd/model/endpoint"
	"holon/internal/providers"
	"holon/responses"
)

// body writes the keys of a JSON object in the order in which they are added,
// leaving out those that the endpoint refuses.
type body struct {
	dialect *dialect
	buf     bytes.Buffer
	err     error
}

func (b *body) add(key string, value any) {
	if b.err != nil || b.dialect.omits(key) {
		return
	}
	if b.buf.Len() == 0 {
		b.buf.WriteByte('{')
	} else {
		b.buf.WriteByte(',')
	}
	fmt.Fprintf(&b.buf, "%q:", key)
	text, err := endpoint.EncodeJSON(value)
	b.buf.Write(bytes.TrimSpace(text))
	b.err = err
}

// addSet adds a sampling parameter that the caller set: some models refuse one
// even at its default.
func (b *body) addSet(key string, set bool, v float64) {
	if set {
		b.add(key, v)
	}
}

func (b *body) bytes() ([]byte, error) {
	if b.err != nil {
		return nil, b.err
	}
	b.buf.WriteByte('}')
	return b.buf.Bytes(), nil
}

// encode returns the request for req. Parameters that are not set are not sent, since
// some endpoints refuse unknown keys. Errors are *model.Error values about items
// that the provider does not accept.
func (t *Transport) encode(req model.Request) (endpoint.Request, error) {
	d := &t.dialect
	format, told := d.format(req.Text.Format)
	messages, err := t.encodeMessages(req, told)
	if err != nil {
		return endpoint.Request{}, err
	}
	b := &body{dialect: d}
	b.add("model", req.Model)
	b.add("messages", messages)
	if tools := d.tools(req); len(tools) > 0 {
		b.add("tools", tools)
		if choice := toolChoice(req.ToolChoice); choice != nil {
			b.add("tool_choice", choice)
		}
		if !req.ParallelToolCalls {
			b.add("parallel_tool_calls", false)
		}
	}
	if req.MaxOutputTokens != nil {
		b.add(cmp.Or(d.MaxTokensKey, "max_tokens"), *req.MaxOutputTokens)
	}
	b.addSet("temperature", req.Sampling.Temperature, req.Temperature)
	b.addSet("top_p", req.Sampling.TopP, req.TopP)
	b.addSet("presence_penalty", req.Sampling.PresencePenalty, req.PresencePenalty)
	b.addSet("frequency_penalty", req.Sampling.FrequencyPenalty, req.FrequencyPenalty)
	if r := req.Reasoning; r != nil && r.Effort != nil {
		if d.EffortKey == keyReasoning {
			b.add(keyReasoning, map[string]string{"effort": *r.Effort})
		} else {
			b.add(cmp.Or(d.EffortKey, "reasoning_effort"), *r.Effort)
		}
	}
	if format != nil {
		b.add("response_format", format)
	}
	if req.ServiceTier != "" && req.ServiceTier != "default" {
		b.add("service_tier", req.ServiceTier)
	}
	if req.Logprobs {
		b.add("logprobs", true)
		b.add("top_logprobs", req.TopLogprobs)
	}
	b.add("stream", !t.whole)
	if !t.whole {
		b.add("stream_options", map[string]bool{"include_usage": true})
	}
	text, err := b.bytes()
	return endpoint.Request{Path: "/chat/completions", Whole: t.whole, Body: text,
		Lowering: model.Lowering{Mode: model.LoweredFull, Items: len(req.Input), Bytes: len(text)}}, err
}

type wireTool struct {
	Type     string       `json:"type"`
	Function wireFunction `json:"function"`
}

type wireFunction struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters"`
	Strict      bool            `json:"strict,omitempty"` // false is the API's default, and some servers refuse the key
}

// tools returns the functions that may be called. The API cannot offer a function
// that may not be called.
func (d *dialect) tools(req model.Request) (list []wireTool) {
	for _, tool := range req.Tools {
		if allowed := req.ToolChoice.Allowed; allowed != nil && !slices.Contains(allowed, tool.Name) {
			continue
		}
		f := wireFunction{Name: tool.Name, Description: tool.Description, Parameters: tool.Parameters}
		f.Strict = tool.Strict != nil && *tool.Strict && !d.omits("strict")
		if len(f.Parameters) == 0 {
			f.Parameters = json.RawMessage(endpoint.EmptySchema)
		}
		list = append(list, wireTool{"function", f})
	}
	return list
}

// toolChoice returns the choice, nil for the default.
func toolChoice(c responses.ToolChoice) any {
	switch {
	case c.Name != "":
		return map[string]any{"type": "function", "function": map[string]string{"name": c.Name}}
	case c.Mode == "none" || c.Mode == "required":
		return c.Mode
	}
	return nil
}

type wireFormat struct {
	Type   string      `json:"type"`
	Schema *wireSchema `json:"json_schema,omitempty"`
}

type wireSchema struct {
	Name        string          `json:"name"`
	Description *string         `json:"description,omitempty"`
	Schema      json.RawMessage `json:"schema"`
	Strict      bool            `json:"strict,omitempty"`
}

// format returns the format of the answer, nil for text, and an instruction to
// follow it for endpoints without schemas.
func (d *dialect) format(f responses.TextFormat) (format *wireFormat, told string) {
	switch {
	case f.Type == "json_schema" && len(f.Schema) > 0 && d.Structured == providers.StructuredSchema:
		return &wireFormat{f.Type, &wireSchema{cmp.Or(f.Name, "answer"), f.Description, f.Schema, f.Strict}}, ""
	case f.Type == "json_schema" && len(f.Schema) > 0 && d.Structured == providers.StructuredObject:
		return &wireFormat{Type: "json_object"},
			"Answer with one JSON object, and nothing else, that fits this JSON Schema:\n" + string(f.Schema)
	case f.Type == "json_schema" || f.Type == "json_object":
		return &wireFormat{Type: "json_object"}, ""
	}
	return nil, ""
}
