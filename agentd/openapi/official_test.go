package openapi_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"holon/responses"
	"holon/test/conform/schema"
	"holon/test/expect"
)

// official loads the facts of the protocol's own document.
func official(t *testing.T) (map[string]any, *schema.Document) {
	t.Helper()
	var whole struct {
		Components struct{ Schemas map[string]any }
	}
	expect.NoError(t, json.Unmarshal(schema.Facts(), &whole))
	doc, err := schema.Official()
	expect.NoError(t, err)
	return whole.Components.Schemas, doc
}

// differs is what of the protocol's document ours deliberately does not have.
var differs = map[string]string{
	"ResponseOutputTextDeltaStreamingEvent.obfuscation":               "events are never padded",
	"ResponseReasoningDeltaStreamingEvent.obfuscation":                "events are never padded",
	"ResponseReasoningSummaryDeltaStreamingEvent.obfuscation":         "events are never padded",
	"ResponseFunctionCallArgumentsDeltaStreamingEvent.obfuscation":    "events are never padded",
	"ResponseOutputItemAddedStreamingEvent.item null":                 "an item event always has its item",
	"ResponseOutputItemDoneStreamingEvent.item null":                  "an item event always has its item",
	"ResponseOutputTextAnnotationAddedStreamingEvent.annotation null": "an annotation event always has its annotation",
	"CompactionBody.created_by":                                       "the creator is not recorded",
	"ErrorPayload.headers":                                            "errors stand for no other server's",
	"ErrorPayload.code null": "always a string: a client loses the " +
		"message otherwise",
	"ErrorPayload.param null":              "always a string: a client loses the message otherwise",
	"WebSocketErrorEvent.error.param null": "always a string: a client loses the message otherwise",
	"InputImageContentParamAutoParam required image_url": "an image that is not there would be dropped " +
		"in silence; uploaded files are not offered",
	"InputImageContentParamAutoParam.image_url null": "as above",
	"UserMessageItemParam.status words":              "an item has one of three states",
	"SystemMessageItemParam.status words":            "an item has one of three states",
	"DeveloperMessageItemParam.status words":         "an item has one of three states",
	"AssistantMessageItemParam.status words":         "an item has one of three states",
	"WebSocketResponseCreateEvent required type":     "it is required there too, in the part that is its own",
	"JsonSchemaResponseFormatParam":                  "part of TextFormatParam, whose type may be missing",
	"ReasoningEffortEnum":                            "any name is passed on: models invent new ones",
	"ReasoningSummaryEnum":                           "its words stand in ReasoningParam",
	"ServiceTierEnum":                                "any name is echoed",
	"WebSocketResponseCreateEvent.stream string": "the document writes a key that may not be " +
		"there as a string of no possible length",
	"WebSocketResponseCreateEvent.stream_options string": "as above",
	"WebSocketResponseCreateEvent.background string":     "as above",
}

// subset collects what the official schema has and ours lacks.
type subset struct {
	official, ours map[string]any
	used           map[string]bool
	missing        []string
}

func (s *subset) miss(format string, args ...any) {
	at := fmt.Sprintf(format, args...)
	if differs[at] != "" {
		s.used[at] = true
		return
	}
	s.missing = append(s.missing, at)
}

// alternatives are the schemas of single types that a schema consists of. Those
// that are components have their name under "component".
func alternatives(schemas map[string]any, v any) (out []map[string]any) {
	d := deref(schemas, v)
	for _, union := range []string{"anyOf", "oneOf", "allOf"} {
		if d[union] == nil || d["properties"] != nil || d["type"] != nil {
			continue
		}
		for _, member := range list(d[union]) {
			if m, _ := member.(map[string]any); union == "allOf" && m["$ref"] == nil {
				continue // a description
			}
			out = append(out, alternatives(schemas, member)...)
		}
		return out
	}
	kinds := list(d["type"])
	if kinds == nil {
		kinds = []any{d["type"]}
	}
	for _, kind := range kinds {
		one := maps.Clone(d)
		if kind != nil {
			one["type"] = kind
		}
		if words := list(d["enum"]); words != nil {
			one["enum"] = slices.DeleteFunc(slices.Clone(words), func(w any) bool { return w == nil })
		}
		if ref, ok := v.(map[string]any)["$ref"].(string); ok && d["properties"] != nil {
			one["component"] = ref[strings.LastIndex(ref, "/")+1:]
		}
		out = append(out, one)
	}
	return out
}

func (s *subset) compare(at string, official, ours any, request bool) {
	mine := alternatives(s.ours, ours)
	for _, theirs := range alternatives(s.official, official) {
		name, _ := theirs["component"].(string)
		if slices.ContainsFunc(mine, func(m map[string]any) bool {
			return len(m) == 0 || len(m) == 1 && m["description"] != nil || name != "" && m["component"] == name
		}) {
			continue // anything will do; or a component, which is compared by itself
		}
		kind, _ := theirs["type"].(string)
		i := slices.IndexFunc(mine, func(m map[string]any) bool {
			return m["type"] == kind && (constantOf(m) == nil || constantOf(m) == constantOf(theirs))
		})
		switch {
		case kind == "":
		case i < 0 && constantOf(theirs) != nil:
			s.miss("%s %v", at, constantOf(theirs))
		case i < 0:
			s.miss("%s %s", at, kind)
		default:
			s.one(at, theirs, mine[i], request)
		}
	}
}

// constantOf is the type that an object fixes.
func constantOf(m map[string]any) any {
	p, _ := m["properties"].(map[string]any)
	kind, _ := p["type"].(map[string]any)
	return wordOf(kind)
}

func wordOf(m map[string]any) any {
	if words := list(m["enum"]); len(words) == 1 {
		return words[0]
	}
	return m["const"]
}

func (s *subset) one(at string, theirs, ours map[string]any, request bool) {
	s.words(at, theirs, ours, request)
	if request {
		s.bounds(at, theirs, ours)
	}
	if theirs["items"] != nil && ours["items"] != nil {
		s.compare(at+"[]", theirs["items"], ours["items"], request)
	}
	s.properties(at, theirs, ours, request)
}

// words compares the values that a string may have.
func (s *subset) words(at string, theirs, ours map[string]any, request bool) {
	words := list(ours["enum"])
	if c := ours["const"]; c != nil {
		words = []any{c}
	}
	if words == nil {
		return
	}
	if theirs["type"] == "string" && wordOf(theirs) == nil && theirs["enum"] == nil && request {
		s.miss("%s words", at)
	}
	for _, w := range list(theirs["enum"]) {
		if !slices.Contains(words, w) {
			s.miss("%s %v", at, w)
		}
	}
}

// bounds compares what a request may have at most.
func (s *subset) bounds(at string, theirs, ours map[string]any) {
	for _, bound := range []string{"maxLength", "maximum", "maxItems", "maxProperties"} {
		mine, ok := ours[bound].(float64)
		if their, both := theirs[bound].(float64); ok && both && their > mine {
			s.miss("%s %s", at, bound)
		}
	}
}

// properties compares the keys of an object.
func (s *subset) properties(at string, theirs, ours map[string]any, request bool) {
	properties, _ := theirs["properties"].(map[string]any)
	mine, _ := ours["properties"].(map[string]any)
	for name, p := range properties {
		switch {
		case mine[name] != nil:
			s.compare(at+"."+name, p, mine[name], request)
		case ours["type"] != nil:
			s.miss("%s.%s", at, name)
		}
	}
	need, have := list(theirs["required"]), list(ours["required"])
	if request {
		need, have = have, need
	}
	for _, name := range need {
		if !slices.Contains(have, name) && ours["type"] != nil {
			s.miss("%s required %v", at, name)
		}
	}
}

// Every schema, key, word, member of a union and event of the protocol's
// document is in ours, but for what differs says.
func TestTheOfficialDocumentIsASubset(t *testing.T) {
	theirs, _ := official(t)
	s := &subset{official: theirs, ours: components(t), used: map[string]bool{}}
	for name, schema := range theirs {
		if s.ours[name] == nil {
			s.miss("%s", name)
			continue
		}
		whole, _ := schema.(map[string]any)
		request := strings.HasSuffix(name, "Param") ||
			strings.HasSuffix(name, "Body") && !slices.Contains([]string{"ReasoningBody", "CompactionBody",
				"UrlCitationBody"}, name) || name == "WebSocketResponseCreateEvent"
		// the message of a WebSocket: keys of its own, and those of a request
		if parts := list(whole["allOf"]); parts != nil {
			keys := map[string]any{}
			for _, part := range slices.Backward(parts) {
				p, _ := deref(theirs, part)["properties"].(map[string]any)
				maps.Copy(keys, p)
			}
			schema = map[string]any{"type": "object", "properties": keys}
		}
		s.compare(name, schema, s.ours[name], request)
	}
	slices.Sort(s.missing)
	for _, m := range slices.Compact(s.missing) {
		t.Errorf("ours lacks %s", m)
	}
	for at := range differs {
		if !s.used[at] {
			t.Errorf("differs has %s, which does not differ", at)
		}
	}
}

// stricter says what requests of the official document are refused, by the
// parameter that the error names.
var stricter = []struct {
	param *regexp.Regexp
	why   string
}{
	{regexp.MustCompile(`\.status$`), "an item has one of three states"},
	{regexp.MustCompile(`\.(image_url|file_data|video_url)$`), "a part without content would be dropped in silence"},
	{regexp.MustCompile(`^previous_response_id$`), "404: no stored response can have such an id"},
	{regexp.MustCompile(`^tool_choice`), "no function can have such a name"},
	{regexp.MustCompile(`^text\.format\.name$`), "providers take function names there"},
	{regexp.MustCompile(`^input\[\d+\]\.type$`), "a reference, without a type, to the empty id"},
	{regexp.MustCompile(`^input\[\d+\]\.(encrypted_content|id)$`), "empty, so it stands for nothing"},
	{regexp.MustCompile(`^tools\[\d+\]\.name$`), "two functions of one name"},
	{regexp.MustCompile(`^input\[\d+\]\.call_id$`), "two calls with one id"},
	{regexp.MustCompile(`\.file_url$`), "so would what cannot be fetched"},
	{regexp.MustCompile(`^(temperature|top_p|presence_penalty|frequency_penalty)$`), "the ranges of OpenAI's service, " +
		"which the document says in no schema"},
	{regexp.MustCompile(`^background$`), "it could not be fetched without store"},
}

// Requests of the official document are taken, and answered with responses and
// events that the official document permits.
func TestOfficialRequestsAreTakenAndAnswered(t *testing.T) {
	theirs, doc := official(t)
	ours := lax(t)
	taken := 0
	used := make([]bool, len(stricter))
	rapid.Check(t, func(rt *rapid.T) {
		body := generator{rt, theirs}.value(theirs["CreateResponseBody"], 0)
		data, err := json.Marshal(body)
		expect.NoError(rt, err)
		if err := doc.Object("CreateResponseBody", data); err != nil {
			rt.Skip(err) // the generator cannot do all
		}
		req, err := responses.DecodeRequest(data)
		if err != nil {
			i := slices.IndexFunc(stricter, func(s struct {
				param *regexp.Regexp
				why   string
			}) bool {
				return s.param.MatchString(responses.AsError(err).Param)
			})
			if i < 0 {
				rt.Fatalf("%v: %s", err, data)
			}
			used[i] = true
			return
		}
		taken++
		expect.NoError(rt, ours.Object("CreateResponseBody", data))
		for _, event := range (maker{rt}).stream(req, false) {
			expect.NoError(rt, doc.Event(event))
		}
	})
	if taken == 0 {
		t.Error("no request was taken")
	}
	t.Logf("%d requests were taken", taken)
	for i, s := range stricter {
		if !used[i] {
			t.Logf("not met this time: %s", s.param)
		}
	}
}

// The comparison must be able to fail.
func TestTheComparisonBites(t *testing.T) {
	text, number := map[string]any{"type": "string"}, map[string]any{"type": "integer"}
	object := func(required []any, keys map[string]any) map[string]any {
		return map[string]any{"type": "object", "properties": keys, "required": required}
	}
	for name, test := range map[string]struct {
		theirs, ours any
		request      bool
	}{
		"a key": {object(nil, map[string]any{"a": text, "b": text}), object(nil, map[string]any{"a": text}),
			false},
		"a type": {object(nil, map[string]any{"a": text}), object(nil, map[string]any{"a": number}), false},
		"null":   {map[string]any{"anyOf": []any{text, map[string]any{"type": "null"}}}, text, false},
		"a word": {map[string]any{"type": "string", "enum": []any{"x", "y"}},
			map[string]any{"type": "string", "enum": []any{"x"}}, false},
		"any word": {text, map[string]any{"type": "string", "enum": []any{"x"}}, true},
		"a required key": {object([]any{"a"}, map[string]any{"a": text}), object(nil, map[string]any{"a": text}),
			false},
		"an optional key": {object(nil, map[string]any{"a": text}), object([]any{"a"}, map[string]any{"a": text}),
			true},
		"a length": {map[string]any{"type": "string", "maxLength": 9.0},
			map[string]any{"type": "string", "maxLength": 8.0}, true},
		"a member": {map[string]any{"oneOf": []any{text, number}}, map[string]any{"oneOf": []any{number}},
			false},
		"an item of a list": {map[string]any{"type": "array", "items": text},
			map[string]any{"type": "array", "items": number}, false},
	} {
		s := &subset{used: map[string]bool{}}
		if s.compare("x", test.theirs, test.ours, test.request); len(s.missing) == 0 {
			t.Errorf("ours lacks %s, which was not noticed", name)
		}
		s = &subset{used: map[string]bool{}}
		if s.compare("x", test.theirs, test.theirs, test.request); len(s.missing) != 0 {
			t.Errorf("%s: a schema is not a subset of itself: %v", name, s.missing)
		}
	}
}
