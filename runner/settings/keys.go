package settings

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"sync"

	"github.com/google/jsonschema-go/jsonschema"
)

//go:embed schema.json
var schema []byte

// Schema returns the JSON Schema of config.json. The file of a project takes the keys that a repository may decide, in
// YAML.
func Schema() []byte { return schema }

// Values of the tag "project", next to the one value that confines.
const (
	ruleNever  = ""       // it names what is run, read, asked, paid or reached, or is about the host
	ruleLower  = "lower"  // a limit: the lesser of its value and the person's counts
	ruleFolder = "folder" // paths, which stay within the repository
	ruleFree   = "free"   // it neither confines nor loosens
	ruleAgreed = "agreed" // it is in force once a person agreed to the value
)

// key is one setting: a field of Settings, Provider, Credential or Facts with its tags.
type key struct {
	name    string
	env     string
	project string // one of the rules above, or the value that confines
	zero    bool   // 0 is a value
	field   []int  // index within Settings, Provider or Facts
	typ     reflect.Type
	doc     string
	choices []string // the only values of a text
}

// group says what a "*" stands for.
type group uint8

const (
	plain group = iota
	ofProvider
	ofModel
)

func (k *key) group() group {
	switch {
	case strings.HasPrefix(k.name, "providers.*."):
		return ofProvider
	case strings.HasPrefix(k.name, "models.catalog.*."):
		return ofModel
	}
	return plain
}

// isList reports whether the key holds a list of strings.
func (k *key) isList() bool { return k.typ.Kind() == reflect.Slice }

func (k *key) segments() []string { return strings.Split(k.name, ".") }

// full returns the key's name for one provider or model.
func (k *key) full(name string) string { return strings.Replace(k.name, "*", name, 1) }

// keys returns the table of settings, in the order in which they are shown.
var keys = sync.OnceValue(func() []*key {
	var root jsonschema.Schema
	if err := json.Unmarshal(schema, &root); err != nil {
		panic(fmt.Sprintf("schema.json: %v", err)) // a test reads it
	}
	return keysOf(reflect.TypeFor[Settings](), nil, &root)
})

// keysOf returns the keys of a struct; index is where it lies in that which a key's field counts from.
func keysOf(of reflect.Type, index []int, root *jsonschema.Schema) (list []*key) {
	for i := range of.NumField() {
		f := of.Field(i)
		at := append(index[:len(index):len(index)], i)
		name, tagged := f.Tag.Lookup("key")
		switch {
		case tagged:
			k := &key{name: name, env: f.Tag.Get("env"), project: f.Tag.Get("project"), zero: f.Tag.Get("zero") == "ok",
				field: at, typ: f.Type}
			leaf := leafOf(root, k.segments())
			k.doc = leaf.Description
			for _, choice := range leaf.Enum {
				k.choices = append(k.choices, fmt.Sprint(choice))
			}
			list = append(list, k)
		case f.Type.Kind() == reflect.Struct:
			list = append(list, keysOf(f.Type, at, root)...)
		case f.Type.Kind() == reflect.Map: // of pointers to structs, by name
			list = append(list, keysOf(f.Type.Elem().Elem(), nil, root)...)
		}
	}
	return list
}

// leafOf returns the schema of a key, an empty one where schema.json lacks it.
func leafOf(s *jsonschema.Schema, path []string) *jsonschema.Schema {
	for _, segment := range path {
		if len(s.AnyOf) > 0 { // model: NAME is the short form of model: {default: NAME}
			s = s.AnyOf[len(s.AnyOf)-1]
		}
		below := s.Properties[segment]
		if segment == "*" {
			below = s.AdditionalProperties
		}
		if below == nil {
			return &jsonschema.Schema{}
		}
		s = below
	}
	return s
}

// value returns the field that holds the value of the key.
func (k *key) value(s *Settings, name string) reflect.Value {
	of := reflect.ValueOf(s)
	switch k.group() {
	case ofProvider:
		of = reflect.ValueOf(s.provider(name))
	case ofModel:
		of = reflect.ValueOf(s.facts(name))
	}
	return of.Elem().FieldByIndex(k.field)
}
