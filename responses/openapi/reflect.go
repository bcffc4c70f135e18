package openapi

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"
)

// Set is the components of a document. Asking it for the schema of a Go type
// adds what that needs.
type Set struct {
	components map[string]*Schema
	named      map[reflect.Type]string  // types that are components, by name
	plain      map[reflect.Type]*Schema // types that stand where they are used
}

// NewSet returns a set without components. Of the types that encode themselves
// it knows times and raw JSON.
func NewSet() *Set {
	return &Set{components: make(map[string]*Schema), named: make(map[reflect.Type]string),
		plain: map[reflect.Type]*Schema{
			reflect.TypeFor[json.RawMessage](): Anything(),
			reflect.TypeFor[time.Time]():       {Type: types{"string"}, Format: "date-time"},
		}}
}

// Components returns the schemas by name.
func (s *Set) Components() map[string]*Schema { return s.components }

// define adds a component that is described by hand.
func (s *Set) define(name string, schema *Schema) { s.components[name] = schema }

// name gives a type its component, which is made by reflection unless it is
// defined by hand.
func (s *Set) name(t reflect.Type, component string) { s.named[t] = component }

// Of returns the schema of what encoding/json writes for a value of type t: a
// reference when t is a struct with a name. A type that encodes itself must be
// known beforehand; one that is not is an error, since its fields tell nothing.
func (s *Set) Of(t reflect.Type) (*Schema, error) {
	if plain, ok := s.plain[t]; ok {
		out := *plain
		return &out, nil
	}
	if name, ok := s.named[t]; ok {
		return Ref(name), s.reflect(name, t)
	}
	if encodesItself(t) {
		return nil, fmt.Errorf("describe %s: it encodes itself, so describe it by hand", t)
	}
	switch t.Kind() {
	case reflect.String:
		return Text(), nil
	case reflect.Bool:
		return Boolean(), nil
	case reflect.Int, reflect.Int64, reflect.Int32:
		return Integer(), nil
	case reflect.Uint16:
		return Integer().Between(0, 1<<16-1), nil
	case reflect.Float64:
		return Number(), nil
	case reflect.Pointer:
		elem, err := s.Of(t.Elem())
		if err != nil {
			return nil, err
		}
		return Nullable(elem), nil
	case reflect.Slice:
		elem, err := s.Of(t.Elem())
		return Array(elem), err
	case reflect.Map:
		elem, err := s.Of(t.Elem())
		return Map(elem), err
	case reflect.Struct:
		if t.Name() == "" {
			return s.object(t)
		}
		name := strings.ToUpper(t.Name()[:1]) + t.Name()[1:]
		if _, taken := s.components[name]; taken {
			return nil, fmt.Errorf("describe %s: there is another component %s", t, name)
		}
		s.name(t, name)
		return Ref(name), s.reflect(name, t)
	}
	return nil, fmt.Errorf("describe %s: values of kind %s are not described", t, t.Kind())
}

// reflect makes the component of a type unless it is there.
func (s *Set) reflect(name string, t reflect.Type) error {
	if s.components[name] != nil {
		return nil
	}
	s.components[name] = &Schema{} // types may refer to themselves
	schema, err := s.object(t)
	if err != nil {
		return err
	}
	s.components[name] = schema
	return nil
}

// object describes a struct by its tags: a field without omitempty is always
// there, one that is a pointer may be null.
func (s *Set) object(t reflect.Type) (*Schema, error) {
	out := &Schema{Type: types{"object"}}
	for _, f := range reflect.VisibleFields(t) {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !f.IsExported() || name == "-" {
			continue
		}
		if name == "" {
			return nil, fmt.Errorf("describe %s: the field %s has no JSON name", t, f.Name)
		}
		typ := f.Type
		optional := strings.Contains(options, "omitempty")
		if optional && typ.Kind() == reflect.Pointer {
			typ = typ.Elem() // never null: it is left out
		}
		schema, err := s.Of(typ)
		if err != nil {
			return nil, fmt.Errorf("%s.%s: %w", t, f.Name, err)
		}
		out.Properties = append(out.Properties, Property{name, schema})
		if !optional {
			out.Required = append(out.Required, name)
		}
	}
	return out, nil
}

var marshaler = reflect.TypeFor[json.Marshaler]()

func encodesItself(t reflect.Type) bool {
	return t.Kind() != reflect.Pointer && t.Kind() != reflect.Interface &&
		(t.Implements(marshaler) || reflect.PointerTo(t).Implements(marshaler))
}

// Add makes components of types by reflection. All have their names before one
// is made, since they may hold each other.
func (s *Set) Add(types map[string]reflect.Type) error {
	for component, t := range types {
		if s.components[component] != nil {
			return fmt.Errorf("describe %s: there is another component %s", t, component)
		}
		s.name(t, component)
	}
	for component, t := range types {
		if err := s.reflect(component, t); err != nil {
			return err
		}
	}
	return nil
}

// Refine replaces the schema of a key of a component.
func (s *Set) Refine(component, key string, schema *Schema) error {
	c := s.components[component]
	if c == nil || c.Properties.Get(key) == nil {
		return fmt.Errorf("describe %s: it has no key %s", component, key)
	}
	*c.Properties.Get(key) = *schema
	return nil
}
