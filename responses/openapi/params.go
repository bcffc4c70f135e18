package openapi

import "holon/responses"

// This file describes what DecodeRequest takes as input: items and their parts
// (item_decode.go, part.go, check_item.go of package responses). The decoder
// takes null for any key as if it were absent.

// maybe is a key that may be absent or null.
func maybe(name string, s *Schema) Property { return Property{name, Nullable(s)} }

// kind is the key that tells parts and items apart.
func kind(word string) Property { return Key("type", Exactly(word)) }

// partParams describes what Part.UnmarshalJSON reads and checkPart lets pass.
func (s *Set) partParams() {
	text := func(word string) *Schema {
		return Object(kind(word)).With(maybe("text", Chars(0, responses.MaxInputChars)))
	}
	s.define("InputTextContentParam", text(responses.PartInputText))
	s.define("TextContentParam", text(responses.PartText))
	s.define("ReasoningSummaryContentParam", text(responses.PartSummaryText))
	s.define("ReasoningTextContentParam", text(responses.PartReasoningText))
	s.define("OutputTextContentParam", text(responses.PartOutputText).With(
		maybe("annotations", Array(Nullable(Ref("UrlCitationParam")))), maybe("logprobs", Array(Anything()))))
	s.define("UrlCitationParam", Object().With(maybe("type", Text()), maybe("url", Text()), maybe("title", Text()),
		maybe("start_index", Integer()), maybe("end_index", Integer())))
	s.define("RefusalContentParam", Object(kind(responses.PartRefusal)).With(maybe("refusal",
		Chars(0, responses.MaxInputChars))))
	s.define("InputImageContentParamAutoParam",
		Object(kind(responses.PartInputImage),
			Key("image_url", Chars(1, responses.MaxImageChars).Says("A URL or a data URL."))).
			With(maybe("detail", Words("", "low", "high", "auto"))))
	file := func(needed string) *Schema {
		return &Schema{Required: []string{needed}, Properties: Properties{Key(needed, Chars(1, 0))}}
	}
	s.define("InputFileContentParam", Object(kind(responses.PartInputFile)).With(
		maybe("filename", Text()), maybe("file_data", Chars(0, responses.MaxFileChars).Says("A data URL.")),
		maybe("file_url", Text())))
	s.components["InputFileContentParam"].AnyOf = []*Schema{file("file_data"), file("file_url")}
}

// Parts that may stand in each place.
func messageParts() *Schema {
	return Array(anyOf("InputTextContentParam", "OutputTextContentParam", "TextContentParam", "RefusalContentParam",
		"InputImageContentParamAutoParam", "InputFileContentParam", "InputVideoContent"))
}

func outputParts() *Schema {
	return Array(anyOf("InputTextContentParam", "OutputTextContentParam", "TextContentParam",
		"InputImageContentParamAutoParam", "InputFileContentParam", "InputVideoContent"))
}

func summaryParts() *Schema {
	return Array(anyOf("ReasoningSummaryContentParam", "TextContentParam", "OutputTextContentParam"))
}

func thoughtParts() *Schema {
	return Array(anyOf("ReasoningTextContentParam", "ReasoningSummaryContentParam", "TextContentParam",
		"OutputTextContentParam"))
}

// stringOr is a string that stands for one part, or the parts.
func stringOr(parts *Schema) *Schema {
	return &Schema{AnyOf: []*Schema{Chars(0, responses.MaxInputChars), parts}}
}

// stringPartsOrNull is the same, or null.
func stringPartsOrNull(parts *Schema) *Schema {
	return &Schema{AnyOf: []*Schema{Chars(0, responses.MaxInputChars), parts, Null()}}
}

// itemParams describes what DecodeItem reads and checkItem lets pass.
func (s *Set) itemParams() {
	id := maybe("id", Text())
	status := maybe("status", Words("", responses.ItemInProgress, responses.ItemCompleted, responses.ItemIncomplete))
	callID := Key("call_id", Chars(1, responses.MaxCallID))
	members := &Schema{}
	add := func(name string, schema *Schema) {
		s.define(name, schema)
		members.AnyOf = append(members.AnyOf, Ref(name))
	}
	for _, by := range []struct {
		name string
		role responses.Role
	}{{"UserMessageItemParam", responses.RoleUser}, {"SystemMessageItemParam", responses.RoleSystem},
		{"DeveloperMessageItemParam", responses.RoleDeveloper},
		{"AssistantMessageItemParam", responses.RoleAssistant}} {
		add(by.name, Object(Key("role", Exactly(string(by.role)))).With(
			maybe("type", Words("", responses.ItemMessage)), id, status,
			maybe("phase", Words("", responses.PhaseCommentary, responses.PhaseFinalAnswer)),
			Key("content", stringPartsOrNull(messageParts()))))
	}
	add("FunctionCallItemParam", Object(kind(responses.ItemFunctionCall), callID, Key("name", toolName())).With(id,
		status, maybe("arguments", Text().Says("JSON text."))))
	add("FunctionCallOutputItemParam", Object(kind(responses.ItemFunctionCallOutput), callID,
		Key("output", stringOr(outputParts()))).With(id, status))
	add("ReasoningItemParam", Object(kind(responses.ItemReasoning)).With(id, status,
		maybe("summary", summaryParts()), Key("content", stringPartsOrNull(thoughtParts())),
		maybe("encrypted_content", Text())))
	add("CompactionSummaryItemParam", Object(kind(responses.ItemCompaction),
		Key("encrypted_content", Chars(1, responses.MaxInputChars))).With(id, maybe("status", Text())))
	reference := Object(Key("id", Chars(1, 0))).With(maybe("type", Words("", responses.ItemReferenceType)),
		maybe("status", Text())).
		Says("Stands for a stored item with this id.")
	// Without a type it must not look like a message.
	reference.AnyOf = []*Schema{
		{Required: []string{"type"}, Properties: Properties{kind(responses.ItemReferenceType)}},
		{Properties: Properties{Key("role", &Schema{Enum: []any{"", nil}}), Key("content", Null())}},
	}
	add("ItemReferenceParam", reference)
	add("HolonToolCallParam", Object(kind(responses.ItemToolCall), callID, Key("name", toolName())).With(id, status,
		maybe("arguments", Text()), Key("result", Anything()),
		maybe("output", Chars(0, responses.MaxInputChars)), maybe("media", outputParts()),
		maybe("round", Chars(0, responses.MaxCallID))))
	add("ForeignItemParam", Object(Key("type", foreign())).With(id).Says("An item of a type that this server does "+
		"not know. It is kept as it is; no model sees it."))
	members.Description = "An item of input. One without a type is a message if it has a role, else a reference."
	s.define("ItemParam", members)
}

// toolName is the name of a function.
func toolName() *Schema {
	s := Chars(1, responses.MaxToolName)
	s.Pattern = "^[A-Za-z0-9_-]+$"
	return s
}

// identifier is an id that the caller chooses; "" is none.
func identifier() *Schema {
	s := Chars(0, responses.MaxID)
	s.Pattern = "^[A-Za-z0-9_-]*$"
	return s
}
