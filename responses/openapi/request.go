package openapi

import (
	"fmt"
	"reflect"
	"strings"

	"holon/responses"
	"holon/responses/tasks"
	"holon/responses/turns"
)

// efforts are names of reasoning.effort that models know; there may be others.
var efforts = []any{"none", "minimal", "low", "medium", "high", "xhigh"}

// toolParams describes the tools of a request, and what may be said of them
// (decodeTools, ToolChoice.UnmarshalJSON, TextConfig.UnmarshalJSON).
func (s *Set) toolParams() {
	s.define("EmptyModelParam", (&Schema{Type: types{"object"}}).Says("A JSON Schema."))
	s.define("FunctionToolParam", Object(Key("name", toolName())).With(
		maybe("type", Words("", "function")), maybe("description", Text()),
		Key("parameters", Nullable(Ref("EmptyModelParam"))), maybe("strict", Boolean())).
		Says("A function of the client. A call to it ends the turn."))
	s.define("OtherToolParam", Object(Key("type",
		&Schema{Type: types{"string"}, MinLength: 1, Not: &Schema{Const: "function"}})).With(maybe("name", Text())).
		Says("A tool of another server, which is ignored; one of type mcp names an MCP server that the operator "+
			"allows requests to name, and is refused otherwise. With a type that begins with holon: it asks to see "+
			"the container's calls, as include does."))
	s.define("ResponsesToolParam", anyOf("FunctionToolParam", "OtherToolParam"))
	s.define("SpecificFunctionParam", Object(kind("function"), Key("name", toolName())))
	s.define("SpecificToolChoiceParam", anyOf("SpecificFunctionParam"))
	names := Array(Object(Key("name", Chars(1, 0))).With(Key("type",
		Anything().Says("Not read: what has a name is a function."))))
	names.MinItems, names.MaxItems = 1, responses.MaxAllowedTools
	s.define("AllowedToolsParam", Object(kind("allowed_tools"),
		Key("tools", names)).With(maybe("mode", Words("", "none", "auto", "required"))).
		Says("Calls to other tools are not run."))
	s.define("ToolChoiceParam", &Schema{AnyOf: []*Schema{Ref("SpecificToolChoiceParam"),
		Words("", "none", "auto", "required"), Ref("AllowedToolsParam")}})

	formatName := func() Property {
		name := Chars(0, responses.MaxToolName)
		name.Pattern = "^[A-Za-z0-9_-]*$"
		return maybe("name", name)
	}
	s.define("TextFormatParam", (&Schema{Type: types{"object"}}).With(maybe("type",
		Words("", "text", "json_object", "json_schema")), formatName(),
		maybe("description", Text()), Key("schema",
			Nullable(Map(Anything())).Says("A JSON Schema that the answer must fit.")), maybe("strict", Boolean())))
	s.define("TextParam", (&Schema{Type: types{"object"}}).With(Key("format", Nullable(Ref("TextFormatParam"))),
		maybe("verbosity", Words("", "low", "medium", "high"))))
	effort := Chars(0, responses.MaxShortName)
	effort.Examples = efforts
	s.define("ReasoningParam", (&Schema{Type: types{"object"}}).With(maybe("effort", effort),
		maybe("summary", Words("", "concise", "detailed", "auto"))))
	s.define("StreamOptionsParam", (&Schema{Type: types{"object"}}).With(maybe("include_obfuscation",
		Boolean())).Says("Has no effect: no event is padded."))
	metadata := Map(Nullable(Chars(0, responses.MaxMetadataValue)))
	metadata.MaxProperties, metadata.PropertyNames = responses.MaxMetadataPairs, Chars(0, responses.MaxMetadataKey)
	s.define("MetadataParam", metadata)
}

// requests describes the bodies of requests.
func (s *Set) requests() error {
	if err := s.create(); err != nil {
		return err
	}
	s.compact()
	s.message()
	for name, t := range map[string]reflect.Type{"TaskInput": reflect.TypeFor[tasks.Input](),
		"TaskStop": reflect.TypeFor[tasks.Stop]()} {
		if _, err := s.Of(t); err != nil {
			return err
		}
		body := s.components[name]
		body.AdditionalProperties = false
		for i, p := range body.Properties { // a null changes nothing
			body.Properties[i].Schema = Nullable(p.Schema)
		}
	}
	if _, err := s.Of(reflect.TypeFor[turns.NewInput]()); err != nil {
		return err
	}
	said := s.components["NewTurnInput"]
	said.AdditionalProperties = false
	*said.Properties.Get("id") = *identifier().Says("Chosen by you, one for each message.")
	*said.Properties.Get("text") = *Chars(1,
		0).Says(fmt.Sprintf("What the model is told, as a message of the user; at most %d bytes.", turns.MaxInputText))
	input := s.components["TaskInput"].Properties
	input.Get("input").Says("Written as it is; end a line with \\n.")
	input.Get("close_input").Says("End of input, after input.")
	s.components["TaskStop"].Properties.Get("force").Says("Do not ask it to end first.")
	return nil
}

// create describes the body of POST /responses: the keys and their types are
// those of the type that it is decoded into, and what is said here refines them.
// No key is required, and null is as good as none.
func (s *Set) create() error {
	holon := s.holon()
	refined := s.refinements()
	refined["holon"] = Nullable(Ref("Holon"))
	body := &Schema{Type: types{"object"}, Description: "Other keys are ignored, since clients send many."}
	shape := responses.RequestShape()
	for _, f := range reflect.VisibleFields(shape) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		schema := refined[name]
		delete(refined, name)
		if schema == nil {
			plain, err := s.Of(f.Type)
			if err != nil {
				return fmt.Errorf("describe the key %s of a request: %w", name, err)
			}
			schema = Nullable(plain)
		}
		body.Properties = append(body.Properties, Property{name, schema})
	}
	for name := range refined {
		return fmt.Errorf("describe a request: it has no key %s", name)
	}
	body.Properties = append(body.Properties,
		Key("stream_options", Anything().Says("Ignored; see StreamOptionsParam.")))
	s.define("Holon", holon)
	s.define("CreateResponseBody", body)
	return nil
}

// refinements says of the keys of a request what their Go types do not.
func (s *Set) refinements() map[string]*Schema {
	atLeastOne := func() *Schema { return Nullable(Integer().AtLeast(1)) }
	tools := Array(Ref("ResponsesToolParam"))
	tools.MaxItems = responses.MaxTools
	include := &Schema{Type: types{"string", "null"},
		AnyOf: []*Schema{{Enum: []any{responses.IncludeToolCalls}},
			{Not: &Schema{Type: types{"string"}, Pattern: "^holon:"}}},
		Examples: []any{responses.IncludeReasoning, responses.IncludeLogprobs, responses.IncludeToolCalls}}
	s.define("IncludeEnum", include)
	previous := Nullable(identifier())
	tier := Nullable(Chars(0, responses.MaxShortName))
	tier.Examples = []any{"auto", "default", "flex", "priority"}
	return map[string]*Schema{
		"model": Nullable(Text()).Says("provider/model; the server's default model if absent."),
		"input": {AnyOf: []*Schema{Chars(0, responses.MaxInputChars),
			Array(&Schema{AnyOf: append(bareParts(), Ref("ItemParam"))}),
			Null()}, Description: "A string is a message of the user, and so are content parts that follow each other."},
		"previous_response_id": previous.Says("A stored response to continue."),
		"include":              Nullable(Array(Ref("IncludeEnum"))).Says("Others than the examples are ignored."),
		"tools":                Nullable(tools).Says("A name may be declared once."),
		"tool_choice":          Nullable(Ref("ToolChoiceParam")),
		"max_tool_calls":       atLeastOne(),
		"max_output_tokens":    atLeastOne().Says("Over all model rounds of the turn."),
		"top_logprobs":         Nullable(Integer().Between(0, responses.MaxLogprobs)),
		"reasoning":            Nullable(Ref("ReasoningParam")),
		"text":                 Nullable(Ref("TextParam")),
		"truncation":           Nullable(Words("", "auto", "disabled")),
		"stream": Nullable(Boolean()).Says(
			"Answer with events: server-sent, or as NDJSON if Accept says application/x-ndjson."),
		"background":        Nullable(Boolean()).Says("Answer at once. It needs store."),
		"store":             withDefault(Nullable(Boolean()), true),
		"metadata":          Nullable(Ref("MetadataParam")),
		"service_tier":      tier.Says("Echoed; it has no effect."),
		"prompt_cache_key":  Nullable(Chars(0, responses.MaxCacheKey)),
		"safety_identifier": Nullable(Chars(0, responses.MaxCacheKey)),
	}
}

func withDefault(s *Schema, value any) *Schema {
	s.Default = value
	return s
}

// bareParts are the content parts that may stand where an item is expected.
func bareParts() []*Schema {
	return []*Schema{Ref("InputTextContentParam"), Ref("InputImageContentParamAutoParam"), Ref("InputFileContentParam")}
}

// holon describes the extension object, whose decoder knows no other keys.
func (s *Set) holon() *Schema {
	path := func(root string) *Schema {
		return Nullable(Text()).Says("A directory under " + root + ", absolute or relative to it.")
	}
	limits := (&Schema{Type: types{"object"}}).With(
		Key("max_rounds", Nullable(Integer().AtLeast(0)).Says("Model rounds; 0 is the server's own limit, which "+
			"also is the highest.")),
		Key("timeout_ms", Nullable(Integer().AtLeast(0)).Says(
			"Wall time of the turn from when it leaves the queue; 0 as above.")),
		Key("max_output_bytes", Nullable(Integer().AtLeast(0)).Says("Bytes that the turn may leave in its output "+
			"directory, its streams included; 0 as above.")))
	s.define("Limits", limits)
	h := (&Schema{Type: types{"object"}, AdditionalProperties: false}).With(
		Key("session_id", Nullable(identifier()).Says("Turns of one session run one after the other.")),
		Key("turn_id", Nullable(identifier()).Says("The same id with the same request is the same turn; with "+
			"another request it is a conflict.")),
		Key("input_dir", path("--input-dir")),
		Key("output_dir", path("--output-dir")),
		Key("workspace_dir", path("--workspace-dir")),
		Key("isolation", Nullable(Words("", "none"))),
		Key("on_disconnect", Nullable(Words("", "continue", "cancel")).Says("What becomes of the turn when the last "+
			"client that waits for it goes.")),
		Key("limits", Nullable(Ref("Limits"))))
	return h.Says("What an agent needs beyond the protocol. Unlike elsewhere, unknown keys are refused.")
}

// compact describes the body of POST /responses/compact. It is decoded like
// every other request; these are the keys that mean something there.
func (s *Set) compact() {
	create := s.components["CreateResponseBody"].Properties
	s.define("CompactResponseMethodPublicBody", Object(Key("model", Chars(1, 0))).With(
		Key("input", create.Get("input")), Key("previous_response_id", create.Get("previous_response_id")),
		Key("instructions", Nullable(Text()).Says("Told to whoever writes the summary.")),
		Key("prompt_cache_key", create.Get("prompt_cache_key"))))
}

// message describes what a client sends on a WebSocket.
func (s *Set) message() {
	create := s.components["CreateResponseBody"]
	m := Object(kind("response.create"))
	for _, p := range create.Properties {
		switch p.Name {
		case "stream", "stream_options", "background": // may not be there, not even as null
			p.Schema = &Schema{Not: &Schema{}}
		}
		m.Properties = append(m.Properties, p)
	}
	s.define("WebSocketResponseCreateEvent",
		m.Says("A message of a client on a WebSocket: the body of POST /responses, without the keys that choose how "+
			"it is answered."))
}
