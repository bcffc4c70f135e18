package openapi_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"holon/responses"
	"holon/test/expect"
)

// edges walks a schema and tries, for each bound in it, a request that just
// keeps the bound and one that just does not.
type edges struct {
	schemas map[string]any
	seen    map[string]bool
	try     func(at string, keeps, breaks any)
	large   func(at string, high int, body func(any) any)
}

// minimal is a small value that fits.
func (e *edges) minimal(v any) any {
	s := deref(e.schemas, v)
	switch {
	case s["const"] != nil:
		return s["const"]
	case s["enum"] != nil:
		words := list(s["enum"])
		return words[len(words)-1]
	case s["anyOf"] != nil && s["properties"] == nil && s["type"] == nil:
		return e.minimal(list(s["anyOf"])[0])
	}
	kind, ok := s["type"].(string)
	if !ok {
		kind, _ = append(list(s["type"]), "null")[0].(string)
	}
	switch kind {
	case "string":
		if s["format"] == "uri" {
			return list(s["examples"])[0]
		}
		low, _ := s["minLength"].(float64)
		return strings.Repeat("a", int(low))
	case "integer", "number":
		low, _ := s["minimum"].(float64)
		return low
	case "boolean":
		return true
	case "array":
		out := []any{}
		if low, _ := s["minItems"].(float64); low > 0 {
			out = append(out, e.minimal(s["items"]))
		}
		return out
	case "object":
		out := map[string]any{}
		properties, _ := s["properties"].(map[string]any)
		for _, name := range list(s["required"]) {
			out[name.(string)] = e.minimal(properties[name.(string)])
		}
		if conditions := list(s["anyOf"]); conditions != nil {
			chosen := deref(e.schemas, conditions[0])
			for _, name := range list(chosen["required"]) {
				out[name.(string)] = e.minimal(chosen["properties"].(map[string]any)[name.(string)])
			}
		}
		return out
	}
	return nil
}

// walk visits the schema of the value at a place; body returns the whole
// request with a value there.
func (e *edges) walk(at string, v any, body func(any) any) {
	if ref, ok := v.(map[string]any)["$ref"].(string); ok {
		if e.seen[ref] { // once is enough, wherever it stands
			return
		}
		e.seen[ref] = true
		at += "(" + ref[strings.LastIndex(ref, "/")+1:] + ")"
	}
	s := deref(e.schemas, v)
	if s["type"] == nil || s["properties"] == nil {
		for i, member := range list(s["anyOf"]) {
			e.walk(fmt.Sprintf("%s|%d", at, i), member, body)
		}
	}
	e.words(at, s, body)
	e.numbers(at, s, body)
	e.lists(at, s, body)
	e.objects(at, s, body)
}

func (e *edges) words(at string, s map[string]any, body func(any) any) {
	char := "a"
	if s["format"] == "uri" { // no run of letters is an address
		if high, ok := s["maxLength"].(float64); ok {
			e.large(at+" maxLength", int(high), body)
		}
		return
	}
	if s["pattern"] != nil {
		e.try(at+" pattern", body("a_-Z9"), body("a b"))
		e.try(at+" pattern", body("a_-Z9"), body("é"))
	} else if high, _ := s["maxLength"].(float64); high <= 1024 {
		char = "é" // characters, not bytes
	}
	switch high, ok := s["maxLength"].(float64); {
	case high > 1<<20:
		e.large(at+" maxLength", int(high), body)
	case ok:
		e.try(at+" maxLength", body(strings.Repeat(char, int(high))), body(strings.Repeat(char, int(high)+1)))
	}
	if low, ok := s["minLength"].(float64); ok {
		e.try(at+" minLength", body(strings.Repeat(char, int(low))), body(strings.Repeat(char, int(low)-1)))
	}
	for _, word := range list(s["enum"]) {
		e.try(at+" enum", body(word), body("no such word"))
	}
}

func (e *edges) numbers(at string, s map[string]any, body func(any) any) {
	if low, ok := s["minimum"].(float64); ok {
		e.try(at+" minimum", body(low), body(low-1))
	}
	if high, ok := s["maximum"].(float64); ok {
		e.try(at+" maximum", body(high), body(high+1))
	}
}

func (e *edges) lists(at string, s map[string]any, body func(any) any) {
	if s["items"] == nil {
		return
	}
	of := func(n int) any {
		out := make([]any, n)
		for i := range out {
			out[i] = e.minimal(s["items"])
			if o, ok := out[i].(map[string]any); ok && o["name"] != nil { // names in a list differ
				o["name"] = fmt.Sprint("f", i)
			}
		}
		return out
	}
	if high, ok := s["maxItems"].(float64); ok {
		e.try(at+" maxItems", body(of(int(high))), body(of(int(high)+1)))
	}
	if low, ok := s["minItems"].(float64); ok {
		e.try(at+" minItems", body(of(int(low))), body(of(int(low)-1)))
	}
	e.walk(at+"[]", s["items"], func(elem any) any { return body([]any{elem}) })
}

func (e *edges) objects(at string, s map[string]any, body func(any) any) {
	if s["additionalProperties"] == nil && s["properties"] == nil {
		return
	}
	whole, _ := e.minimal(s).(map[string]any)
	with := func(name string, value any) map[string]any {
		o := maps.Clone(whole)
		o[name] = value
		return o
	}
	for name := range whole {
		less := maps.Clone(whole)
		delete(less, name)
		e.try(at+" required "+name, body(whole), body(less))
	}
	if s["additionalProperties"] == false {
		e.try(at+" additionalProperties", body(whole), body(with("zzz", 1)))
	}
	if high, ok := s["maxProperties"].(float64); ok {
		full := map[string]any{}
		for i := range int(high) {
			full[fmt.Sprint("k", i)] = ""
		}
		over := maps.Clone(full)
		over["one more"] = ""
		e.try(at+" maxProperties", body(full), body(over))
	}
	if names, ok := s["propertyNames"].(map[string]any); ok {
		high, _ := names["maxLength"].(float64)
		long := strings.Repeat("é", int(high))
		e.try(at+" propertyNames", body(map[string]any{long: ""}), body(map[string]any{long + "é": ""}))
	}
	if elem, ok := s["additionalProperties"].(map[string]any); ok {
		e.walk(at+".*", elem, func(v any) any { return body(map[string]any{"k": v}) })
	}
	properties, _ := s["properties"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		e.walk(at+"."+name, properties[name], func(v any) any { return body(with(name, v)) })
	}
}

// Every bound that the schema says is the bound that the decoder enforces, to
// the character.
func TestBoundsAreThoseOfTheDecoder(t *testing.T) {
	doc := lax(t)
	kept, broken := 0, 0
	bites := map[string]bool{}
	e := &edges{schemas: components(t), seen: map[string]bool{}}
	e.try = func(at string, keeps, breaks any) {
		data, refused, invalid, _ := agree(doc, "CreateResponseBody", keeps)
		if refused != nil || invalid != nil {
			t.Errorf("%s: what keeps it is refused: decoder %v; schema %.300v: %.200s", at, refused, invalid, data)
		}
		kept++
		data, refused, invalid, ok := agree(doc, "CreateResponseBody", breaks)
		if !ok { // in a union it may be something else, and then for both
			t.Errorf("%s: what breaks it: decoder %v; schema %.300v: %.200s", at, refused, invalid, data)
		}
		if refused != nil {
			broken++
			bites[at[strings.LastIndex(at, " ")+1:]] = true
		}
	}
	// Megabytes take long to decode, so the decoder is asked about them once. The
	// same numbers at every other place are those of TestBoundsOfContent in package
	// responses, which needs no body.
	e.large = func(at string, high int, body func(any) any) {
		want := 10 << 20
		switch {
		case strings.HasSuffix(at, ".image_url maxLength"):
			want = 20 << 20
		case strings.HasSuffix(at, ".file_data maxLength"):
			want = 32 << 20
		}
		if high != want {
			t.Errorf("%s is %d, want %d", at, high, want)
		}
		kept++
		if at != "body.input|0 maxLength" || testing.Short() {
			return
		}
		for length, fits := range map[int]bool{high: true, high + 1: false} {
			data, err := json.Marshal(body(strings.Repeat("a", length)))
			expect.NoError(t, err)
			if _, err := responses.DecodeRequest(data); (err == nil) != fits {
				t.Errorf("%s: the decoder takes %d characters: %t, want %t (%v)", at, length, err == nil, fits, err)
			}
		}
	}
	e.walk("body", components(t)["CreateResponseBody"], func(v any) any { return v })
	t.Logf("%d bounds, %d of them bite", kept, broken)
	for _, bound := range []string{"maxLength", "minLength", "pattern", "enum", "minimum", "maximum", "maxItems",
		"minItems", "additionalProperties", "maxProperties", "propertyNames", "call_id", "output"} {
		if !bites[bound] {
			t.Errorf("no request broke a %s", bound)
		}
	}
}

// These the schema cannot say. The document says them in words.
func TestWhatTheDecoderRefusesBeyondTheSchema(t *testing.T) {
	doc := lax(t)
	for body, part := range map[string]string{
		`{"max_output_tokens":16.0}`:        "an integer is written without a fraction",
		`{"max_output_tokens":2e1}`:         "or an exponent",
		`{"background":true,"store":false}`: "background needs store",
		`{"tools":[{"type":"function","name":"f"},{"type":"function","name":"f"}]}`: "a name may be declared once",
		`{"input":[{"type":"function_call","call_id":"c","name":"f"},{"type":"function_call",` +
			`"call_id":"c","name":"f"}]}`: "so may a call",
		`{"input":[{"type":"input_text","text":"x","detail":1}]}`: "a key of another kind of part has its " +
			"type there too",
		`{"input":` + strings.Repeat("[", 256) + strings.Repeat("]", 256) +
			`}`: "nesting has a limit",
	} {
		if _, err := responses.DecodeRequest([]byte(body)); err == nil {
			t.Errorf("%s: %.100s is decoded", part, body)
		}
		if err := doc.Object("CreateResponseBody", []byte(body)); err != nil && !strings.Contains(part, "nesting") {
			t.Errorf("%s: the schema can say it after all: %v", part, err)
		}
	}
}
