package openai

// codexRequest is the body for the Codex backend of ChatGPT (runtime specification,
// "Provider Transport Contract"): it requires some keys and refuses
// max_output_tokens, metadata and safety_identifier. Parameters that shape the
// answer are sent, so that the backend refuses them instead of us dropping them.
type codexRequest struct {
	Model             string         `json:"model"`
	Instructions      string         `json:"instructions"`
	Input             apart          `json:"input"`
	Tools             []wireTool     `json:"tools"`
	ToolChoice        any            `json:"tool_choice"`
	ParallelToolCalls bool           `json:"parallel_tool_calls"`
	Reasoning         *wireReasoning `json:"reasoning"` // null for none
	Store             bool           `json:"store"`
	Stream            bool           `json:"stream"`
	Include           []string       `json:"include"` // [] for none
	Temperature       *float64       `json:"temperature,omitempty"`
	TopP              *float64       `json:"top_p,omitempty"`
	PresencePenalty   *float64       `json:"presence_penalty,omitempty"`
	FrequencyPenalty  *float64       `json:"frequency_penalty,omitempty"`
	Text              *wireText      `json:"text,omitempty"`
	ServiceTier       string         `json:"service_tier,omitempty"`
	PromptCacheKey    string         `json:"prompt_cache_key,omitempty"`
	TopLogprobs       int            `json:"top_logprobs,omitempty"`
}

// codex returns the request in the shape of the Codex backend, which streams
// and stores nothing.
func (w *wireRequest) codex() codexRequest {
	c := codexRequest{
		Model: w.Model, Instructions: w.Instructions, Tools: w.Tools, ToolChoice: w.ToolChoice,
		ParallelToolCalls: w.ParallelToolCalls != nil && *w.ParallelToolCalls, Reasoning: w.Reasoning, Stream: true,
		Include:     w.Include,
		Temperature: w.Temperature, TopP: w.TopP, PresencePenalty: w.PresencePenalty,
		FrequencyPenalty: w.FrequencyPenalty,
		Text:             w.Text, ServiceTier: w.ServiceTier, PromptCacheKey: w.PromptCacheKey,
		TopLogprobs: w.TopLogprobs,
	}
	if c.Tools == nil {
		c.Tools, c.ToolChoice = []wireTool{}, "auto"
	}
	if c.Include == nil {
		c.Include = []string{}
	}
	return c
}
