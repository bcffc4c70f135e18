package openai

import (
	"fmt"

	"holon/agentd/model"
	"holon/agentd/model/endpoint"
	"holon/internal/providers"
	"holon/responses"
)

// input returns the conversation in the provider's items, as JSON. They have no ids: the provider stores nothing and
// refuses unknown ids. The client's types for items take five times as long to encode.
func (t *Transport) input(forms freeform, items []responses.Item) ([]byte, error) {
	c := conversation{provider: t.provider, forms: forms, answered: make(map[string]bool),
		items: make([]object, 0, len(items))}
	for _, item := range items {
		if o, ok := item.(*responses.FunctionCallOutput); ok {
			c.answered[o.CallID] = true
		}
	}
	for i, item := range items {
		if c.add(item); c.err != nil {
			return nil, endpoint.RefusedItem(i, c.err)
		}
	}
	if c.settle(); c.err != nil {
		return nil, endpoint.RefusedItem(len(items), c.err)
	}
	return endpoint.EncodeJSON(c.items)
}

// object is one in JSON.
type object map[string]any

type conversation struct {
	provider string
	forms    freeform
	answered map[string]bool // calls of the client's that have an output
	items    []object
	owed     []*responses.ToolCall // calls of one answer whose outputs are not added yet
	err      error                 // of the first item that the provider does not accept
}

// add adds an item. The calls of one answer come one after the other, followed by
// their outputs, in the provider's own order.
func (c *conversation) add(item responses.Item) {
	call, ok := item.(*responses.ToolCall)
	if n := len(c.owed); n == 0 || !ok || call.Round == "" || call.Round != c.owed[n-1].Round {
		c.settle()
	}
	if !ok {
		c.item(item)
		return
	}
	if text, ok := c.forms.text(call.Name, call.Arguments); ok {
		c.push(object{"type": customCall, "call_id": call.CallID, "name": call.Name, "input": text})
	} else {
		c.call(call.CallID, call.Name, call.Arguments)
	}
	c.owed = append(c.owed, call)
}

func (c *conversation) push(o object) { c.items = append(c.items, o) }

// settle adds the outputs of the calls that ran in the container.
func (c *conversation) settle() {
	for _, call := range c.owed {
		kind := responses.ItemFunctionCallOutput
		if _, ok := c.forms.text(call.Name, call.Arguments); ok {
			kind = "custom_tool_call_output"
		}
		c.output(kind, call.CallID, append([]responses.Part{responses.InputText(call.Output)}, call.Media...))
	}
	c.owed = nil
}

func (c *conversation) item(item responses.Item) {
	switch item := item.(type) {
	case *responses.Message:
		c.message(item)
	case *responses.FunctionCall:
		c.call(item.CallID, item.Name, item.Arguments)
		if !c.answered[item.CallID] {
			c.output(responses.ItemFunctionCallOutput, item.CallID,
				[]responses.Part{responses.InputText(endpoint.Unanswered)})
		}
	case *responses.FunctionCallOutput:
		c.output(responses.ItemFunctionCallOutput, item.CallID, item.Output)
	case *responses.Reasoning:
		// A provider that stored nothing can use a thought only in its encrypted form, or as it was thought.
		if own, ok := model.Unseal(c.provider, item.EncryptedContent); ok && own == rawThought {
			c.push(object{"type": responses.ItemReasoning, "id": item.ID, "summary": []any{}, "content": rawText(item)})
		} else if content := unseal(c.provider, item.EncryptedContent); content != "" {
			c.push(object{"type": responses.ItemReasoning, "encrypted_content": content, "summary": item.Summary})
		}
	case *responses.Compaction:
		c.push(object{"type": responses.ItemCompaction, "encrypted_content": item.EncryptedContent})
	case *responses.ItemReference:
		c.err = endpoint.Referred(item)
	}
}

// rawThought is the opaque content of a thought whose summary is its raw text.
const rawThought = "reasoning_text"

func rawText(item *responses.Reasoning) (content []any) {
	for _, p := range item.Summary {
		content = append(content, object{"type": responses.PartReasoningText, "text": p.Text})
	}
	return content
}

func (c *conversation) message(m *responses.Message) {
	if len(m.Content) == 0 {
		return // it was cut short before its first word
	}
	kind := responses.PartInputText
	if m.Role == responses.RoleAssistant {
		kind = responses.PartOutputText
	}
	out := object{"type": responses.ItemMessage, "role": m.Role, "content": c.parts(m.Content, kind)}
	if m.Phase != "" {
		out["phase"] = m.Phase
	}
	c.push(out)
}

func (c *conversation) call(id, name, arguments string) {
	c.push(object{"type": responses.ItemFunctionCall, "call_id": id, "name": name, "arguments": arguments})
}

// output adds the output of a call. A single text is a string, the form that every server of this API reads.
func (c *conversation) output(kind, callID string, output []responses.Part) {
	var content any = ""
	switch {
	case len(output) == 1 && isText(output[0]):
		content = output[0].Text
	case len(output) > 0:
		content = c.parts(output, responses.PartInputText)
	}
	c.push(object{"type": kind, "call_id": callID, "output": content})
}

// parts returns content in the provider's parts. Texts get the given type, which depends on the role of the message.
func (c *conversation) parts(list []responses.Part, text string) []any {
	out := make([]any, len(list))
	for i, p := range list {
		switch {
		case isText(p):
			out[i] = object{"type": text, "text": p.Text}
		case p.Type == responses.PartRefusal, p.Type == responses.PartInputImage, p.Type == responses.PartInputFile:
			out[i] = p
		default:
			c.err = fmt.Errorf("content of type %q cannot be sent to this provider; leave it out", p.Type)
		}
	}
	return out
}

func isText(p responses.Part) bool {
	switch p.Type {
	case responses.PartInputText, responses.PartOutputText, responses.PartText:
		return true
	}
	return false
}

// seal marks opaque reasoning with the provider that can read it. OpenAI's own is
// unchanged, so that clients may bring it from elsewhere.
func seal(provider, content string) string {
	if provider == providers.OpenAI || content == "" {
		return content
	}
	return model.Seal(provider, content)
}

// unseal returns opaque reasoning for its provider, "" for that of another.
func unseal(provider, content string) string {
	if provider != providers.OpenAI {
		if own, ok := model.Unseal(provider, content); ok {
			return own
		}
		return ""
	}
	if model.Sealed(content) {
		return ""
	}
	return content
}
