package agentd

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"holon/agentd/compaction"
	"holon/agentd/record"
	"holon/responses"
)

// conversation is what came before a request, and all other items that it may
// refer to.
type conversation struct {
	items []responses.Item                        // before the input, in order
	find  func(id string) (responses.Item, error) // any stored item; record.ErrNotFound
	left  func(id string) (bool, error)           // whether it is of an answer that no later request has
	waits bool                                    // calls may go on waiting for their output: nothing is asked yet

	// accept refuses an item that the input only refers to; those that are in the
	// input were looked at before. It may be nil. param is the item's place.
	accept func(param string, item responses.Item) error

	byID  map[string]responses.Item // of items, made when it is needed
	input map[string]bool           // ids in the resolved input so far
	open  map[string]bool           // calls of the client's functions: whether they lack an output
	calls map[string]bool           // ids of all calls, the container's included
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
	c.open, c.input, c.calls = make(map[string]bool), make(map[string]bool), make(map[string]bool)
	for _, item := range c.items {
		c.note(item)
	}
	resolved := make(responses.Items, 0, len(input))
	for i, item := range input {
		param := fmt.Sprintf("input[%d]", i)
		idField := param + ".call_id"
		if ref, ok := item.(*responses.ItemReference); ok {
			idField = param + ".id"
			known, err := c.refer(param, ref.ID)
			if err != nil {
				return nil, err
			}
			if known == nil {
				continue
			}
			item = known
		}
		if left, err := c.left(item.ItemID()); err != nil {
			return nil, responses.Internal("the stored items cannot be read", err)
		} else if left {
			continue // it came back with the output that showed it
		}
		if cut, ok := item.(*responses.FunctionCall); ok && cut.Status == responses.ItemIncomplete {
			continue // a call that was cut short can't be answered; no conversation holds one
		}
		if err := c.pair(idField, item); err != nil {
			return nil, err
		}
		c.note(item)
		if id := item.ItemID(); id != "" {
			c.input[id] = true
		}
		resolved = append(resolved, item)
	}
	for _, callID := range slices.Sorted(maps.Keys(c.open)) {
		if c.open[callID] && !c.waits {
			return nil, responses.Invalid("input", responses.CodeMissingParameter,
				fmt.Sprintf("the function_call with call_id %q has no function_call_output", clipID(callID)))
		}
	}
	return resolved, nil
}

// pair refuses a call and an output that leave open what belongs together; field
// is where the item has its call_id. Stored items are not judged: no
// client could mend them.
func (c *conversation) pair(field string, item responses.Item) error {
	repeated := func(callID, hint string) error {
		e := responses.Invalid(field, responses.CodeInvalidValue,
			fmt.Sprintf("the call_id %q is used twice", clipID(callID)))
		e.Hint = hint
		return e
	}
	const leaveOut = "give each call an id of its own, and leave out what previous_response_id brings along"
	switch item := item.(type) {
	case *responses.FunctionCall:
		if c.calls[item.CallID] {
			return repeated(item.CallID, leaveOut)
		}
	case *responses.ToolCall:
		if c.calls[item.CallID] {
			return repeated(item.CallID, leaveOut)
		}
	case *responses.FunctionCallOutput:
		waits, known := c.open[item.CallID]
		if !known {
			return responses.Invalid(field, responses.CodeCallNotFound,
				fmt.Sprintf("no function_call of this conversation has the call_id %q", clipID(item.CallID)))
		}
		if !waits {
			return repeated(item.CallID, "the call has its output already; send each output once")
		}
	}
	return nil
}

func (c *conversation) note(item responses.Item) {
	switch item := item.(type) {
	case *responses.FunctionCall:
		c.open[item.CallID], c.calls[item.CallID] = true, true
	case *responses.ToolCall:
		c.calls[item.CallID] = true
	case *responses.FunctionCallOutput:
		c.open[item.CallID] = false
	}
}

// refer returns the item that the reference at param names, nil when the
// conversation holds it already, and for one that no conversation has (see record.Store.Item).
func (c *conversation) refer(param, id string) (responses.Item, error) {
	if c.byID == nil {
		c.byID = make(map[string]responses.Item, len(c.items))
		for _, item := range c.items {
			c.byID[item.ItemID()] = item
		}
	}
	if _, known := c.byID[id]; known || c.input[id] {
		return nil, nil
	}
	item, err := c.find(id)
	if err == nil && item == nil {
		return nil, nil
	}
	if errors.Is(err, record.ErrNotFound) || err == nil && compaction.IsStored(item) {
		return nil, responses.NotFound(param+".id", responses.CodeItemNotFound,
			fmt.Sprintf("no stored item has the id %q; send the item itself", clipID(id)))
	}
	if err != nil {
		return nil, responses.Internal("the stored item cannot be read", err)
	}
	if c.accept != nil {
		if err := c.accept(param, item); err != nil {
			return nil, err
		}
	}
	return item, nil
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
