package responses

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// wireRequest has the request's keys as they stand on the wire. Pointers tell
// absent or null, which mean the same here, from zero values.
type wireRequest struct {
	Model              string                     `json:"model,omitempty"`
	Input              json.RawMessage            `json:"input,omitempty"`
	PreviousResponseID *string                    `json:"previous_response_id,omitempty"`
	Instructions       *string                    `json:"instructions,omitempty"`
	Include            []string                   `json:"include,omitempty"`
	Tools              []json.RawMessage          `json:"tools,omitempty"`
	ToolChoice         *ToolChoice                `json:"tool_choice,omitempty"`
	ParallelToolCalls  *bool                      `json:"parallel_tool_calls,omitempty"`
	MaxToolCalls       *int                       `json:"max_tool_calls,omitempty"`
	MaxOutputTokens    *int                       `json:"max_output_tokens,omitempty"`
	Temperature        *float64                   `json:"temperature,omitempty"`
	TopP               *float64                   `json:"top_p,omitempty"`
	PresencePenalty    *float64                   `json:"presence_penalty,omitempty"`
	FrequencyPenalty   *float64                   `json:"frequency_penalty,omitempty"`
	TopLogprobs        *int                       `json:"top_logprobs,omitempty"`
	Reasoning          *ReasoningConfig           `json:"reasoning,omitempty"`
	Text               *wireText                  `json:"text,omitempty"`
	Truncation         string                     `json:"truncation,omitempty"`
	Stream             bool                       `json:"stream,omitempty"`
	Background         bool                       `json:"background,omitempty"`
	Store              *bool                      `json:"store,omitempty"`
	Metadata           map[string]json.RawMessage `json:"metadata,omitempty"`
	ServiceTier        string                     `json:"service_tier,omitempty"`
	PromptCacheKey     *string                    `json:"prompt_cache_key,omitempty"`
	SafetyIdentifier   *string                    `json:"safety_identifier,omitempty"`
	Holon              *Holon                     `json:"holon,omitempty"`
}

// DecodeRequest reads and checks a body of POST /responses. It is tolerant
// where clients are sloppy (unknown fields, tools and includes, typeless
// messages) and strict where meaning would be lost. Every error is an *Error
// that names the field.
func DecodeRequest(body []byte) (*Request, error) {
	if err := CheckDepth(body); err != nil {
		return nil, err
	}
	if !utf8.Valid(body) {
		return nil, Invalid("", CodeInvalidJSON, "the body is not valid UTF-8")
	}
	if len(bytes.TrimSpace(body)) == 0 {
		return nil, Invalid("", CodeInvalidJSON, "the body is empty; send a JSON object")
	}
	var w wireRequest
	err := unmarshal(body, &w)
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && e.Field == "" {
		_, got := jsonNames("", "", e.Value)
		return nil, Invalid("", CodeInvalidJSON, "the body must be a JSON object, not "+got)
	}
	if err != nil {
		return nil, decodeError("", err)
	}
	if isNull(body) {
		return nil, Invalid("", CodeInvalidJSON, "the body must be a JSON object, not null")
	}
	sum, err := digest(body)
	if err != nil {
		return nil, err
	}
	if id := w.PreviousResponseID; id != nil && *id == "" {
		e := Invalid("previous_response_id", CodeInvalidValue, "previous_response_id is empty")
		e.Hint = "leave it out to begin a conversation"
		return nil, e
	}
	r := w.request()
	r.Digest = sum
	if r.Input, err = decodeInput(w.Input); err != nil {
		return nil, err
	}
	r.ShowToolCalls = slices.Contains(r.Include, IncludeToolCalls)
	if err := r.decodeTools(w.Tools); err != nil {
		return nil, err
	}
	if r.MCP, err = decodeMCPTools(w.Tools); err != nil {
		return nil, err
	}
	if r.Metadata, err = decodeMetadata(w.Metadata); err != nil {
		return nil, err
	}
	if err := r.check(); err != nil {
		return nil, err
	}
	return r, nil
}

// request copies the wire form and fills in the documented defaults.
func (w *wireRequest) request() *Request {
	r := &Request{
		Model:              w.Model,
		PreviousResponseID: orDefault(w.PreviousResponseID, ""),
		Instructions:       w.Instructions,
		Include:            w.Include,
		ParallelToolCalls:  orDefault(w.ParallelToolCalls, true),
		MaxToolCalls:       w.MaxToolCalls,
		MaxOutputTokens:    w.MaxOutputTokens,
		Temperature:        orDefault(w.Temperature, 1),
		TopP:               orDefault(w.TopP, 1),
		PresencePenalty:    orDefault(w.PresencePenalty, 0),
		FrequencyPenalty:   orDefault(w.FrequencyPenalty, 0),
		Sampling: Sampling{w.Temperature != nil, w.TopP != nil, w.PresencePenalty != nil,
			w.FrequencyPenalty != nil},
		TopLogprobs:      orDefault(w.TopLogprobs, 0),
		Reasoning:        w.Reasoning,
		Text:             w.Text.config(),
		ToolChoice:       orDefault(w.ToolChoice, ToolChoice{}),
		Truncation:       w.Truncation,
		Stream:           w.Stream,
		Background:       w.Background,
		Store:            orDefault(w.Store, true),
		ServiceTier:      w.ServiceTier,
		PromptCacheKey:   w.PromptCacheKey,
		SafetyIdentifier: w.SafetyIdentifier,
		Holon:            orDefault(w.Holon, Holon{}),
	}
	if r.Truncation == "" {
		r.Truncation = defaultTruncation
	}
	if r.ServiceTier == "" {
		r.ServiceTier = defaultServiceTier
	}
	return r
}

func orDefault[T any](p *T, def T) T {
	if p == nil {
		return def
	}
	return *p
}

// decodeInput reads input: a string is one user message. The serve-mode notes
// also show bare content parts; a run of those is one user message too.
func decodeInput(raw json.RawMessage) (Items, error) {
	if isNull(raw) {
		return nil, nil
	}
	var text string
	if raw[0] == '"' && unmarshal(raw, &text) == nil {
		if err := checkChars("input", text, maxInputChars); err != nil {
			return nil, err
		}
		return Items{&Message{Status: ItemCompleted, Role: RoleUser, Content: []Part{InputText(text)}}}, nil
	}
	var raws []json.RawMessage
	if unmarshal(raw, &raws) != nil {
		return nil, Invalid("input", CodeInvalidValue, "input must be a string or an array of items")
	}
	var items Items
	var bare *Message
	var called calls
	for i, elem := range raws {
		part, ok, err := barePart(elem)
		if err == nil && ok {
			err = checkPart(part)
		}
		if err != nil {
			return nil, within(fmt.Sprintf("input[%d]", i), err)
		}
		if ok {
			if bare == nil {
				bare = &Message{Status: ItemCompleted, Role: RoleUser}
				items = append(items, bare)
			}
			bare.Content = append(bare.Content, part)
			continue
		}
		bare = nil
		item, err := DecodeItem(elem)
		if err == nil {
			err = firstError(checkItem(item), called.note(item))
		}
		if err != nil {
			return nil, within(fmt.Sprintf("input[%d]", i), err)
		}
		items = append(items, item)
	}
	return items, nil
}

// barePart reads elem as an input content part that stands where an item is
// expected; ok is false when it is something else.
func barePart(elem json.RawMessage) (part Part, ok bool, err error) {
	var head struct {
		Type string `json:"type"`
	}
	if unmarshal(elem, &head) != nil {
		return Part{}, false, nil
	}
	switch head.Type {
	case PartInputText, PartInputImage, PartInputFile:
		err := part.UnmarshalJSON(elem)
		return part, err == nil, err
	}
	return Part{}, false, nil
}

// decodeTools keeps the function tools and ignores the rest, because clients
// declare hosted tools of other servers as well. show is true when one of them is
// ours, which asks to see the container's calls.
func (r *Request) decodeTools(raws []json.RawMessage) error {
	if len(raws) > maxTools {
		return Invalid("tools", CodeInvalidValue,
			fmt.Sprintf("tools may list at most %d tools, this lists %d", maxTools, len(raws)))
	}
	seen := make(map[string]bool)
	for i, raw := range raws {
		path := fmt.Sprintf("tools[%d]", i)
		var head struct {
			Type string `json:"type"`
			Name string `json:"name"`
		}
		if err := unmarshal(raw, &head); err != nil {
			return decodeError(path, err)
		}
		switch {
		case head.Type == "function", head.Type == "" && head.Name != "":
		case head.Type == "":
			return Invalid(path+".type", CodeMissingParameter,
				"a tool needs a type; a client declares tools of type function")
		default:
			if err := r.foreignTool(path, head.Type); err != nil {
				return err
			}
			continue
		}
		var t Tool
		if err := unmarshal(raw, &t); err != nil {
			return decodeError(path, err)
		}
		if t.Name == "" {
			return Invalid(path+".name", CodeMissingParameter, "a function needs a name")
		}
		if err := checkToolName(path+".name", t.Name); err != nil {
			return err
		}
		if seen[t.Name] {
			return Invalid(path+".name", CodeInvalidValue,
				fmt.Sprintf("the function %q is declared twice", t.Name))
		}
		if err := checkParameters(path+".parameters", t.Parameters); err != nil {
			return err
		}
		seen[t.Name] = true
		r.Tools = append(r.Tools, t)
	}
	return nil
}

// foreignTool takes in a tool that is not a function: the wish to see the container's
// calls, or a tool that a provider hosts, which is not there.
func (r *Request) foreignTool(path, kind string) error {
	switch {
	case kind == ItemToolCall:
		r.ShowToolCalls = true
	case strings.HasPrefix(kind, extension):
		e := Invalid(path+".type", CodeInvalidValue, fmt.Sprintf("the tool type %q is unknown", clip(kind, 64)))
		e.Hint = "of ours there is only " + ItemToolCall
		return e
	case kind != "mcp" && !slices.Contains(r.IgnoredTools, clip(kind, 64)):
		r.IgnoredTools = append(r.IgnoredTools, clip(kind, 64))
	}
	return nil
}

// checkParameters checks the schema of a function's arguments, which are an object.
func checkParameters(param string, schema json.RawMessage) error {
	if schema == nil {
		return nil
	}
	if err := CheckSchema(param, schema); err != nil {
		return err
	}
	var root struct {
		Type any `json:"type"`
	}
	if err := unmarshal(schema, &root); err != nil {
		return decodeError(param, err)
	}
	kinds, ok := root.Type.([]any)
	if !ok {
		kinds = []any{root.Type}
	}
	if root.Type != nil && !slices.Contains(kinds, any("object")) {
		return Invalid(param+".type", CodeInvalidValue, param+".type must be object: a function's arguments are one")
	}
	return nil
}

func checkToolName(param, name string) error {
	if len(name) < 1 || len(name) > maxToolName {
		return Invalid(param, CodeInvalidValue,
			fmt.Sprintf("%s must have 1 to %d characters, this has %d", param, maxToolName,
				utf8.RuneCountInString(name)))
	}
	if i := strings.IndexFunc(name, func(r rune) bool { return r > 127 || !isIDByte(byte(r)) }); i >= 0 {
		return Invalid(param, CodeInvalidValue,
			fmt.Sprintf("%s may hold only letters, digits, '_' and '-', not %q", param, clip(name, maxToolName)))
	}
	return nil
}

// decodeMetadata reads the pairs one by one, so that an error names the key.
func decodeMetadata(raws map[string]json.RawMessage) (map[string]string, error) {
	if n := len(raws); n > maxMetadataPairs {
		return nil, Invalid("metadata", CodeInvalidValue,
			fmt.Sprintf("metadata may have at most %d pairs, this has %d", maxMetadataPairs, n))
	}
	pairs := make(map[string]string, len(raws))
	for _, k := range slices.Sorted(maps.Keys(raws)) {
		var v string
		if err := unmarshal(raws[k], &v); err != nil {
			return nil, decodeError("metadata."+clip(k, maxMetadataKey), err)
		}
		if n := utf8.RuneCountInString(k); n > maxMetadataKey {
			return nil, Invalid("metadata", CodeInvalidValue,
				fmt.Sprintf("a key of metadata may have at most %d characters, %q has %d", maxMetadataKey,
					clip(k, maxMetadataKey), n))
		}
		if err := checkChars("metadata."+k, v, maxMetadataValue); err != nil {
			return nil, err
		}
		pairs[k] = v
	}
	return pairs, nil
}

// PreviousNotFound is the error for a previous_response_id of which no response is
// stored: 404 with the code that the protocol prescribes.
func PreviousNotFound(id string) *Error {
	return NotFound("previous_response_id", CodePreviousNotFound,
		fmt.Sprintf("no stored response has the id %q", clip(id, maxID)))
}

func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}
