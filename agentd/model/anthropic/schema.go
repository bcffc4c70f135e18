package anthropic

import (
	"bytes"
	"encoding/json"
	"slices"

	"holon/agentd/model/endpoint"
)

// closedSchema returns a schema in the dialect that the API enforces: objects are
// closed, and unsupported keywords are moved to the description. An answer that
// fits the result may violate the original, for instance a minimum; the turn
// checks answers against the original. The same schema gives the same bytes.
func closedSchema(raw json.RawMessage) (json.RawMessage, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber() // numbers keep their spelling
	var schema any
	if err := dec.Decode(&schema); err != nil {
		return nil, err
	}
	return json.Marshal(closed(schema))
}

// kept are the keywords that the API enforces or reads as they are; dropped are those
// that say nothing to a model.
var (
	kept    = []string{"type", "enum", "const", "required", "title", "description", "default"}
	dropped = []string{"$schema", "$id", "$comment", "examples"}
)

// closed rewrites a schema. Its depth is bounded where requests are read.
func closed(schema any) any {
	s, ok := schema.(map[string]any)
	if !ok {
		return schema // true or false
	}
	if ref, ok := s["$ref"]; ok { // it stands alone
		return map[string]any{"$ref": ref}
	}
	out, rest := make(map[string]any, len(s)), make(map[string]any)
	for key, v := range s {
		_, anyOf := s["anyOf"]
		switch name, rewritten := closedKeyword(key, v); {
		case slices.Contains(dropped, key):
		case slices.Contains(kept, key) || enforced(key, v):
			out[key] = v
		case name == "" || key == "oneOf" && anyOf:
			rest[key] = v
		default:
			out[name] = rewritten
		}
	}
	closeObject(out)
	if len(rest) > 0 {
		describe(out, rest)
	}
	return out
}

// closedKeyword rewrites a keyword that holds schemas; the name is "" for others.
// oneOf becomes anyOf.
func closedKeyword(key string, v any) (name string, rewritten any) {
	switch key {
	case "properties", "$defs", "definitions":
		if m, ok := v.(map[string]any); ok {
			return key, closedEach(m)
		}
		return key, v
	case "items", "additionalProperties":
		return key, closed(v)
	case "anyOf", "allOf":
		return key, closedList(v)
	case "oneOf":
		return "anyOf", closedList(v)
	}
	return "", nil
}

// enforced reports whether the API knows the value of a keyword of which it knows
// only some.
func enforced(key string, v any) bool {
	switch key {
	case "format":
		return slices.Contains(formats(), v)
	case "minItems":
		return v == json.Number("0") || v == json.Number("1")
	}
	return false
}

// closeObject forbids properties that an object schema does not name, unless the
// schema is a dictionary.
func closeObject(s map[string]any) {
	_, named := s["properties"]
	_, dictionary := s["additionalProperties"].(map[string]any)
	if isObject(s["type"]) && !named && !dictionary {
		s["properties"], named = map[string]any{}, true
	}
	if named {
		s["additionalProperties"] = false
	}
}

// formats are those of strings that the API knows.
func formats() []any {
	return []any{"date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"}
}

func closedEach(m map[string]any) map[string]any {
	out := make(map[string]any, len(m))
	for name, v := range m {
		out[name] = closed(v)
	}
	return out
}

func closedList(v any) any {
	list, ok := v.([]any)
	if !ok {
		return v
	}
	out := make([]any, len(list))
	for i, v := range list {
		out[i] = closed(v)
	}
	return out
}

func isObject(t any) bool {
	list, ok := t.([]any)
	return t == "object" || ok && slices.Contains(list, any("object"))
}

// describe adds unsupported keywords to the description.
func describe(out, rest map[string]any) {
	words, err := json.Marshal(rest)
	if err != nil {
		return // it came from JSON
	}
	text, _ := out["description"].(string)
	if text != "" {
		text += "\n\n"
	}
	out["description"] = text + string(words)
}

// objectSchema returns the schema of a tool's arguments, which has to say that
// they are an object.
func objectSchema(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return json.RawMessage(endpoint.EmptySchema)
	}
	var s map[string]json.RawMessage
	if json.Unmarshal(raw, &s) != nil || s["type"] != nil {
		return raw
	}
	if s == nil { // null
		return json.RawMessage(endpoint.EmptySchema)
	}
	s["type"] = json.RawMessage(`"object"`)
	if out, err := json.Marshal(s); err == nil {
		return out
	}
	return raw
}
