package openapi

import (
	"bytes"
	"encoding/json"
	"slices"
)

// Schema is a JSON Schema (2020-12) as far as the document needs it. A zero
// field is absent; the zero Schema accepts everything.
type Schema struct {
	Ref                  string         `json:"$ref,omitempty"`
	Description          string         `json:"description,omitempty"`
	Type                 types          `json:"type,omitempty"`
	Const                any            `json:"const,omitempty"`
	Enum                 []any          `json:"enum,omitempty"`
	Examples             []any          `json:"examples,omitempty"`
	Default              any            `json:"default,omitempty"`
	Format               string         `json:"format,omitempty"`
	Pattern              string         `json:"pattern,omitempty"`
	MinLength            int            `json:"minLength,omitempty"`
	MaxLength            int            `json:"maxLength,omitempty"`
	Minimum              *int64         `json:"minimum,omitempty"`
	Maximum              *int64         `json:"maximum,omitempty"`
	Items                *Schema        `json:"items,omitempty"`
	MinItems             int            `json:"minItems,omitempty"`
	MaxItems             int            `json:"maxItems,omitempty"`
	Properties           Properties     `json:"properties,omitempty"`
	Required             []string       `json:"required,omitempty"`
	PropertyNames        *Schema        `json:"propertyNames,omitempty"`
	MaxProperties        int            `json:"maxProperties,omitempty"`
	AdditionalProperties any            `json:"additionalProperties,omitempty"` // a *Schema, or false
	OneOf                []*Schema      `json:"oneOf,omitempty"`
	AnyOf                []*Schema      `json:"anyOf,omitempty"`
	AllOf                []*Schema      `json:"allOf,omitempty"`
	Not                  *Schema        `json:"not,omitempty"`
	Discriminator        *Discriminator `json:"discriminator,omitempty"`
}

// Discriminator names the key that tells the members of a union apart.
type Discriminator struct {
	PropertyName string            `json:"propertyName"`
	Mapping      map[string]string `json:"mapping,omitempty"`
}

// types is one name of a JSON type, or several.
type types []string

// MarshalJSON writes a single name as a string.
func (t types) MarshalJSON() ([]byte, error) {
	if len(t) == 1 {
		return json.Marshal(t[0])
	}
	return json.Marshal([]string(t))
}

// Property is a key of an object.
type Property struct {
	Name   string
	Schema *Schema
}

// Properties are the keys of an object, in the order they are written.
type Properties []Property

// Get returns the schema of a key, nil for one that is not described.
func (p Properties) Get(name string) *Schema {
	for _, prop := range p {
		if prop.Name == name {
			return prop.Schema
		}
	}
	return nil
}

// MarshalJSON writes an object in the order of p.
func (p Properties) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, prop := range p {
		if i > 0 {
			b.WriteByte(',')
		}
		name, err := json.Marshal(prop.Name)
		if err != nil {
			return nil, err
		}
		schema, err := json.Marshal(prop.Schema)
		if err != nil {
			return nil, err
		}
		b.Write(name)
		b.WriteByte(':')
		b.Write(schema)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// Ref refers to the component of that name.
func Ref(name string) *Schema { return &Schema{Ref: "#/components/schemas/" + name} }

// Anything accepts every value.
func Anything() *Schema { return &Schema{} }

// Text is a string.
func Text() *Schema { return &Schema{Type: types{"string"}} }

// Integer is a whole number.
func Integer() *Schema { return &Schema{Type: types{"integer"}} }

// Number is any number.
func Number() *Schema { return &Schema{Type: types{"number"}} }

// Boolean is true or false.
func Boolean() *Schema { return &Schema{Type: types{"boolean"}} }

// Null is null alone.
func Null() *Schema { return &Schema{Type: types{"null"}} }

// Array is a list.
func Array(of *Schema) *Schema { return &Schema{Type: types{"array"}, Items: of} }

// Words is a string out of a list.
func Words[T ~string](words ...T) *Schema {
	s := Text()
	for _, w := range words {
		s.Enum = append(s.Enum, string(w))
	}
	return s
}

// Exactly is one word.
func Exactly(word string) *Schema { return &Schema{Type: types{"string"}, Const: word} }

// Map is an object with any keys.
func Map(of *Schema) *Schema { return &Schema{Type: types{"object"}, AdditionalProperties: of} }

// Object is an object with these keys, all of them required.
func Object(keys ...Property) *Schema {
	s := &Schema{Type: types{"object"}}
	for _, k := range keys {
		s.Properties = append(s.Properties, k)
		s.Required = append(s.Required, k.Name)
	}
	return s
}

// With is s with keys that may be absent.
func (s *Schema) With(keys ...Property) *Schema {
	s.Properties = append(s.Properties, keys...)
	return s
}

// Open is s with no key required.
func (s *Schema) Open() *Schema {
	s.Required = nil
	return s
}

// Key is a key of an object.
func Key(name string, s *Schema) Property { return Property{name, s} }

// Says is s with a description.
func (s *Schema) Says(description string) *Schema {
	s.Description = description
	return s
}

// Nullable returns what is null or fits s.
func Nullable(s *Schema) *Schema {
	if len(s.Type) == 0 || s.Const != nil {
		return &Schema{Description: s.Description, AnyOf: []*Schema{s, Null()}}
	}
	out := *s
	if !slices.Contains(out.Type, "null") {
		out.Type = append(slices.Clone(out.Type), "null")
	}
	if out.Enum != nil && !slices.Contains(out.Enum, nil) {
		out.Enum = append(slices.Clone(out.Enum), nil)
	}
	return &out
}

// Chars is a string of low to high characters; no upper bound for high 0.
func Chars(low, high int) *Schema {
	s := Text()
	s.MinLength, s.MaxLength = low, high
	return s
}

// Between is a whole number of at least low.
func (s *Schema) Between(low, high int64) *Schema {
	s.Minimum, s.Maximum = &low, &high
	return s
}

// AtLeast is s with a lower bound.
func (s *Schema) AtLeast(low int64) *Schema {
	s.Minimum = &low
	return s
}

// union is one of several objects that a key tells apart. members maps the
// value of that key to the component.
func union(key string, names []string, value func(name string) string) *Schema {
	s := &Schema{Discriminator: &Discriminator{PropertyName: key, Mapping: make(map[string]string)}}
	for _, name := range names {
		s.OneOf = append(s.OneOf, Ref(name))
		s.Discriminator.Mapping[value(name)] = Ref(name).Ref
	}
	return s
}

// anyOf is any of several components.
func anyOf(names ...string) *Schema {
	s := &Schema{}
	for _, name := range names {
		s.AnyOf = append(s.AnyOf, Ref(name))
	}
	return s
}
