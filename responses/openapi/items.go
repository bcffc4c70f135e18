package openapi

import "holon/responses"

// words describes the words from fixed lists.
func (s *Set) words() {
	status := func() *Schema {
		return Words(responses.ItemInProgress, responses.ItemCompleted, responses.ItemIncomplete)
	}
	for _, name := range []string{"MessageStatus", "FunctionCallStatus", "FunctionCallOutputStatusEnum",
		"FunctionCallItemStatus"} {
		s.define(name, status())
	}
	s.define("MessageRole", Words(responses.RoleUser, responses.RoleAssistant, responses.RoleSystem,
		responses.RoleDeveloper))
	s.define("ImageDetail", Words("low", "high", "auto"))
	s.define("DetailEnum", Words("low", "high", "auto"))
	s.define("TruncationEnum", Words("auto", "disabled"))
	s.define("VerbosityEnum", Words("low", "medium", "high"))
	s.define("ToolChoiceValueEnum", Words("none", "auto", "required"))
}

// parts describes what Part.MarshalJSON writes.
func (s *Set) parts() {
	text := func(kind string) *Schema { return Object(Key("type", Exactly(kind)), Key("text", Text())) }
	s.define("InputTextContent", text(responses.PartInputText))
	s.define("TextContent", text(responses.PartText))
	s.define("SummaryTextContent", text(responses.PartSummaryText).Says("Thinking that is safe to show."))
	s.define("ReasoningTextContent", text(responses.PartReasoningText).Says("Thinking as it was."))
	s.define("OutputTextContent", Object(Key("type", Exactly(responses.PartOutputText)), Key("text", Text()),
		Key("annotations", Array(Ref("Annotation"))),
		Key("logprobs", Array(Ref("LogProb")).Says("Empty unless the request asked for them and the model has them."))))
	s.define("RefusalContent", Object(Key("type", Exactly(responses.PartRefusal)), Key("refusal", Text())))
	s.define("InputImageContent", Object(Key("type", Exactly(responses.PartInputImage)),
		Key("image_url", Nullable(Text()).Says("A URL or a data URL.")), Key("detail", Ref("ImageDetail"))))
	s.define("InputFileContent", Object(Key("type", Exactly(responses.PartInputFile))).
		With(Key("filename", Text()), Key("file_data", Text().Says("A data URL.")), Key("file_url", Text())))
	s.define("InputVideoContent", Object(Key("type", Exactly(responses.PartInputVideo)), Key("video_url", Chars(1, 0))))
	s.define("Annotation", union("type", []string{"UrlCitationBody"}, func(string) string { return "url_citation" }))
	contents := []string{"InputTextContent", "OutputTextContent", "TextContent", "SummaryTextContent",
		"ReasoningTextContent", "RefusalContent", "InputImageContent", "InputFileContent", "InputVideoContent"}
	s.define("Content", union("type", contents, func(name string) string {
		return s.constant(name, "type")
	}).Says("A content part."))
}

// constant returns the value that a component fixes for a key.
func (s *Set) constant(component, key string) string {
	word, _ := s.components[component].Properties.Get(key).Const.(string)
	return word
}

// items describes what the items' MarshalJSON writes. An id is always there:
// the server gives one to every item of a client that has none.
func (s *Set) items() {
	item := func(kind string, keys ...Property) *Schema {
		return Object(append([]Property{Key("type", Exactly(kind)), Key("id", Text())}, keys...)...)
	}
	content := Array(Ref("Content"))
	s.define("Message", item(responses.ItemMessage, Key("status", Ref("MessageStatus")),
		Key("role", Ref("MessageRole")), Key("content", content)).
		With(Key("phase", Words(responses.PhaseCommentary,
			responses.PhaseFinalAnswer).Says("Of an assistant's message: narration on the way, or the answer."))))
	s.define("FunctionCall", item(responses.ItemFunctionCall, Key("call_id", Text()), Key("name", Text()),
		Key("arguments", Text().Says("JSON text as the model wrote it.")), Key("status", Ref("FunctionCallStatus"))).
		Says("A call for the client to run. It ends the turn; answer with a function_call_output."))
	s.define("FunctionCallOutput", item(responses.ItemFunctionCallOutput, Key("call_id", Text()),
		Key("output", &Schema{AnyOf: []*Schema{Text(), Array(Ref("Content"))}}),
		Key("status", Ref("FunctionCallOutputStatusEnum"))))
	s.define("ReasoningBody", item(responses.ItemReasoning, Key("status", Ref("MessageStatus")),
		Key("summary", content)).
		With(Key("content", content), Key("encrypted_content", Text())))
	s.define("CompactionBody", item(responses.ItemCompaction, Key("status", Ref("MessageStatus")),
		Key("encrypted_content", Text())).
		Says("Stands for context that was summarised. Send it back as it is."))
	s.define("HolonToolCall", item(responses.ItemToolCall, Key("status", Ref("MessageStatus")), Key("call_id", Text()),
		Key("name", Text()),
		Key("arguments", Text().Says("JSON text as the model wrote it.")),
		Key("result", Anything().Says("The canonical result of the tool; null while it runs.")),
		Key("output", Text().Says("What the model was shown."))).
		With(Key("media", content.clone().Says("Images and files that the model was shown beside the output.")),
			Key("round", Text().Says("Calls side by side with the same round were made in one answer of the model."))).
		Says("The receipt of a tool that ran in the container: an extension, only in responses to requests that "+
			"include holon:tool_calls."))
	kind := func(name string) string { return s.constant(name, "type") }
	s.define("ItemField", union("type",
		[]string{"Message", "FunctionCall", "FunctionCallOutput", "ReasoningBody", "CompactionBody", "HolonToolCall"},
		kind).Says("An item of a response."))
	s.define("ForeignItem", Object(Key("type", foreign()).Says("Any type that this server does not know.")).
		With(Key("id", Text())).Says("An item of a type that this server does not know. It is kept as it came; no "+
		"model sees it."))
	s.define("InputItem", &Schema{AnyOf: []*Schema{Ref("ItemField"), Ref("ForeignItem")},
		Description: "An item of a request, as it was stored."})
}

func (s *Schema) clone() *Schema {
	out := *s
	return &out
}

// Says is the key with a description.
func (p Property) Says(description string) Property {
	p.Schema.Says(description)
	return p
}

// foreign is the type of an item that is not one of ours.
func foreign() *Schema {
	known := Text()
	for _, kind := range []string{responses.ItemMessage, responses.ItemFunctionCall, responses.ItemFunctionCallOutput,
		responses.ItemReasoning, responses.ItemCompaction, responses.ItemReferenceType,
		responses.PartInputText, responses.PartInputImage, responses.PartInputFile} { // parts stand for a message
		known.Enum = append(known.Enum, kind)
	}
	return &Schema{Type: types{"string"}, MinLength: 1,
		Not: &Schema{AnyOf: []*Schema{{Enum: known.Enum}, {Pattern: "^holon:"}}}}
}

// tools describes what Tool, ToolChoice and TextConfig write.
func (s *Set) tools() {
	s.define("FunctionTool", Object(Key("type", Exactly("function")), Key("name", Text()),
		Key("description", Nullable(Text())),
		Key("parameters", Nullable(Map(Anything())).Says("A JSON Schema.")), Key("strict", Nullable(Boolean()))))
	s.define("Tool", union("type", []string{"FunctionTool"}, func(string) string { return "function" }))
	s.define("FunctionToolChoice", Object(Key("type", Exactly("function")), Key("name", Text())))
	s.define("AllowedToolChoice", Object(Key("type", Exactly("allowed_tools")),
		Key("tools", Array(Ref("FunctionToolChoice"))), Key("mode", Ref("ToolChoiceValueEnum"))))
	s.define("TextResponseFormat", Object(Key("type", Exactly("text"))))
	s.define("JsonObjectResponseFormat", Object(Key("type", Exactly("json_object"))))
	s.define("JsonSchemaResponseFormat",
		Object(Key("type", Exactly("json_schema")), Key("name", Text()), Key("description", Nullable(Text())),
			Key("schema", Null().Says("The protocol lets nothing else stand here.")), Key("strict", Boolean())))
	s.define("TextField", Object(Key("format",
		union("type", []string{"TextResponseFormat", "JsonObjectResponseFormat", "JsonSchemaResponseFormat"},
			func(name string) string {
				return s.constant(name, "type")
			}))).With(Key("verbosity", Ref("VerbosityEnum"))))
}
