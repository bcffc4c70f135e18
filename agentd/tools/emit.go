package tools

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"
)

// Mode is how a schema is put before a provider (runtime specification,
// "Provider Tool Schema Contract").
type Mode bool

// The modes of emission. Relaxed says what the tool means and is what providers
// are sent by default. Strict is the form that providers demand who promise to
// keep to a schema: every property is required, and what is optional may be null.
const (
	Relaxed Mode = false
	Strict  Mode = true
)

// Emit returns the schema of the tool's arguments in the given mode. Both forms lead to the same call: [Registry.Run]
// accepts arguments in strict form in either mode.
func (d Definition) Emit(mode Mode) (json.RawMessage, error) {
	if mode == Relaxed {
		return d.Parameters, nil // closed already, or the registry had refused it
	}
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
