package responses

import (
	"bytes"
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"holon/internal/visible"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// plainRequest is a Request without its methods.
type plainRequest Request

// wireRequest has the keys of a request that are not a field of Request as they stand. Pointers tell absent or null,
// which mean the same here, from zero values.
type wireRequest struct {
	plainRequest
	PreviousResponseID *string          `json:"previous_response_id,omitzero"`
	Tools              []jsontext.Value `json:"tools,omitempty"`
	ParallelToolCalls  *bool            `json:"parallel_tool_calls,omitzero"`
	Temperature        *float64         `json:"temperature,omitzero"`
	TopP               *float64         `json:"top_p,omitzero"`
	PresencePenalty    *float64         `json:"presence_penalty,omitzero"`
	FrequencyPenalty   *float64         `json:"frequency_penalty,omitzero"`
	Text               *wireText        `json:"text,omitzero"`
	Store              *bool            `json:"store,omitzero"`
}

// DecodeRequest reads and checks a body of POST /responses. It is tolerant
// where clients are sloppy (unknown fields, tools and includes, typeless
// messages) and strict where meaning would be lost. Every error is an *Error
// that names the field.
func DecodeRequest(body []byte) (*Request, error) {
	if len(bytes.TrimSpace(body)) == 0 {
		return nil, Invalid("", CodeInvalidJSON, "the body is empty; send a JSON object")
	}
	if err := CheckBody(body); err != nil {
		return nil, err
	}
	if kind := jsontext.Value(body).Kind(); kind != '{' {
		return nil, Invalid("", CodeInvalidJSON, "the body must be a JSON object, not "+kindName(kind))
	}
	sum, err := digest(body)
	if err != nil {
		return nil, err
	}
	var w wireRequest
	if err := Unmarshal(body, &w, decodeInput); err != nil {
		return nil, err
	}
	if id := w.PreviousResponseID; id != nil && *id == "" {
		e := Invalid("previous_response_id", CodeInvalidValue, "previous_response_id is empty")
		e.Hint = "leave it out to begin a conversation"
		return nil, e
	}
	r := w.request()
	r.Digest = sum
	r.ShowToolCalls = slices.Contains(r.Include, includeToolCalls)
	if err := r.decodeTools(w.Tools); err != nil {
		return nil, err
	}
	if err := r.check(); err != nil {
		return nil, err
	}
	return r, nil
}

// request fills in the documented defaults.
func (w *wireRequest) request() *Request {
	r := Request(w.plainRequest)
	r.PreviousResponseID = orDefault(w.PreviousResponseID, "")
	r.ParallelToolCalls = orDefault(w.ParallelToolCalls, true)
	r.Temperature = orDefault(w.Temperature, 1)
	r.TopP = orDefault(w.TopP, 1)
	r.PresencePenalty = orDefault(w.PresencePenalty, 0)
	r.FrequencyPenalty = orDefault(w.FrequencyPenalty, 0)
	r.Sampling = Sampling{w.Temperature != nil, w.TopP != nil, w.PresencePenalty != nil, w.FrequencyPenalty != nil}
	r.Text = w.Text.config()
	r.Store = orDefault(w.Store, true)
	r.Truncation = cmp.Or(r.Truncation, defaultTruncation)
	r.ServiceTier = cmp.Or(r.ServiceTier, defaultServiceTier)
	if r.Metadata == nil {
		r.Metadata = map[string]string{}
	}
	return &r
}

// MarshalJSON writes a body from which DecodeRequest reads r again, but for
// Digest and for the places that MCPTool.Param names. Keys whose value is the
// default are absent.
func (r Request) MarshalJSON() ([]byte, error) {
	w := wireRequest{plainRequest: plainRequest(r)}
	if r.Truncation == defaultTruncation {
		w.Truncation = ""
	}
	if r.ServiceTier == defaultServiceTier {
		w.ServiceTier = ""
	}
	w.PreviousResponseID = nullable(r.PreviousResponseID)
	w.ParallelToolCalls = given(r.ParallelToolCalls, !r.ParallelToolCalls)
	w.Store = given(r.Store, !r.Store)
	w.Temperature = given(r.Temperature, r.Sampling.Temperature)
	w.TopP = given(r.TopP, r.Sampling.TopP)
	w.PresencePenalty = given(r.PresencePenalty, r.Sampling.PresencePenalty)
	w.FrequencyPenalty = given(r.FrequencyPenalty, r.Sampling.FrequencyPenalty)
	format := given(r.Text.Format, !reflect.ValueOf(r.Text.Format).IsZero())
	w.Text = given(wireText{format, r.Text.Verbosity}, format != nil || r.Text.Verbosity != "")
	var err error
	if w.Tools, err = r.encodeTools(); err != nil {
		return nil, fmt.Errorf("encode tools: %w", err)
	}
	return encode(w)
}

// given returns a pointer to v, or nil.
func given[T any](v T, is bool) *T {
	if !is {
		return nil
	}
	return &v
}

// encodeTools writes the function tools, those of type mcp, and the one by which
// ShowToolCalls is asked for where include does not.
func (r *Request) encodeTools() (raws []jsontext.Value, err error) {
	var list []any
	for _, t := range r.Tools {
		list = append(list, t)
	}
	for _, t := range r.MCP {
		list = append(list, t)
	}
	for _, kind := range r.IgnoredTools {
		list = append(list, map[string]string{"type": kind})
	}
	if r.ShowToolCalls && !slices.Contains(r.Include, includeToolCalls) {
		list = append(list, map[string]string{"type": ItemToolCall})
	}
	for _, t := range list {
		raw, err := encode(t)
		if err != nil {
			return nil, err
		}
		raws = append(raws, raw)
	}
	return raws, nil
}

func orDefault[T any](p *T, def T) T {
	if p == nil {
		return def
	}
	return *p
}

// decodeInput makes the decoder read the input of a request: a string is one user message. The serve-mode notes
// also show bare content parts; a run of those is one user message too.
var decodeInput = json.WithUnmarshalers(json.UnmarshalFunc(func(data []byte, input *Items) (err error) {
	switch jsontext.Value(data).Kind() {
	case 'n':
	case '"':
		m := UserMessage("")
		*input, err = Items{m}, Unmarshal(data, &m.Content[0].Text)
		if err == nil {
			err = checkChars("", m.Content[0].Text, maxInputChars)
		}
	case '[':
		*input, err = inputItems(data)
	default:
		err = Invalid("", CodeInvalidValue, "the value must be a string or an array of items")
	}
	return err
}))

func inputItems(data []byte) (items Items, err error) {
	var raws []jsontext.Value
	if err := Unmarshal(data, &raws); err != nil {
		return nil, err
	}
	var bare *Message
	var called calls
	for i, elem := range raws {
		part, ok, err := barePart(elem)
		if err == nil && ok {
			err = checkPart(part)
		}
		if err != nil {
			return nil, within(fmt.Sprintf("[%d]", i), err)
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
			return nil, within(fmt.Sprintf("[%d]", i), err)
		}
		items = append(items, item)
	}
	return items, nil
}

// barePart reads elem as an input content part that stands where an item is
// expected; ok is false when it is something else.
func barePart(elem jsontext.Value) (part Part, ok bool, err error) {
	var head struct {
		Type string `json:"type"`
	}
	if Unmarshal(elem, &head) != nil {
		return Part{}, false, nil
	}
	switch head.Type {
	case PartInputText, PartInputImage, PartInputFile:
		err := Unmarshal(elem, &part)
		return part, err == nil, err
	}
	return Part{}, false, nil
}

// decodeTools keeps the tools of types function and mcp and ignores the rest, because clients
// declare hosted tools of other servers as well.
func (r *Request) decodeTools(raws []jsontext.Value) error {
	if err := checkCount("tools", "tools", len(raws), maxTools); err != nil {
		return err
	}
	seen := make(map[string]bool)
	for i, raw := range raws {
		path := fmt.Sprintf("tools[%d]", i)
		var head struct {
			Type string `json:"type"`
			Name string `json:"name"`
		}
		err := Unmarshal(raw, &head)
		switch {
		case err != nil:
			err = within(path, err)
		case head.Type == "function", head.Type == "" && head.Name != "":
			err = r.addFunction(path, raw, seen)
		case head.Type == "mcp":
			err = r.addMCPTool(path, raw)
		case head.Type == "":
			err = Invalid(path+".type", CodeMissingParameter,
				"a tool needs a type; a client declares tools of type function")
		default:
			err = r.foreignTool(path, head.Type)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// addFunction takes in a function. seen has the names of those before it.
func (r *Request) addFunction(path string, raw []byte, seen map[string]bool) error {
	var t Tool
	if err := Unmarshal(raw, &t); err != nil {
		return within(path, err)
	}
	if t.Name == "" {
		return Invalid(path+".name", CodeMissingParameter, "a function needs a name")
	}
	if err := checkToolName(path+".name", t.Name); err != nil {
		return err
	}
	if seen[t.Name] {
		return Invalid(path+".name", CodeInvalidValue, fmt.Sprintf("the function %q is declared twice", t.Name))
	}
	if isNull(t.Parameters) {
		t.Parameters = nil
	}
	seen[t.Name] = true
	r.Tools = append(r.Tools, t)
	return checkParameters(path+".parameters", t.Parameters)
}

// foreignTool takes in a tool that is not a function: the wish to see the container's
// calls, or a tool that a provider hosts, which is not there.
func (r *Request) foreignTool(path, kind string) error {
	switch {
	case kind == ItemToolCall:
		r.ShowToolCalls = true
	case strings.HasPrefix(kind, extension):
		e := Invalid(path+".type", CodeInvalidValue, fmt.Sprintf("the tool type %q is unknown", visible.Clip(kind, 64)))
		e.Hint = "of ours there is only " + ItemToolCall
		return e
	case !slices.Contains(r.IgnoredTools, visible.Clip(kind, 64)):
		r.IgnoredTools = append(r.IgnoredTools, visible.Clip(kind, 64))
	}
	return nil
}

// checkParameters checks the schema of a function's arguments, which are an object.
func checkParameters(param string, schema []byte) error {
	if schema == nil {
		return nil
	}
	if err := CheckSchema(param, schema); err != nil {
		return err
	}
	var root struct {
		Type any `json:"type"`
	}
	if err := Unmarshal(schema, &root); err != nil {
		return within(param, err)
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
			fmt.Sprintf("%s may hold only letters, digits, '_' and '-', not %q", param,
				visible.Clip(name, maxToolName)))
	}
	return nil
}

// PreviousNotFound is the error for a previous_response_id of which no response is
// stored: 404 with the code that the protocol prescribes.
func PreviousNotFound(id string) *Error {
	return NotFound("previous_response_id", CodePreviousNotFound,
		fmt.Sprintf("no stored response has the id %q", visible.Clip(id, maxID)))
}
