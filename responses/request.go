package responses

import (
	"crypto/sha256"
	"encoding/hex"
	stdjson "encoding/json"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Request is a body of POST /responses (CreateResponseBody). DecodeRequest gives
// the fields that a client left out their documented defaults and ignores unknown
// fields, as clients send many. A client begins with NewRequest, since the defaults
// are not the zero values; MarshalJSON leaves out what equals its default.
type Request struct {
	Model              string            `json:"model,omitzero"`
	Input              Items             `json:"input,omitzero"`
	PreviousResponseID string            `json:"-"`
	Instructions       *string           `json:"instructions,omitzero"`
	Include            []string          `json:"include,omitzero"`
	Tools              []Tool            `json:"-"` // function tools only; others but MCP are ignored
	MCP                []MCPTool         `json:"-"`
	IgnoredTools       []string          `json:"-"` // types of tools that providers host, which are not offered
	ShowToolCalls      bool              `json:"-"` // asked by include or by a tool: show calls as *ToolCall items
	ToolChoice         ToolChoice        `json:"tool_choice,omitzero"`
	NoModel            bool              `json:"-"` // generate is false, on a WebSocket alone: no model is asked
	ParallelToolCalls  bool              `json:"-"`
	MaxToolCalls       *int              `json:"max_tool_calls,omitzero"`
	MaxOutputTokens    *int              `json:"max_output_tokens,omitzero"`
	Temperature        float64           `json:"-"`
	TopP               float64           `json:"-"`
	PresencePenalty    float64           `json:"-"`
	FrequencyPenalty   float64           `json:"-"`
	Sampling           Sampling          `json:"-"` // which of the four above the client really set
	TopLogprobs        int               `json:"top_logprobs,omitzero"`
	Reasoning          *ReasoningConfig  `json:"reasoning,omitzero"`
	Text               TextConfig        `json:"-"`
	Truncation         string            `json:"truncation,omitzero"`
	Stream             bool              `json:"stream,omitzero"`
	Background         bool              `json:"background,omitzero"`
	Store              bool              `json:"-"`
	Metadata           map[string]string `json:"metadata,omitempty"`
	ServiceTier        string            `json:"service_tier,omitzero"`
	PromptCacheKey     *string           `json:"prompt_cache_key,omitzero"`
	SafetyIdentifier   *string           `json:"safety_identifier,omitzero"`
	Holon              Holon             `json:"holon,omitzero"`

	// Digest identifies the request's meaning: the SHA-256, in hex, of the body
	// with sorted keys and without the keys that only choose a transport
	// (stream, stream_options). Equal digests mean the same request.
	Digest string `json:"-"`
}

// HeaderModelToken is the header of a request that runs a turn; it carries the
// token with which this turn may ask models through the host's gateway and call the
// host's tools. It is used while the turn runs and kept nowhere.
const HeaderModelToken = "Holon-Model-Token"

// The headers of a 102 Processing, by which the sender of a request with a HeaderModelToken that waits for an answer in
// one piece sees that the turn is on the disk.
const (
	HeaderTurnID     = "Holon-Turn-Id"
	HeaderResponseID = "Holon-Response-Id"
)

// Defaults of the fields that are strings.
const (
	defaultTruncation  = "disabled"
	defaultServiceTier = "default"
)

// NewRequest returns a request for model with every other field at its default.
func NewRequest(model string, input ...Item) *Request {
	r := (&wireRequest{plainRequest: plainRequest{Model: model}}).request()
	r.Input = input
	return r
}

// UserMessage returns a message of the user that says text.
func UserMessage(text string) *Message {
	return &Message{Status: ItemCompleted, Role: RoleUser, Content: []Part{InputText(text)}}
}

// Values of include that mean something here; others are ignored.
const (
	IncludeReasoning = "reasoning.encrypted_content"
	IncludeLogprobs  = "message.output_text.logprobs"
	includeToolCalls = "holon:tool_calls"
)

// Includes reports whether the request asked for extra output.
func (r *Request) Includes(value string) bool { return slices.Contains(r.Include, value) }

// Sampling tells set values from defaults, because some models refuse a
// sampling parameter even at its default.
type Sampling struct{ Temperature, TopP, PresencePenalty, FrequencyPenalty bool }

// Holon is the extension object "holon" of a request. Every field is optional.
type Holon struct {
	SessionID    string  `json:"session_id,omitzero"`
	TurnID       string  `json:"turn_id,omitzero"`
	ResponseID   string  `json:"response_id,omitzero"` // chosen by the host, which has announced it; needs a model token
	InputDir     string  `json:"input_dir,omitzero"`
	OutputDir    string  `json:"output_dir,omitzero"`
	WorkspaceDir string  `json:"workspace_dir,omitzero"`
	AnchorDir    string  `json:"anchor_dir,omitzero"` // in place of WorkspaceDir for AGENTS.md and workspace skills
	Isolation    string  `json:"isolation,omitzero"`
	OnDisconnect string  `json:"on_disconnect,omitzero"`
	Limits       *Limits `json:"limits,omitzero"`

	// Skills are the names of those that the turn may use: nil for all that are there, empty for none.
	Skills *[]string `json:"skills,omitzero"`

	// ModelFallbacks are asked one after another when the model fails before it said anything; none for those that
	// the server has for its default model.
	ModelFallbacks []string `json:"model_fallbacks,omitempty"`

	// Reminder is what the model is reminded of in a long turn; nil for nothing.
	Reminder *Reminder `json:"reminder,omitzero"`
}

// Reminder is a text that the model is sent at the end of one request, and that no conversation, response or later
// request has, after Rounds rounds without a result of the host's tools that renews it. Such a result says what the
// text is from then on.
type Reminder struct {
	Text           string `json:"text,omitzero"`   // at most MaxReminder bytes; "": nothing, until a result has one
	Rounds         int    `json:"rounds"`          // of the model, since the turn began or the text was renewed
	CooldownRounds int    `json:"cooldown_rounds"` // likewise, until the model is sent it again
}

// MaxReminder bounds the text of a Reminder, in bytes.
const MaxReminder = 16 << 10

// Values of Holon.Isolation: where the turn works.
const (
	isolationNone     = "none"     // in the working tree itself
	IsolationCopy     = "copy"     // in a private copy of the working tree
	IsolationWorktree = "worktree" // in a private tree with the files of HEAD
)

// Isolates reports whether the turn works in a private tree.
func (h *Holon) Isolates() bool {
	return h.Isolation == IsolationCopy || h.Isolation == IsolationWorktree
}

// Limits bound a turn. Zero means the server's own limit; a request can only
// tighten that.
type Limits struct {
	MaxRounds int   `json:"max_rounds,omitzero"` // model rounds
	TimeoutMS int64 `json:"timeout_ms,omitzero"` // wall time of the turn, milliseconds

	// what the turn may leave in its output directory, its streams included
	MaxOutputBytes int64 `json:"max_output_bytes,omitzero"`
}

// UnmarshalJSON reads the extension object. Unlike elsewhere in a request an
// unknown key is an error: the object is ours alone, so an unknown key is either
// misspelt or asks for something that would silently not happen.
func (h *Holon) UnmarshalJSON(data []byte) error {
	type plain Holon // without this method
	return Unmarshal(data, (*plain)(h), json.RejectUnknownMembers(true), realTexts)
}

// realTexts refuses a text directly in an object that is empty, since an id that a client lost must not become a fresh
// one, and null in a list of texts.
var realTexts = json.WithUnmarshalers(json.UnmarshalFromFunc(func(dec *jsontext.Decoder, text *string) error {
	raw, err := dec.ReadValue()
	if err != nil {
		return err
	}
	switch in, _ := dec.StackIndex(dec.StackDepth()); {
	case raw.Kind() == 'n' && in == '[':
		return Invalid("", CodeInvalidValue, "the value must be text, not null")
	case string(raw) == `""` && dec.StackDepth() == 1:
		e := Invalid("", CodeInvalidValue, "the value is empty")
		e.Hint = "leave it out for the default"
		return e
	}
	return json.Unmarshal(raw, text, jsontext.AllowInvalidUTF8(true))
}))

// ReasoningConfig asks for reasoning effort and summaries. Unknown effort
// names are passed on: models invent new ones faster than servers learn them.
type ReasoningConfig struct {
	Effort  *string `json:"effort"`
	Summary *string `json:"summary"`
}

// TextConfig asks for a form of the answer.
type TextConfig struct {
	Format    TextFormat
	Verbosity string
}

// TextFormat is plain text (the zero value) or JSON that fits a schema.
type TextFormat struct {
	Type        string             `json:"type,omitzero"` // "", text, json_object or json_schema
	Name        string             `json:"name,omitzero"`
	Description *string            `json:"description,omitzero"`
	Schema      stdjson.RawMessage `json:"schema,omitzero"`
	Strict      bool               `json:"strict,omitzero"`
}

// wireText is a TextConfig as a request has it. Both keys may be missing.
type wireText struct {
	Format    *TextFormat `json:"format,omitzero"`
	Verbosity string      `json:"verbosity,omitzero"`
}

func (w *wireText) config() TextConfig {
	if w == nil {
		return TextConfig{}
	}
	t := TextConfig{Format: orDefault(w.Format, TextFormat{}), Verbosity: w.Verbosity}
	if isNull(t.Format.Schema) {
		t.Format.Schema = nil
	}
	return t
}

// UnmarshalJSON reads {format, verbosity}.
func (t *TextConfig) UnmarshalJSON(data []byte) error {
	var w wireText
	err := Unmarshal(data, &w)
	*t = w.config()
	return err
}

// MarshalJSON writes the form that a response echoes. There the schema of a
// json_schema format is always null: the protocol's response schema permits
// nothing else.
func (t TextConfig) MarshalJSON() ([]byte, error) {
	var format any = struct {
		Type string `json:"type"`
	}{"text"}
	switch t.Format.Type {
	case "json_object":
		format = struct {
			Type string `json:"type"`
		}{"json_object"}
	case "json_schema":
		format = struct {
			Type        string    `json:"type"`
			Name        string    `json:"name"`
			Description *string   `json:"description"`
			Schema      *struct{} `json:"schema"`
			Strict      bool      `json:"strict"`
		}{"json_schema", t.Format.Name, t.Format.Description, nil, t.Format.Strict}
	}
	return encode(struct {
		Format    any    `json:"format"`
		Verbosity string `json:"verbosity,omitzero"`
	}{format, t.Verbosity})
}

// digest hashes the body's meaning: members sorted, strings in one spelling, numbers as
// they were written, transport keys left out.
func digest(body []byte) (string, error) {
	var members map[string]jsontext.Value
	if err := Unmarshal(body, &members); err != nil {
		return "", err
	}
	delete(members, "stream")
	delete(members, "stream_options")
	sorted, err := json.Marshal(members, json.Deterministic(true), jsontext.ReorderRawObjects(true),
		jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return "", fmt.Errorf("hash request: %w", err)
	}
	sum := sha256.Sum256(sorted)
	return hex.EncodeToString(sum[:]), nil
}
