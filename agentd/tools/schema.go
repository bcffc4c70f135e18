package tools

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"holon/responses"

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
	dropNullTypes(schema)
	for name, f := range adjust {
		prop := schema.Properties[name]
		if prop == nil {
			return nil, fmt.Errorf("derive schema of %T: no property %q", *new(T), name)
		}
		f(prop)
	}
	data, err := encodeSchema(schema)
	if err != nil {
		return nil, fmt.Errorf("encode schema of %T: %w", *new(T), err)
	}
	return data, nil
}

// encodeSchema writes the schema of the arguments. Providers want the keys of an
// object also when it has no properties.
func encodeSchema(s *jsonschema.Schema) (json.RawMessage, error) {
	if len(s.Properties) == 0 {
		return json.RawMessage(`{"type":"object","properties":{},"required":[],"additionalProperties":false}`), nil
	}
	return responses.Marshal(s)
}

// dropNullTypes says "array" where the derivation says "null or array", which
// follows from Go's nil and not from what a tool means.
func dropNullTypes(s *jsonschema.Schema) {
	if len(s.Types) == 2 && s.Types[0] == "null" {
		s.Type, s.Types = s.Types[1], nil
	}
	for _, prop := range s.Properties {
		dropNullTypes(prop)
	}
	if s.Items != nil {
		dropNullTypes(s.Items)
	}
}

// Decode returns the arguments of a call that has passed the schema of T.
func Decode[T any](call Call) (T, *Error) {
	var args T
	if len(call.Arguments) == 0 {
		return args, nil
	}
	if err := json.Unmarshal(call.Arguments, &args); err != nil {
		message := Clip(err.Error(), 300)
		if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			message = fmt.Sprintf("%s cannot be the %s", wrong.Field, Clip(wrong.Value, 100))
		}
		return args, InvalidInput("", "the arguments cannot be decoded: "+message,
			"send a JSON object that matches the published schema, with whole numbers written without a point")
	}
	return args, nil
}

// parameters is the compiled schema of the arguments, or of a value in them:
// each is also compiled alone, so that a complaint can name it.
type parameters struct {
	foreign  bool // there is nothing to check
	schema   *jsonschema.Resolved
	props    map[string]*parameters // of an object, otherwise nil
	names    []string               // of properties, sorted
	required map[string]bool
	items    *parameters // of a list, otherwise nil
}

// Checker checks the elements of a list that Definition.Apart names.
type Checker struct{ params *parameters }

// NewChecker returns the checker for the elements of the list that d.Apart names.
func (d Definition) NewChecker() (*Checker, error) {
	var schema jsonschema.Schema
	if err := json.Unmarshal(d.Parameters, &schema); err != nil {
		return nil, fmt.Errorf("decode schema of %s: %w", d.Name, err)
	}
	list := schema.Properties[d.Apart]
	if list == nil || list.Items == nil {
		return nil, fmt.Errorf("%s has no list %q", d.Name, d.Apart)
	}
	params, err := compileValue(list.Items)
	if err != nil {
		return nil, fmt.Errorf("elements of %q of %s: %w", d.Apart, d.Name, err)
	}
	return &Checker{params}, nil
}

// Check returns an element in normal form, as the arguments of a call are.
func (c *Checker) Check(raw json.RawMessage) (json.RawMessage, *Error) { return c.params.check(raw) }

// compile checks that raw is the schema of a closed object, all objects within
// it included, and prepares it. Elements of the list apart are not checked by it.
func compile(raw json.RawMessage, apart string) (*parameters, error) {
	var schema jsonschema.Schema
	if err := json.Unmarshal(raw, &schema); err != nil {
		return nil, fmt.Errorf("decode schema: %w", err)
	}
	if schema.Type != "object" {
		return nil, fmt.Errorf("the schema must be of a closed object")
	}
	if list := schema.Properties[apart]; list != nil {
		list.Items = &jsonschema.Schema{}
	}
	return compileValue(&schema)
}

func compileValue(s *jsonschema.Schema) (*parameters, error) {
	whole, err := s.CloneSchemas().Resolve(nil)
	if err != nil {
		return nil, fmt.Errorf("compile schema: %w", err)
	}
	p := &parameters{schema: whole}
	switch s.Type {
	case "object":
		if s.AdditionalProperties == nil || s.AdditionalProperties.Not == nil {
			return nil, fmt.Errorf("the schema must be of a closed object")
		}
		p.props, p.required = make(map[string]*parameters), make(map[string]bool)
		for name, prop := range s.Properties {
			if p.props[name], err = compileValue(prop); err != nil {
				return nil, fmt.Errorf("property %q: %w", name, err)
			}
			p.names = append(p.names, name)
		}
		slices.Sort(p.names)
		for _, name := range s.Required {
			p.required[name] = true
		}
	case "array":
		if s.Items == nil {
			return nil, fmt.Errorf("a list must say what it holds")
		}
		if p.items, err = compileValue(s.Items); err != nil {
			return nil, fmt.Errorf("items: %w", err)
		}
	}
	return p, nil
}
