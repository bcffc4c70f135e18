package agentd

import (
	"fmt"
	"maps"
	"slices"

	"holon/responses"
)

// resolveInput checks the request's input against the conversation before it:
// references become the items they name, every call output must answer a call
// that exists, and every call handed to the client must be answered before
// anything else is asked (Open Responses, "previous_response_id").
func resolveInput(history []responses.Item, input responses.Items) (responses.Items, error) {
	open := make(map[string]bool) // calls of the client's functions without an output
	byID := make(map[string]responses.Item)
	note := func(item responses.Item) {
		if id := item.ItemID(); id != "" {
			byID[id] = item
		}
		switch item := item.(type) {
		case *responses.FunctionCall:
			open[item.CallID] = true
		case *responses.FunctionCallOutput:
			open[item.CallID] = false
		}
	}
	for _, item := range history {
		note(item)
	}
	resolved := make(responses.Items, 0, len(input))
	for i, item := range input {
		param := fmt.Sprintf("input[%d]", i)
		if ref, ok := item.(*responses.ItemReference); ok {
			known, ok := byID[ref.ID]
			if !ok {
				return nil, responses.NotFound(param+".id", responses.CodeItemNotFound, fmt.Sprintf("no item of this conversation has the id %q", clipID(ref.ID)))
			}
			if slices.Contains(history, known) {
				continue // the conversation holds it already
			}
			item = known
		}
		if out, ok := item.(*responses.FunctionCallOutput); ok {
			if _, known := open[out.CallID]; !known {
				return nil, responses.Invalid(param+".call_id", responses.CodeCallNotFound, fmt.Sprintf("no function_call of this conversation has the call_id %q", clipID(out.CallID)))
			}
		}
		note(item)
		resolved = append(resolved, item)
	}
	for _, callID := range slices.Sorted(maps.Keys(open)) {
		if open[callID] {
			return nil, responses.Invalid("input", responses.CodeMissingParameter, fmt.Sprintf("the function_call with call_id %q has no function_call_output", clipID(callID)))
		}
	}
	return resolved, nil
}

// clipID bounds an id from outside that goes into an error text.
func clipID(id string) string {
	if len(id) > 80 {
		return id[:80] + "…"
	}
	return id
}
