package tools

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"
)

// StrictParameters returns the schema of the tool's arguments in the form that some providers demand in order
// to keep to it (runtime specification, "Provider Tool Schema Contract"): every property is required, and
// optional ones may be null. [Registry.Run] accepts arguments in this form, too.
func (d Definition) StrictParameters() (json.RawMessage, error) {
	var schema jsonschema.Schema
	if err := json.Unmarshal(d.Parameters, &schema); err != nil {
		return nil, fmt.Errorf("decode schema of %s: %w", d.Name, err)
	}
	strict, err := strictForm(&schema)
	if err != nil {
		return nil, fmt.Errorf("strict schema of %s: %w", d.Name, err)
	}
	data, err := encodeSchema(strict)
	if err != nil {
		return nil, fmt.Errorf("encode strict schema of %s: %w", d.Name, err)
	}
	return data, nil
}

// strictForm copies what strict mode knows. Bounds on the length of strings are
// left out: providers refuse them, and the call is checked by the source schema
// anyway.
func strictForm(s *jsonschema.Schema) (*jsonschema.Schema, error) {
	out := &jsonschema.Schema{
		Type: s.Type, Description: s.Description, Enum: slices.Clone(s.Enum), Pattern: s.Pattern,
		Minimum: s.Minimum, Maximum: s.Maximum, MinItems: s.MinItems, MaxItems: s.MaxItems,
	}
	var err error
	switch s.Type {
	case "object":
		out.AdditionalProperties = s.AdditionalProperties
		out.Properties = make(map[string]*jsonschema.Schema, len(s.Properties))
		out.Required = slices.Sorted(maps.Keys(s.Properties))
		for name, prop := range s.Properties {
			p, err := strictForm(prop)
			if err != nil {
				return nil, fmt.Errorf("property %q: %w", name, err)
			}
			if !slices.Contains(s.Required, name) {
				orNull(p)
			}
			out.Properties[name] = p
		}
	case "array":
		out.Items, err = strictForm(s.Items)
	case "string", "integer", "number", "boolean":
	default:
		err = fmt.Errorf("type %q %v has no strict form", s.Type, s.Types)
	}
	return out, err
}

func orNull(s *jsonschema.Schema) {
	s.Types, s.Type = []string{s.Type, "null"}, ""
	if s.Enum != nil {
		s.Enum = append(s.Enum, nil)
	}
}
