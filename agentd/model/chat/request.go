package chat

import (
	"cmp"
	"encoding/json"
	"slices"

	"holon/agentd/model"
	"holon/agentd/model/endpoint"
	"holon/internal/providers"
	"holon/responses"
)

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
	body := map[string]any{"model": req.Model, "messages": messages, "stream": !t.whole}
	if !t.whole {
		body["stream_options"] = map[string]bool{"include_usage": true}
	}
	if tools := d.tools(req); len(tools) > 0 {
		body["tools"] = tools
		if choice := toolChoice(req.ToolChoice); choice != nil {
			body["tool_choice"] = choice
		}
		if !req.ParallelToolCalls {
			body["parallel_tool_calls"] = false
		}
	}
	d.parameters(req, body)
	if format != nil {
		body["response_format"] = format
	}
	for _, key := range d.Omit {
		delete(body, key)
	}
	text, err := endpoint.EncodeJSON(body)
	return endpoint.Request{Path: "/chat/completions", Whole: t.whole, Body: text,
		Lowering: model.Lowering{Mode: model.LoweredFull, Items: len(req.Input), Bytes: len(text)}}, err
}

// parameters adds what shapes the answer. Sampling parameters are sent where the caller
// set them: some models refuse one even at its default.
func (d *dialect) parameters(req model.Request, body map[string]any) {
	if req.MaxOutputTokens != nil {
		body[cmp.Or(d.MaxTokensKey, "max_tokens")] = *req.MaxOutputTokens
	}
	for key, p := range map[string]struct {
		set   bool
		value float64
	}{
		"temperature":       {req.Sampling.Temperature, req.Temperature},
		"top_p":             {req.Sampling.TopP, req.TopP},
		"presence_penalty":  {req.Sampling.PresencePenalty, req.PresencePenalty},
		"frequency_penalty": {req.Sampling.FrequencyPenalty, req.FrequencyPenalty},
	} {
		if p.set {
			body[key] = p.value
		}
	}
	switch r := req.Reasoning; {
	case r == nil || r.Effort == nil:
	case d.EffortKey == keyReasoning:
		body[keyReasoning] = map[string]string{"effort": *r.Effort}
	default:
		body[cmp.Or(d.EffortKey, "reasoning_effort")] = *r.Effort
	}
	if req.ServiceTier != "" && req.ServiceTier != "default" {
		body["service_tier"] = req.ServiceTier
	}
	if req.Logprobs {
		body["logprobs"], body["top_logprobs"] = true, req.TopLogprobs
	}
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
