package hosttools

import (
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/google/jsonschema-go/jsonschema"
)

// SchemaOf is the JSON Schema of the arguments of a tool, a struct of ours: names come from json tags, descriptions
// from jsonschema tags, a field without omitempty is required. types are those of arguments that have few values.
func SchemaOf[T any](types map[reflect.Type]*jsonschema.Schema) json.RawMessage {
	s, err := jsonschema.For[T](&jsonschema.ForOptions{TypeSchemas: types})
	if err != nil {
		panic(fmt.Sprintf("hosttools: the arguments %T have no schema: %v", *new(T), err))
	}
	for name, p := range s.Properties { // optional, and not null
		if len(p.Types) == 2 && p.Types[0] == "null" {
			s.Properties[name].Type, s.Properties[name].Types = p.Types[1], nil
		}
	}
	data, err := json.Marshal(s)
	if err != nil {
		panic(fmt.Sprintf("hosttools: the schema of %T: %v", *new(T), err))
	}
	return data
}
