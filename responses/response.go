package responses

import (
	"bytes"
	"cmp"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Status is the state of a response.
type Status string

// Response states (Open Responses, "State machines"); StatusCancelled is an
// OpenAI state that clients of cancellation expect.
const (
	StatusQueued     Status = "queued"
	StatusInProgress Status = "in_progress"
	StatusCompleted  Status = "completed"
	StatusFailed     Status = "failed"
	StatusIncomplete Status = "incomplete"
	StatusCancelled  Status = "cancelled"
)

// Terminal reports whether s is final.
func (s Status) Terminal() bool {
	switch s {
	case StatusCompleted, StatusFailed, StatusIncomplete, StatusCancelled:
		return true
	}
	return false
}

// Reasons of an incomplete response.
const (
	ReasonMaxOutputTokens = "max_output_tokens"
	ReasonContentFilter   = "content_filter"
	ReasonMaxRounds       = "max_rounds"
	ReasonMaxToolCalls    = "max_tool_calls"
	ReasonMaxOutputBytes  = "max_output_bytes" // of the turn's output directory
	ReasonTimeout         = "timeout"
	ReasonEmptyAnswer     = "empty_answer"    // the model neither said nor called anything, asked twice
	ReasonBudget          = "budget_exceeded" // of tokens, requests or money
	ReasonShutdown        = "shutdown"
	ReasonCancelled       = "cancelled"
)

// Response is the ResponseResource. Its 31 keys of the protocol are always written;
// pointers are the keys that may be null.
type Response struct {
	ID                 string             `json:"id"`
	Object             string             `json:"object"`
	CreatedAt          int64              `json:"created_at"`   // seconds since the epoch
	CompletedAt        *int64             `json:"completed_at"` // set only when completed
	Status             Status             `json:"status"`
	IncompleteDetails  *IncompleteDetails `json:"incomplete_details"`
	Model              string             `json:"model"`
	PreviousResponseID *string            `json:"previous_response_id"`
	Instructions       *string            `json:"instructions"`
	Output             Items              `json:"output"`
	Error              *ResponseError     `json:"error"`
	Tools              []Tool             `json:"tools"`
	ToolChoice         ToolChoice         `json:"tool_choice"`
	Truncation         string             `json:"truncation"`
	ParallelToolCalls  bool               `json:"parallel_tool_calls"`
	Text               TextConfig         `json:"text"`
	TopP               float64            `json:"top_p"`
	PresencePenalty    float64            `json:"presence_penalty"`
	FrequencyPenalty   float64            `json:"frequency_penalty"`
	TopLogprobs        int                `json:"top_logprobs"`
	Temperature        float64            `json:"temperature"`
	Reasoning          *ReasoningConfig   `json:"reasoning"`
	Usage              *Usage             `json:"usage"`
	MaxOutputTokens    *int               `json:"max_output_tokens"`
	MaxToolCalls       *int               `json:"max_tool_calls"`
	Store              bool               `json:"store"`
	Background         bool               `json:"background"`
	ServiceTier        string             `json:"service_tier"`
	Metadata           map[string]string  `json:"metadata"`
	SafetyIdentifier   *string            `json:"safety_identifier"`
	PromptCacheKey     *string            `json:"prompt_cache_key"`

	// Holon is beyond the protocol: where to find the turn that made the response.
	Holon *TurnPlace `json:"holon,omitempty"`
}

// TurnPlace names a turn and its files.
type TurnPlace struct {
	TurnID    string `json:"turn_id"`
	SessionID string `json:"session_id"`
	OutputDir string `json:"output_dir"`
}

// IncompleteDetails says why a response ended early.
type IncompleteDetails struct {
	Reason string `json:"reason"`
}

// ResponseError is the error within a failed response. Type is beyond the
// protocol; one SDK refuses the whole body without it.
type ResponseError struct {
	Code    string    `json:"code"`
	Message string    `json:"message"`
	Type    ErrorType `json:"type"`
}

// Usage counts tokens over all model rounds of the response.
type Usage struct {
	InputTokens        int64              `json:"input_tokens"`
	OutputTokens       int64              `json:"output_tokens"`
	TotalTokens        int64              `json:"total_tokens"`
	InputTokenDetails  InputTokenDetails  `json:"input_tokens_details"`
	OutputTokenDetails OutputTokenDetails `json:"output_tokens_details"`

	// Estimated says that a provider did not count all of it. The protocol has no key for that; records of turns do.
	Estimated bool `json:"-"`
}

// InputTokenDetails breaks down the input tokens.
type InputTokenDetails struct {
	CachedTokens int64 `json:"cached_tokens"`
}

// OutputTokenDetails breaks down the output tokens.
type OutputTokenDetails struct {
	ReasoningTokens int64 `json:"reasoning_tokens"`
}

// Add returns the sum of u and v.
func (u Usage) Add(v Usage) Usage {
	u.InputTokens += v.InputTokens
	u.OutputTokens += v.OutputTokens
	u.TotalTokens += v.TotalTokens
	u.InputTokenDetails.CachedTokens += v.InputTokenDetails.CachedTokens
	u.OutputTokenDetails.ReasoningTokens += v.OutputTokenDetails.ReasoningTokens
	u.Estimated = u.Estimated || v.Estimated
	return u
}

// Compacted is the answer of POST /responses/compact (CompactResource). Its
// output is the beginning of a new conversation.
type Compacted struct {
	ID        string `json:"id"`
	Object    string `json:"object"`     // response.compaction
	CreatedAt int64  `json:"created_at"` // seconds since the epoch
	Output    Items  `json:"output"`
	Usage     Usage  `json:"usage"`
}

// NewResponse returns the response that echoes r: in progress, without output.
// created is in seconds since the epoch.
func NewResponse(id, model string, created int64, r *Request) Response {
	return Response{
		ID:                 id,
		Object:             "response",
		CreatedAt:          created,
		Status:             StatusInProgress,
		Model:              model,
		PreviousResponseID: nullable(r.PreviousResponseID),
		Instructions:       r.Instructions,
		Output:             Items{},
		Tools:              nonNil(r.Tools),
		ToolChoice:         r.ToolChoice,
		Truncation:         r.Truncation,
		ParallelToolCalls:  r.ParallelToolCalls,
		Text:               r.Text,
		TopP:               r.TopP,
		PresencePenalty:    r.PresencePenalty,
		FrequencyPenalty:   r.FrequencyPenalty,
		TopLogprobs:        r.TopLogprobs,
		Temperature:        r.Temperature,
		Reasoning:          r.Reasoning,
		MaxOutputTokens:    r.MaxOutputTokens,
		MaxToolCalls:       r.MaxToolCalls,
		Store:              r.Store,
		Background:         r.Background,
		ServiceTier:        r.ServiceTier,
		Metadata:           r.Metadata,
		SafetyIdentifier:   r.SafetyIdentifier,
		PromptCacheKey:     r.PromptCacheKey,
	}
}

// MarshalJSON writes all 31 keys, with lists and maps that are never null.
func (r Response) MarshalJSON() ([]byte, error) { return r.AppendJSON(nil) }

// AppendJSON appends what MarshalJSON returns.
func (r Response) AppendJSON(dst []byte) ([]byte, error) { return appendJSON(dst, r) }

// MarshalJSONTo is MarshalJSON for an encoder.
func (r Response) MarshalJSONTo(enc *jsontext.Encoder) error {
	type plain Response // without these methods
	return json.MarshalEncode(enc, plain(r))
}

// OutputText returns the text of the assistant messages of r that are its
// answer: those of phase final_answer, or all when no message has a phase. Where
// they have no text it is what they refuse with: that is an answer too. A blank line
// stands between two messages: the second may answer what came in while the turn ran.
func (r *Response) OutputText() string {
	var answer, all, refused bytes.Buffer
	write := func(to *bytes.Buffer, text string) {
		if to.Len() > 0 && text != "" {
			to.WriteString("\n\n")
		}
		to.WriteString(text)
	}
	for _, item := range r.Output {
		m, ok := item.(*Message)
		if !ok || m.Role != RoleAssistant {
			continue
		}
		if m.Phase == PhaseFinalAnswer {
			write(&answer, m.Text())
		}
		if m.Phase == PhaseCommentary {
			continue
		}
		write(&all, m.Text())
		for _, p := range m.Content {
			refused.WriteString(p.Refusal)
		}
	}
	return cmp.Or(answer.String(), all.String(), refused.String())
}

// DecodeResponse reads a ResponseResource. Errors are *Error values.
func DecodeResponse(data []byte) (*Response, error) {
	if err := CheckDepth(data); err != nil {
		return nil, err
	}
	var r Response
	if err := Unmarshal(data, &r); err != nil {
		return nil, err
	}
	if r.ID == "" || r.Object != "response" {
		return nil, Invalid("object", CodeInvalidValue, "the JSON is not a response object")
	}
	return &r, nil
}
