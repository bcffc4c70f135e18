package agentd

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"holon/agentd/record"
	"holon/responses"
)

// conversation is what came before a request, and all other items that it may
// refer to.
type conversation struct {
	items []responses.Item                        // before the input, in order
	find  func(id string) (responses.Item, error) // any stored item; record.ErrNotFound
	waits bool                                    // calls may go on waiting for their output: nothing is asked yet
	byID  map[string]responses.Item               // of items, made when it is needed
	input map[string]bool                         // ids in the resolved input so far
	open  map[string]bool                         // calls of the client's functions: whether they lack an output
}

// resolve checks the request's input against the conversation before it:
// references become the items they name, every call output must answer a call
// that exists, and every call handed to the client must be answered before
// anything else is asked (Open Responses, "previous_response_id").
//
// A reference may name an item of any stored response: some clients send the
// last answer as references and no previous_response_id. What the conversation
// holds already is not repeated.
func (c *conversation) resolve(input responses.Items) (responses.Items, error) {
	c.open, c.input = make(map[string]bool), make(map[string]bool)
	for _, item := range c.items {
		c.note(item)
	}
	resolved := make(responses.Items, 0, len(input))
	for i, item := range input {
		param := fmt.Sprintf("input[%d]", i)
		if ref, ok := item.(*responses.ItemReference); ok {
			known, err := c.refer(ref.ID)
			if errors.Is(err, record.ErrNotFound) {
				return nil, responses.NotFound(param+".id", responses.CodeItemNotFound, fmt.Sprintf("no stored item has the id %q; send the item itself", clipID(ref.ID)))
			}
			if err != nil {
				return nil, responses.Internal("the stored item cannot be read", err)
			}
			if known == nil {
				continue
			}
			item = known
		}
		if out, ok := item.(*responses.FunctionCallOutput); ok {
			if _, known := c.open[out.CallID]; !known {
				return nil, responses.Invalid(param+".call_id", responses.CodeCallNotFound, fmt.Sprintf("no function_call of this conversation has the call_id %q", clipID(out.CallID)))
			}
		}
		if cut, ok := item.(*responses.FunctionCall); ok && cut.Status == responses.ItemIncomplete {
			continue // a call that was cut short can't be answered; no conversation holds one
		}
		c.note(item)
		if id := item.ItemID(); id != "" {
			c.input[id] = true
		}
		resolved = append(resolved, item)
	}
	for _, callID := range slices.Sorted(maps.Keys(c.open)) {
		if c.open[callID] && !c.waits {
			return nil, responses.Invalid("input", responses.CodeMissingParameter, fmt.Sprintf("the function_call with call_id %q has no function_call_output", clipID(callID)))
		}
	}
	return resolved, nil
}

func (c *conversation) note(item responses.Item) {
	switch item := item.(type) {
	case *responses.FunctionCall:
		c.open[item.CallID] = true
	case *responses.FunctionCallOutput:
		c.open[item.CallID] = false
	}
}

// refer returns the item that a reference names, nil when the conversation
// holds it already.
func (c *conversation) refer(id string) (responses.Item, error) {
	if c.byID == nil {
		c.byID = make(map[string]responses.Item, len(c.items))
		for _, item := range c.items {
			c.byID[item.ItemID()] = item
		}
	}
	if _, known := c.byID[id]; known || c.input[id] {
		return nil, nil
	}
	return c.find(id)
}

// identify gives every item of the input that has no id one, so that a client
// can page through them and refer to them later.
func identify(items responses.Items) {
	for _, item := range items {
		if item.ItemID() != "" {
			continue
		}
		switch item := item.(type) {
		case *responses.Message:
			item.ID = responses.NewID(responses.PrefixMessage)
		case *responses.FunctionCall:
			item.ID = responses.NewID(responses.PrefixCall)
		case *responses.FunctionCallOutput:
			item.ID = responses.NewID(responses.PrefixCallOutput)
		case *responses.Reasoning:
			item.ID = responses.NewID(responses.PrefixReasoning)
		case *responses.Compaction:
			item.ID = responses.NewID(responses.PrefixCompaction)
		case *responses.ToolCall:
			item.ID = responses.NewID(responses.PrefixToolCall)
		}
	}
}

// clipID bounds an id from outside that goes into an error text.
func clipID(id string) string {
	if len(id) > 80 {
		return id[:80] + "…"
	}
	return id
}
