package tools

import (
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/google/jsonschema-go/jsonschema"

	"holon/state/ledger"
)

// enumerated are the types of arguments that have few values.
var enumerated = map[reflect.Type]*jsonschema.Schema{
	reflect.TypeFor[ledger.PlanStatus](): {Type: "string",
		Enum: []any{string(ledger.PlanDraft), string(ledger.PlanReady), string(ledger.PlanNeedsInput)}},
	reflect.TypeFor[ledger.TodoState](): {Type: "string",
		Enum: []any{string(ledger.TodoPending), string(ledger.TodoInProgress), string(ledger.TodoCompleted)}},
	reflect.TypeFor[ledger.TreeMode](): {Type: "string",
		Enum: []any{string(ledger.TreeDirect), string(ledger.TreeIsolated)}},
	reflect.TypeFor[nullable](): {Types: []string{"string", "null"}},
}

// schemaOf is the JSON Schema of the arguments of a tool, which are a struct of ours.
func schemaOf[T any]() json.RawMessage {
	s, err := jsonschema.For[T](&jsonschema.ForOptions{TypeSchemas: enumerated})
	if err != nil {
		panic(fmt.Sprintf("tools: the arguments %T have no schema: %v", *new(T), err))
	}
	for name, p := range s.Properties { // optional, and not null
		if len(p.Types) == 2 && p.Types[0] == "null" {
			s.Properties[name].Type, s.Properties[name].Types = p.Types[1], nil
		}
	}
	data, err := json.Marshal(s)
	if err != nil {
		panic(fmt.Sprintf("tools: the schema of %T: %v", *new(T), err))
	}
	return data
}
