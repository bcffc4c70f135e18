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

// closed rewrites a schema: one switch over the keywords. Its depth is bounded
// where requests are read.
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
		switch key {
		case "properties", "$defs", "definitions":
			if m, ok := v.(map[string]any); ok {
				v = closedEach(m)
			}
			out[key] = v
		case "items", "additionalProperties":
			out[key] = closed(v)
		case "anyOf", "allOf":
			out[key] = closedList(v)
		case "oneOf":
			if _, both := s["anyOf"]; both {
				rest[key] = v
			} else {
				out["anyOf"] = closedList(v)
			}
		case "type", "enum", "const", "required", "title", "description", "default":
			out[key] = v
		case "format":
			keep(out, rest, key, v, slices.Contains(formats(), v))
		case "minItems":
			keep(out, rest, key, v, v == json.Number("0") || v == json.Number("1"))
		case "$schema", "$id", "$comment", "examples":
		default:
			rest[key] = v
		}
	}
	closeObject(out)
	if len(rest) > 0 {
		describe(out, rest)
	}
	return out
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

func keep(out, rest map[string]any, key string, v any, supported bool) {
	if supported {
		out[key] = v
	} else {
		rest[key] = v
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
