package responses

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Request is a body of POST /responses (CreateResponseBody). DecodeRequest gives
// the fields that a client left out their documented defaults and ignores unknown
// fields, as clients send many. A client begins with NewRequest, since the defaults
// are not the zero values; MarshalJSON leaves out what equals its default.
type Request struct {
	Model              string
	Input              Items
	PreviousResponseID string
	Instructions       *string
	Include            []string
	Tools              []Tool // function tools only; others but MCP are ignored
	MCP                []MCPTool
	IgnoredTools       []string // types of tools that providers host, which this server does not offer
	ShowToolCalls      bool     // asked by include or by a tool: show the container's calls as *ToolCall items
	ToolChoice         ToolChoice
	ParallelToolCalls  bool
	MaxToolCalls       *int
	MaxOutputTokens    *int
	Temperature        float64
	TopP               float64
	PresencePenalty    float64
	FrequencyPenalty   float64
	Sampling           Sampling // which of the four above the client really set
	TopLogprobs        int
	Reasoning          *ReasoningConfig
	Text               TextConfig
	Truncation         string
	Stream             bool
	Background         bool
	Store              bool
	Metadata           map[string]string
	ServiceTier        string
	PromptCacheKey     *string
	SafetyIdentifier   *string
	Holon              Holon

	// Digest identifies the request's meaning: the SHA-256, in hex, of the body
	// with sorted keys and without the keys that only choose a transport
	// (stream, stream_options). Equal digests mean the same request.
	Digest string
}

// HeaderModelToken is the header of a request that runs a turn; it carries the
// token with which this turn may ask models through the host's gateway and call the
// host's tools. It is used while the turn runs and kept nowhere.
const HeaderModelToken = "Holon-Model-Token"

// Defaults of the fields that are strings.
const (
	defaultTruncation  = "disabled"
	defaultServiceTier = "default"
)

// NewRequest returns a request for model with every other field at its default.
func NewRequest(model string, input ...Item) *Request {
	r := (&wireRequest{Model: model}).request()
	r.Input, r.Metadata = input, map[string]string{}
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
	IncludeToolCalls = "holon:tool_calls"
)

// Includes reports whether the request asked for extra output.
func (r *Request) Includes(value string) bool { return slices.Contains(r.Include, value) }

// Sampling tells set values from defaults, because some models refuse a
// sampling parameter even at its default.
type Sampling struct{ Temperature, TopP, PresencePenalty, FrequencyPenalty bool }

// Holon is the extension object "holon" of a request. Every field is optional.
type Holon struct {
	SessionID    string  `json:"session_id,omitempty"`
	TurnID       string  `json:"turn_id,omitempty"`
	InputDir     string  `json:"input_dir,omitempty"`
	OutputDir    string  `json:"output_dir,omitempty"`
	WorkspaceDir string  `json:"workspace_dir,omitempty"`
	Isolation    string  `json:"isolation,omitempty"`
	OnDisconnect string  `json:"on_disconnect,omitempty"`
	Limits       *Limits `json:"limits,omitempty"`

	// Skills are the names of those that the turn may use: nil for all that are there, empty for none.
	Skills *[]string `json:"skills,omitempty"`

	// ModelFallbacks are asked one after another when the model fails before it said anything; none for those that
	// the server has for its default model.
	ModelFallbacks []string `json:"model_fallbacks,omitempty"`

	// Reminder is what the model is reminded of in a long turn; nil for nothing.
	Reminder *Reminder `json:"reminder,omitempty"`
}

// Reminder is a text that the model is sent at the end of one request, and that no conversation, response or later
// request has, after Rounds rounds without a result of the host's tools that renews it. Such a result says what the
// text is from then on.
type Reminder struct {
	Text           string `json:"text,omitempty"`  // at most MaxReminder bytes; "": nothing, until a result has one
	Rounds         int    `json:"rounds"`          // of the model, since the turn began or the text was renewed
	CooldownRounds int    `json:"cooldown_rounds"` // likewise, until the model is sent it again
}

// MaxReminder bounds the text of a Reminder, in bytes.
const MaxReminder = 16 << 10

// UnmarshalJSON reads the reminder; an unknown key is an error here, too.
func (r *Reminder) UnmarshalJSON(data []byte) error {
	type plain Reminder // without this method
	err := onlyKeys(data, "text", "rounds", "cooldown_rounds")
	if err == nil {
		err = unmarshal(data, (*plain)(r))
	}
	return decodeError("reminder", err)
}

// Values of Holon.Isolation: where the turn works.
const (
	IsolationNone     = "none"     // in the working tree itself
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
	MaxRounds int   `json:"max_rounds,omitempty"` // model rounds
	TimeoutMS int64 `json:"timeout_ms,omitempty"` // wall time of the turn, milliseconds

	// what the turn may leave in its output directory, its streams included
	MaxOutputBytes int64 `json:"max_output_bytes,omitempty"`
}

// UnmarshalJSON reads the extension object. Unlike elsewhere in a request an
// unknown key is an error: the object is ours alone, so an unknown key is either
// misspelt or asks for something that would silently not happen.
func (h *Holon) UnmarshalJSON(data []byte) error {
	type plain Holon // without this method
	err := onlyKeys(data, "session_id", "turn_id", "input_dir", "output_dir", "workspace_dir", "isolation",
		"on_disconnect", "limits", "skills", "model_fallbacks", "reminder")
	if err == nil {
		err = noneEmpty(data)
	}
	if err == nil {
		err = noNulls(data, "skills", "model_fallbacks")
	}
	if err != nil {
		return decodeError("holon", err)
	}
	return decodeError("holon", unmarshal(data, (*plain)(h)))
}

// noNulls refuses null in lists of texts, which encoding/json takes for an empty text.
func noNulls(data []byte, lists ...string) error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(data, &members); err != nil {
		return err
	}
	for _, name := range lists {
		var list []json.RawMessage
		if json.Unmarshal(members[name], &list) != nil {
			continue // it is absent, or refused as what it is
		}
		for i, v := range list {
			if string(v) == "null" {
				param := fmt.Sprintf("%s[%d]", name, i)
				return Invalid(param, CodeInvalidValue, param+" must be text, not null")
			}
		}
	}
	return nil
}

// UnmarshalJSON reads the limits. Here too an unknown key is an error: a limit that is
// misspelt would not hold.
func (l *Limits) UnmarshalJSON(data []byte) error {
	type plain Limits // without this method
	err := onlyKeys(data, "max_rounds", "timeout_ms", "max_output_bytes")
	if err == nil {
		err = unmarshal(data, (*plain)(l))
	}
	return decodeError("limits", err)
}

// noneEmpty refuses an object with a text that is empty: an id that a client lost must not become a fresh one.
func noneEmpty(data []byte) error {
	var values map[string]json.RawMessage
	if err := unmarshal(data, &values); err != nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if string(values[key]) == `""` {
			e := Invalid(key, CodeInvalidValue, key+" is empty")
			e.Hint = "leave it out for the default"
			return e
		}
	}
	return nil
}

// onlyKeys refuses an object with other keys than those known.
func onlyKeys(data []byte, known ...string) error {
	var keys map[string]json.RawMessage
	if err := unmarshal(data, &keys); err != nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if !slices.Contains(known, key) {
			param := clip(key, 64)
			return Invalid(param, CodeUnsupportedParameter, param+" is not offered by this server")
		}
	}
	return nil
}

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
	Type        string          `json:"type,omitempty"` // "", text, json_object or json_schema
	Name        string          `json:"name,omitempty"`
	Description *string         `json:"description,omitempty"`
	Schema      json.RawMessage `json:"schema,omitempty"`
	Strict      bool            `json:"strict,omitempty"`
}

// wireText is a TextConfig as a request has it. Both keys may be missing.
type wireText struct {
	Format    *TextFormat `json:"format,omitempty"`
	Verbosity string      `json:"verbosity,omitempty"`
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
	if err := unmarshal(data, &w); err != nil {
		return decodeError("text", err)
	}
	*t = w.config()
	return nil
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
	return marshal(struct {
		Format    any    `json:"format"`
		Verbosity string `json:"verbosity,omitempty"`
	}{format, t.Verbosity})
}

// within prefixes the field that err names with an outer path.
func within(path string, err error) error {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return decodeError(path, err)
	}
	out := *e
	out.Param = joinPath(path, e.Param)
	if rest, ok := strings.CutPrefix(e.Message, orBody(e.Param)); ok {
		out.Message = orBody(out.Param) + rest // an index says nothing without what it is in
	}
	return &out
}

func joinPath(outer, inner string) string {
	if outer == "" || inner == "" || strings.HasPrefix(inner, "[") {
		return outer + inner
	}
	return outer + "." + inner
}

// decodeError turns an error of encoding/json into one that names the field; nil
// stays nil.
func decodeError(path string, err error) error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return within(path, e)
	}
	if t, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		param := joinPath(path, t.Field)
		want, got := jsonNames(param, t.Type.Kind().String(), t.Value)
		return Invalid(param, CodeInvalidValue, fmt.Sprintf("%s must be %s, not %s", orBody(param), want, got))
	}
	if s, ok := errors.AsType[*json.SyntaxError](err); ok {
		return Invalid(path, CodeInvalidJSON, fmt.Sprintf("the JSON is malformed at byte %d: %s", s.Offset, s.Error()))
	}
	return Invalid(path, CodeInvalidJSON, "the JSON cannot be read: "+err.Error())
}

// jsonNames says what was expected, a Go kind, and what stands in its place: a number
// as it was written, of anything else the type.
func jsonNames(param, kind, value string) (want, got string) {
	want = jsonName(kind)
	if digits, ok := strings.CutPrefix(value, "number "); ok {
		limits, documented := ranges[param]
		switch {
		case documented:
			want = limits
		case want == "a number":
			want = "a number of at most 1.8e308"
		case !strings.ContainsAny(digits, ".eE"):
			want = "an integer of at most 9223372036854775807"
		}
		if strings.ContainsAny(digits, ".eE") {
			want = strings.Replace(want, "an integer", "an integer in digits", 1)
		}
		return want, clip(digits, 32)
	}
	switch value {
	case "array", "object":
		return want, "an " + value
	case "bool":
		return want, "a boolean"
	}
	return want, "a " + value
}

func orBody(param string) string {
	if param == "" {
		return "the value"
	}
	return param
}

// jsonName maps a Go kind to the JSON type that was expected.
func jsonName(kind string) string {
	switch kind {
	case "string":
		return "a string"
	case "bool":
		return "a boolean"
	case "slice", "array":
		return "an array"
	case "struct", "map", "ptr", "interface":
		return "an object"
	case "float64", "float32":
		return "a number"
	}
	return "an integer"
}

// digest hashes the body's meaning: keys sorted by encoding/json, numbers as
// they were written, transport keys left out.
func digest(body []byte) (string, error) {
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	var m map[string]any
	if err := dec.Decode(&m); err != nil {
		return "", decodeError("", err)
	}
	delete(m, "stream")
	delete(m, "stream_options")
	b, err := marshal(m)
	if err != nil {
		return "", fmt.Errorf("hash request: %w", err)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:]), nil
}
