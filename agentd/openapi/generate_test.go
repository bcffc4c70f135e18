package openapi_test

import (
	"maps"
	"slices"
	"strings"

	"pgregory.net/rapid"
)

// generator makes random values that fit a schema, from the schema's JSON.
type generator struct {
	*rapid.T
	schemas map[string]any
}

func (g generator) intn(n int, label string) int { return rapid.IntRange(0, n-1).Draw(g.T, label) }

// deref follows references.
func deref(schemas map[string]any, v any) map[string]any {
	for {
		s, _ := v.(map[string]any)
		ref, ok := s["$ref"].(string)
		if !ok {
			return s
		}
		v = schemas[ref[strings.LastIndex(ref, "/")+1:]]
	}
}

func list(v any) []any { l, _ := v.([]any); return l }

// value makes a value that fits the schema.
func (g generator) value(v any, depth int) any {
	s := deref(g.schemas, v)
	if _, never := s["not"]; never && len(s) == 1 {
		return nil
	}
	if c, ok := s["const"]; ok {
		return c
	}
	if words := list(s["enum"]); words != nil {
		return words[g.intn(len(words), "word")]
	}
	// allOf: of the official document, which has one member and {}
	for _, union := range []string{"anyOf", "oneOf", "allOf"} {
		if members := list(s[union]); members != nil && s["properties"] == nil && s["type"] == nil {
			if union == "allOf" {
				return g.value(members[0], depth)
			}
			return g.value(members[g.intn(len(members), "member")], depth)
		}
	}
	kinds := list(s["type"])
	if one, ok := s["type"].(string); ok {
		kinds = []any{one}
	}
	if kinds == nil {
		if s["properties"] == nil {
			return rapid.SampledFrom([]any{nil, true, "x", map[string]any{"a": 1.0}}).Draw(g.T, "anything")
		}
		kinds = []any{"object"}
	}
	switch kinds[g.intn(len(kinds), "kind")] {
	case "string":
		return g.text(s)
	case "integer", "number":
		low, high := 0, 50
		if m, ok := s["minimum"].(float64); ok {
			low = int(m)
		}
		if m, ok := s["maximum"].(float64); ok {
			high = min(high, int(m))
		}
		return low + g.intn(high-low+1, "number")
	case "boolean":
		return g.intn(2, "bool") == 0
	case "array":
		return g.array(s, depth)
	case "object":
		return g.object(s, depth)
	}
	return nil
}

func (g generator) text(s map[string]any) string {
	if s["format"] == "uri" { // what an address may be is said in words
		examples := list(s["examples"])
		return examples[g.intn(len(examples), "address")].(string)
	}
	low, _ := s["minLength"].(float64)
	alphabet := []string{"a", "B", "_", "9", "-"}
	if s["pattern"] == nil {
		alphabet = append(alphabet, " ", "é", "\n", "\x00", "holon", ":", "日")
	}
	var b strings.Builder
	for range int(low) + g.intn(3, "length") {
		b.WriteString(rapid.SampledFrom(alphabet).Draw(g.T, "char"))
	}
	return b.String()
}

func (g generator) array(s map[string]any, depth int) any {
	low, _ := s["minItems"].(float64)
	out := []any{}
	for range int(low) + g.intn(3, "items") {
		out = append(out, g.value(s["items"], depth+1))
	}
	return out
}

func (g generator) object(s map[string]any, depth int) any {
	out := map[string]any{}
	properties, _ := s["properties"].(map[string]any)
	needed := list(s["required"])
	if conditions := list(s["anyOf"]); conditions != nil {
		chosen := deref(g.schemas, conditions[g.intn(len(conditions), "condition")])
		needed = append(slices.Clone(needed), list(chosen["required"])...)
		if refined, ok := chosen["properties"].(map[string]any); ok {
			properties = maps.Clone(properties)
			for k, v := range refined {
				if deref(g.schemas, properties[k])["properties"] == nil {
					properties[k] = v
				}
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		if never := deref(g.schemas, properties[name]); never["not"] != nil && len(never) == 1 {
			continue
		}
		if slices.Contains(needed, any(name)) || g.intn(3, name) == 0 && depth < 8 {
			out[name] = g.value(properties[name], depth+1)
		}
	}
	if elem, ok := s["additionalProperties"].(map[string]any); ok {
		for range g.intn(3, "pairs") {
			out[g.text(map[string]any{"minLength": 1.0})] = g.value(elem, depth+1)
		}
	}
	return out
}

// places are the values within v that can be replaced: each is a function that
// returns a copy of v with another value there, or without it.
func places(v any) []place {
	out := []place{{func(with any) any { return with }, v}}
	switch v := v.(type) {
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			for _, in := range places(v[k]) {
				out = append(out, place{func(with any) any {
					c := maps.Clone(v)
					if c[k] = in.put(with); isGone(c[k]) {
						delete(c, k)
					}
					return c
				}, in.old})
			}
		}
	case []any:
		for i := range v {
			for _, in := range places(v[i]) {
				out = append(out, place{func(with any) any {
					c := slices.Clone(v)
					if c[i] = in.put(with); isGone(c[i]) {
						c = slices.Delete(c, i, i+1)
					}
					return c
				}, in.old})
			}
		}
	}
	return out
}

// place is where a value stands.
type place struct {
	put func(with any) any
	old any
}

// gone in the place of a value takes it away.
var gone any = goneValue{}

type goneValue struct{}

func isGone(v any) bool { _, ok := v.(goneValue); return ok }
