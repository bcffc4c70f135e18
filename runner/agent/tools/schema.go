package tools

import (
	"reflect"

	"github.com/google/jsonschema-go/jsonschema"

	"holon/state/ledger"
)

// enumerated are the types of arguments that have few values.
var enumerated = map[reflect.Type]*jsonschema.Schema{
	reflect.TypeFor[ledger.Priority](): {Type: "string",
		Enum: []any{string(ledger.Next), string(ledger.Normal), string(ledger.Background)}},
	reflect.TypeFor[ledger.PlanStatus](): {Type: "string",
		Enum: []any{string(ledger.PlanDraft), string(ledger.PlanReady), string(ledger.PlanNeedsInput)}},
	reflect.TypeFor[ledger.TodoState](): {Type: "string",
		Enum: []any{string(ledger.TodoPending), string(ledger.TodoInProgress), string(ledger.TodoCompleted)}},
	reflect.TypeFor[ledger.TreeMode](): {Type: "string",
		Enum: []any{string(ledger.TreeDirect), string(ledger.TreeIsolated)}},
	reflect.TypeFor[nullable](): {Types: []string{"string", "null"}},
}
