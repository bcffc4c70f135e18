package tools

import (
	"encoding/json"
	"fmt"

	"github.com/google/jsonschema-go/jsonschema"
)

// Derive returns the JSON Schema of T, a struct of arguments, for
// Definition.Parameters. It is the only place where schemas are made: names come
// from json tags, descriptions from jsonschema tags, a field without omitempty
// is required, and objects are closed. adjust, which may be nil, adds what a tag
// cannot say, such as bounds, to the schema of a property.
func Derive[T any](adjust map[string]func(*jsonschema.Schema)) (json.RawMessage, error) {
	schema, err := jsonschema.For[T](nil)
	if err != nil {
		return nil, fmt.Errorf("derive schema of %T: %w", *new(T), err)
	}
	for name, f := range adjust {
		prop := schema.Properties[name]
		if prop == nil {
			return nil, fmt.Errorf("derive schema of %T: no property %q", *new(T), name)
		}
		f(prop)
	}
	data, err := encode(schema)
	if err != nil {
		return nil, fmt.Errorf("encode schema of %T: %w", *new(T), err)
	}
	return data, nil
}

// Decode returns the arguments of a call that has passed the schema of T.
func Decode[T any](call Call) (T, *Error) {
	var args T
	if len(call.Arguments) == 0 {
		return args, nil
	}
	if err := json.Unmarshal(call.Arguments, &args); err != nil {
		return args, InvalidInput("", "the arguments cannot be decoded: "+Clip(err.Error(), 300), "send a JSON object that matches the published schema")
	}
	return args, nil
}

// parameters is a compiled schema of arguments.
type parameters struct {
	whole    *jsonschema.Resolved
	props    map[string]*jsonschema.Resolved
	names    []string // of properties, sorted
	required map[string]bool
}

// compile checks that raw is the schema of a closed object and prepares it.
func compile(raw json.RawMessage) (*parameters, error) {
	var schema jsonschema.Schema
	if err := json.Unmarshal(raw, &schema); err != nil {
		return nil, fmt.Errorf("decode schema: %w", err)
	}
	closed := schema.AdditionalProperties != nil && schema.AdditionalProperties.Not != nil
	if schema.Type != "object" || !closed {
		return nil, fmt.Errorf("the schema must be of a closed object")
	}
	p := &parameters{props: make(map[string]*jsonschema.Resolved), required: make(map[string]bool)}
	for name, prop := range schema.Properties {
		// Each property is also compiled alone, so that a complaint can name it.
		one, err := prop.CloneSchemas().Resolve(nil)
		if err != nil {
			return nil, fmt.Errorf("compile property %q: %w", name, err)
		}
		p.props[name] = one
		p.names = append(p.names, name)
	}
	for _, name := range schema.Required {
		p.required[name] = true
	}
	whole, err := schema.Resolve(nil)
	if err != nil {
		return nil, fmt.Errorf("compile schema: %w", err)
	}
	p.whole = whole
	return p, nil
}
