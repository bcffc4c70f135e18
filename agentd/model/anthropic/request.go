package anthropic

import (
	"encoding/json"
	"slices"

	"holon/agentd/model"
	"holon/agentd/model/endpoint"
	"holon/internal/providers"
	"holon/responses"
)

// wireRequest is the body of POST /v1/messages. The messages come last and the
// rest stays the same over a turn, so that a body begins with the one before. The
// client's parameter type puts them before the rest, takes four times as long for 400
// messages (1.6 ms, 0.4 ms here), and drops the order of keys in schemas.
type wireRequest struct {
	Model        string        `json:"model"`
	MaxTokens    int           `json:"max_tokens"`
	Stream       bool          `json:"stream"`
	Temperature  *float64      `json:"temperature,omitempty"`
	TopP         *float64      `json:"top_p,omitempty"`
	ServiceTier  string        `json:"service_tier,omitempty"`
	Metadata     *metadata     `json:"metadata,omitempty"`
	Thinking     *thinking     `json:"thinking,omitempty"`
	OutputConfig *outputConfig `json:"output_config,omitempty"`
	ToolChoice   *toolChoice   `json:"tool_choice,omitempty"`
	Tools        []tool        `json:"tools,omitempty"`
	System       []block       `json:"system,omitempty"`
	Messages     []message     `json:"messages"`
}

type metadata struct {
	UserID string `json:"user_id"`
}

type thinking struct {
	Type         string        `json:"type"` // enabled, adaptive, disabled or between_tools
	BudgetTokens int           `json:"budget_tokens,omitempty"`
	Display      string        `json:"display,omitempty"`
	BlockBinding *blockBinding `json:"block_binding,omitempty"`
}

type blockBinding struct {
	PrefixMismatchBehavior string `json:"prefix_mismatch_behavior"`
}

type outputConfig struct {
	Effort string        `json:"effort,omitempty"`
	Format *outputFormat `json:"format,omitempty"`
}

type outputFormat struct {
	Type   string          `json:"type"`
	Schema json.RawMessage `json:"schema"`
}

type toolChoice struct {
	Type                   string `json:"type"` // auto, any, tool or none
	Name                   string `json:"name,omitempty"`
	DisableParallelToolUse bool   `json:"disable_parallel_tool_use,omitempty"`
}

type tool struct {
	Name         string          `json:"name"`
	Description  string          `json:"description,omitempty"`
	InputSchema  json.RawMessage `json:"input_schema"`
	Strict       bool            `json:"strict,omitempty"`
	CacheControl *cacheControl   `json:"cache_control,omitempty"`
}

// encodeRequest returns the body for req and the value of the header
// Anthropic-Beta, which may be "". Errors are *model.Error values.
func encodeRequest(provider string, req model.Request) (body []byte, beta string, err error) {
	c := contractOf(req.Model)
	system, messages, err := converse(provider, req.Input, c)
	if err != nil {
		return nil, "", err
	}
	shared, own := shareable(req.Instructions, req.Breakpoints)
	if own != nil {
		system = slices.Insert(system, 0, own...)
	}
	w := wireRequest{Model: req.Model, MaxTokens: c.output(req.MaxOutputTokens), Stream: true, Messages: messages}
	if req.SafetyIdentifier != "" {
		w.Metadata = &metadata{req.SafetyIdentifier}
	}
	if req.ServiceTier == "auto" || req.ServiceTier == "standard_only" { // the other tiers are another provider's
		w.ServiceTier = req.ServiceTier
	}
	w.Tools, w.ToolChoice = encodeTools(req, c, messages)
	effort := w.think(req, c)
	if w.Thinking != nil && w.Thinking.BlockBinding != nil {
		beta = providers.BindingBeta
	}
	w.sample(req, c)
	format, words, err := encodeFormat(req.Text.Format, c)
	if err != nil {
		return nil, "", err
	}
	if words != "" {
		system = append(system, textBlock(words))
	}
	if effort != "" || format != nil {
		w.OutputConfig = &outputConfig{Effort: effort, Format: format}
	}
	w.System = system
	markCache(w.Tools, w.System, shared, w.Messages)
	body, err = endpoint.EncodeJSON(w)
	return body, beta, err
}

// think sets how the model thinks and returns the effort to send.
func (w *wireRequest) think(req model.Request, c contract) (effort string) {
	asked := ""
	if req.Reasoning != nil && req.Reasoning.Effort != nil {
		asked = *req.Reasoning.Effort
	}
	effort = c.effort(asked)
	switch {
	case c.thinking == noThinking:
		return ""
	case c.thinking == budgetThinking:
		// Such a model refuses to think when it has to call a tool, and when it
		// began its present turn without.
		if n := budget(effort, w.MaxTokens); n > 0 && !w.ToolChoice.forces() && mayThink(w.Messages) {
			w.Thinking = &thinking{Type: "enabled", BudgetTokens: n}
		}
		return "" // the budget is the effort
	case asked == "none" && c.off != offLowEffort:
		w.Thinking = c.turnedOff()
		return ""
	case asked == "none":
		effort = "low"
	}
	if c.always || effort != "" {
		w.Thinking = &thinking{Type: "adaptive", Display: "summarized"}
		if c.bound {
			w.Thinking.BlockBinding = &blockBinding{"drop_block"}
		}
	}
	return effort
}

// turnedOff returns how a model is told not to think, nil for one that thinks only
// when it is told to.
func (c contract) turnedOff() *thinking {
	switch {
	case c.off == offBetweenTools:
		return &thinking{Type: "between_tools"}
	case c.always:
		return &thinking{Type: "disabled"}
	}
	return nil
}

// mayThink reports whether the model, in the turn that goes on, began with a
// thought or has not begun: after that of another provider, or one without
// thoughts, the API refuses to begin.
func mayThink(messages []message) bool {
	first := block{Type: typeThinking}
	for _, m := range slices.Backward(messages) {
		if m.Role == roleUser && !slices.ContainsFunc(m.Content, func(b block) bool {
			return b.Type == typeToolResult
		}) {
			break
		}
		if m.Role == roleAssistant {
			first = m.Content[0]
		}
	}
	return first.Type == typeThinking || first.Type == typeRedacted
}

// sample sets the sampling parameters for models that accept them. The API's
// temperatures end at 1, and a model that thinks accepts none.
func (w *wireRequest) sample(req model.Request, c contract) {
	thinks := w.Thinking != nil && (w.Thinking.Type == "enabled" || w.Thinking.Type == "adaptive")
	if !c.sampling || thinks {
		return
	}
	if req.Sampling.Temperature {
		t := min(req.Temperature, 1)
		w.Temperature = &t
	}
	if req.Sampling.TopP && (w.Temperature == nil || !c.either) {
		w.TopP = &req.TopP
	}
}

// encodeTools returns the tools and which of them may be called.
func encodeTools(req model.Request, c contract, messages []message) ([]tool, *toolChoice) {
	list, choice := chooseTools(req, c, messages)
	if len(list) == 0 {
		return nil, nil
	}
	if choice.Type == "auto" && !choice.DisableParallelToolUse {
		choice = nil // the API's default
	}
	out := make([]tool, len(list))
	for i, t := range list {
		out[i] = tool{Name: plainName(t.Name), Description: t.Description, InputSchema: objectSchema(t.Parameters)}
		if t.Strict != nil && *t.Strict && c.schema {
			if schema, err := closedSchema(out[i].InputSchema); err == nil {
				out[i].InputSchema, out[i].Strict = schema, true
			}
		}
	}
	return out, choice
}

// chooseTools returns the tools to offer. Tools that are not allowed are left
// out, since the API cannot express that; a conversation with calls needs tools
// in any case.
func chooseTools(req model.Request, c contract, messages []message) (list []model.Tool, choice *toolChoice) {
	choice = &toolChoice{Type: "auto", DisableParallelToolUse: !req.ParallelToolCalls}
	list = req.Tools
	if req.ToolChoice.Allowed != nil {
		list = slices.DeleteFunc(slices.Clone(list), func(t model.Tool) bool {
			return !slices.Contains(req.ToolChoice.Allowed, t.Name)
		})
	}
	switch {
	case req.ToolChoice.Mode == "none":
		choice = &toolChoice{Type: "none"}
	case len(list) == 0:
		if list = req.Tools; len(list) == 0 {
			list = calledTools(messages)
		}
		choice = &toolChoice{Type: "none"}
	case req.ToolChoice.Name != "" && c.forced:
		choice.Type, choice.Name = "tool", plainName(req.ToolChoice.Name)
	case (req.ToolChoice.Name != "" || req.ToolChoice.Mode == "required") && c.forced:
		choice.Type = "any"
	}
	return list, choice
}

// forces reports whether the model must call a tool.
func (t *toolChoice) forces() bool { return t != nil && (t.Type == "any" || t.Type == "tool") }

// calledTools returns placeholders for the tools that the conversation contains
// calls of.
func calledTools(messages []message) (list []model.Tool) {
	for _, m := range messages {
		for _, b := range m.Content {
			if b.Type == typeToolUse && !slices.ContainsFunc(list, func(t model.Tool) bool {
				return t.Name == b.Name
			}) {
				list = append(list, model.Tool{Name: b.Name, Description: "No longer offered."})
			}
		}
	}
	return list
}

// encodeFormat returns the format that the API enforces, or an instruction to
// follow it for models without that ability. The turn checks the answer.
func encodeFormat(f responses.TextFormat, c contract) (format *outputFormat, words string, err error) {
	switch {
	case f.Type == "json_schema" && len(f.Schema) > 0 && c.schema:
		schema, err := closedSchema(f.Schema)
		if err != nil {
			return nil, "", endpoint.Refused("the schema of text.format can't be read", err)
		}
		return &outputFormat{"json_schema", schema}, "", nil
	case f.Type == "json_schema" && len(f.Schema) > 0:
		return nil, "When you answer, write JSON that fits this JSON Schema and nothing else, no code fence either:\n" +
			string(f.Schema), nil
	case f.Type == "json_schema" || f.Type == "json_object":
		return nil, "When you answer, write one JSON object and nothing else, no code fence either.", nil
	}
	return nil, "", nil
}
