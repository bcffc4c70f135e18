package openai

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/openai/openai-go/v3/packages/param"
	sdk "github.com/openai/openai-go/v3/responses"
	"github.com/openai/openai-go/v3/shared"

	"holon/agentd/model"
	"holon/agentd/model/endpoint"
	"holon/responses"
)

// encode returns the request for req: the client's parameters, then the items of the conversation, so that a body
// begins with the one before. It is encoded here and not by the client, since the record of an attempt has its size.
// Errors are *model.Error values about items that the provider does not accept.
func (t *Transport) encode(req model.Request) (endpoint.Request, error) {
	forms := t.freeformOf(req)
	input, err := t.input(forms, req.Input)
	if err != nil {
		return endpoint.Request{}, err
	}
	params := newParams(req, forms)
	if t.codex {
		params = codexParams(req, forms)
	}
	extra := map[string]any{"stream": !t.whole}
	if req.Sampling.PresencePenalty { // the client has no parameters for the two penalties
		extra["presence_penalty"] = req.PresencePenalty
	}
	if req.Sampling.FrequencyPenalty {
		extra["frequency_penalty"] = req.FrequencyPenalty
	}
	if t.codex && param.IsOmitted(params.Reasoning) {
		extra["reasoning"] = nil
	}
	params.SetExtraFields(extra)
	body, err := params.MarshalJSON()
	if err != nil {
		return endpoint.Request{}, endpoint.Refused("the request has no form in JSON", err)
	}
	body = slices.Concat(body[:len(body)-1], []byte(`,"input":`), bytes.TrimSpace(input), []byte("}"))
	return endpoint.Request{Whole: t.whole, Body: body, Lowering: model.Lowering{
		Mode: model.LoweredFull, Items: len(req.Input), Bytes: len(body), CacheKey: req.PromptCacheKey != ""}}, nil
}

func newParams(req model.Request, forms freeform) sdk.ResponseNewParams {
	p := sdk.ResponseNewParams{
		Model: req.Model, Instructions: optional(req.Instructions), Store: param.NewOpt(false),
		Temperature: given(req.Sampling.Temperature, req.Temperature), TopP: given(req.Sampling.TopP, req.TopP),
		Text: textConfig(req.Text), PromptCacheKey: optional(req.PromptCacheKey),
		SafetyIdentifier: optional(req.SafetyIdentifier),
	}
	if len(req.Metadata) > 0 {
		p.Metadata = req.Metadata
	}
	if req.MaxOutputTokens != nil {
		p.MaxOutputTokens = param.NewOpt(int64(max(minOutputTokens, *req.MaxOutputTokens)))
	}
	if req.ServiceTier != "default" {
		p.ServiceTier = sdk.ResponseNewParamsServiceTier(req.ServiceTier)
	}
	if r := req.Reasoning; r != nil && r.Effort != nil {
		p.Reasoning.Effort = shared.ReasoningEffort(*r.Effort)
	}
	if r := req.Reasoning; r != nil && r.Summary != nil {
		p.Reasoning.Summary = shared.ReasoningSummary(*r.Summary)
	}
	if reasons(req) {
		p.Include = append(p.Include, responses.IncludeReasoning)
	}
	if req.Logprobs {
		p.Include = append(p.Include, responses.IncludeLogprobs)
		p.TopLogprobs = optional(int64(req.TopLogprobs))
	}
	if len(req.Tools) > 0 {
		p.ToolChoice, p.ParallelToolCalls = forms.choice(req.ToolChoice), param.NewOpt(req.ParallelToolCalls)
		p.Tools = tools(req.Tools, forms)
	}
	return p
}

// codexParams returns the parameters for the Codex backend of ChatGPT (runtime
// specification, "Provider Transport Contract"): it requires some keys and refuses
// max_output_tokens, metadata and safety_identifier. Parameters that shape the
// answer are sent, so that the backend refuses them instead of us dropping them.
func codexParams(req model.Request, forms freeform) sdk.ResponseNewParams {
	req.MaxOutputTokens, req.Metadata, req.SafetyIdentifier = nil, nil, ""
	p := newParams(req, forms)
	p.Instructions = param.NewOpt(req.Instructions)
	if p.Include == nil {
		p.Include = []sdk.ResponseIncludable{}
	}
	if p.Tools == nil {
		p.Tools, p.ToolChoice.OfToolChoiceMode = []sdk.ToolUnionParam{}, param.NewOpt(sdk.ToolChoiceOptionsAuto)
		p.ParallelToolCalls = param.NewOpt(false)
	}
	return p
}

// minOutputTokens is the smallest limit that the API accepts. Clients that probe a
// server send less.
const minOutputTokens = 16

// optional returns a parameter that is left out where it is zero.
func optional[T comparable](v T) (o param.Opt[T]) {
	if v != *new(T) {
		o = param.NewOpt(v)
	}
	return o
}

// given returns v where the caller set it: some models refuse a sampling
// parameter even at its default.
func given(set bool, v float64) (o param.Opt[float64]) {
	if set {
		o = param.NewOpt(v)
	}
	return o
}

// tools returns the tools of a request. Schemas are sent as they came: the client's
// own field is a map, which loses the order of their keys.
func tools(list []model.Tool, forms freeform) []sdk.ToolUnionParam {
	out := make([]sdk.ToolUnionParam, len(list))
	for i, t := range list {
		if _, ok := forms[t.Name]; ok {
			tool := &sdk.CustomToolParam{Name: t.Name,
				Description: optional(cmp.Or(t.Freeform.Description, t.Description))}
			tool.Format.OfGrammar = &shared.CustomToolInputFormatGrammarParam{
				Syntax: t.Freeform.Syntax, Definition: t.Freeform.Definition}
			out[i].OfCustom = tool
			continue
		}
		tool := &sdk.FunctionToolParam{Name: t.Name, Description: optional(t.Description),
			Strict: param.NewOpt(t.Strict != nil && *t.Strict)} // the API's default excludes optional parameters
		schema := t.Parameters
		if len(schema) == 0 {
			schema = json.RawMessage(endpoint.EmptySchema)
		}
		tool.SetExtraFields(map[string]any{"parameters": schema})
		out[i].OfFunction = tool
	}
	return out
}

func textConfig(t responses.TextConfig) sdk.ResponseTextConfigParam {
	p := sdk.ResponseTextConfigParam{Verbosity: sdk.ResponseTextConfigVerbosity(t.Verbosity)}
	switch f := t.Format; {
	case f.Type == "json_schema" && len(f.Schema) > 0:
		schema := &sdk.ResponseFormatTextJSONSchemaConfigParam{
			Name: cmp.Or(f.Name, "answer"), Strict: param.NewOpt(f.Strict)}
		if f.Description != nil {
			schema.Description = param.NewOpt(*f.Description)
		}
		schema.SetExtraFields(map[string]any{"schema": f.Schema})
		p.Format.OfJSONSchema = schema
	case f.Type == "json_object", f.Type == "json_schema": // without a schema it asks for any JSON
		p.Format.OfJSONObject = &shared.ResponseFormatJSONObjectParam{}
	}
	return p
}

// reasons reports whether the model thinks before it answers and so can return
// encrypted reasoning; other models refuse the request for it.
func reasons(req model.Request) bool {
	if r := req.Reasoning; r != nil && r.Effort != nil {
		return *r.Effort != "none"
	}
	name := req.Model[strings.LastIndexByte(req.Model, '/')+1:]
	if strings.Contains(name, "-chat") {
		return false
	}
	if len(name) >= 2 && name[0] == 'o' && '1' <= name[1] && name[1] <= '9' || strings.Contains(name, "codex") {
		return true
	}
	var generation int
	if n, err := fmt.Sscanf(name, "gpt-%d", &generation); err == nil && n == 1 {
		return generation >= 5
	}
	return strings.HasPrefix(name, "gpt-oss")
}
