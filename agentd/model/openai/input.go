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
		if err := c.add(item); err != nil {
			return nil, endpoint.RefusedItem(i, err)
		}
	}
	if err := c.settle(); err != nil {
		return nil, endpoint.RefusedItem(len(items), err)
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
}

// add adds an item. The calls of one answer come one after the other, followed by
// their outputs, in the provider's own order.
func (c *conversation) add(item responses.Item) error {
	call, ok := item.(*responses.ToolCall)
	if n := len(c.owed); n == 0 || !ok || call.Round == "" || call.Round != c.owed[n-1].Round {
		if err := c.settle(); err != nil {
			return err
		}
	}
	if !ok {
		return c.item(item)
	}
	if text, ok := c.forms.text(call.Name, call.Arguments); ok {
		c.items = append(c.items, object{"type": customCall, "call_id": call.CallID, "name": call.Name, "input": text})
	} else {
		c.call(call.CallID, call.Name, call.Arguments)
	}
	c.owed = append(c.owed, call)
	return nil
}

// settle adds the outputs of the calls that ran in the container.
func (c *conversation) settle() error {
	for _, call := range c.owed {
		kind := responses.ItemFunctionCallOutput
		if _, ok := c.forms.text(call.Name, call.Arguments); ok {
			kind = "custom_tool_call_output"
		}
		if err := c.output(kind, call.CallID, append([]responses.Part{responses.InputText(call.Output)},
			call.Media...)); err != nil {
			return err
		}
	}
	c.owed = nil
	return nil
}

func (c *conversation) item(item responses.Item) error {
	switch item := item.(type) {
	case *responses.Message:
		return c.message(item)
	case *responses.FunctionCall:
		c.call(item.CallID, item.Name, item.Arguments)
		if !c.answered[item.CallID] {
			return c.output(responses.ItemFunctionCallOutput, item.CallID,
				[]responses.Part{responses.InputText(endpoint.Unanswered)})
		}
	case *responses.FunctionCallOutput:
		return c.output(responses.ItemFunctionCallOutput, item.CallID, item.Output)
	case *responses.Reasoning:
		// A provider that stored nothing can use a thought only in its encrypted form.
		if content := unseal(c.provider, item.EncryptedContent); content != "" {
			c.items = append(c.items, object{"type": responses.ItemReasoning, "encrypted_content": content,
				"summary": item.Summary})
		}
	case *responses.Compaction:
		c.items = append(c.items, object{"type": responses.ItemCompaction, "encrypted_content": item.EncryptedContent})
	case *responses.ItemReference:
		return endpoint.Referred(item)
	}
	return nil
}

func (c *conversation) message(m *responses.Message) error {
	if len(m.Content) == 0 {
		return nil // it was cut short before its first word
	}
	kind := responses.PartInputText
	if m.Role == responses.RoleAssistant {
		kind = responses.PartOutputText
	}
	content, err := parts(m.Content, kind)
	if err != nil {
		return err
	}
	out := object{"type": responses.ItemMessage, "role": m.Role, "content": content}
	if m.Phase != "" {
		out["phase"] = m.Phase
	}
	c.items = append(c.items, out)
	return nil
}

func (c *conversation) call(id, name, arguments string) {
	c.items = append(c.items, object{"type": responses.ItemFunctionCall, "call_id": id, "name": name,
		"arguments": arguments})
}

// output adds the output of a call. A single text is a string, the form that every server of this API reads.
func (c *conversation) output(kind, callID string, output []responses.Part) (err error) {
	var content any = ""
	switch {
	case len(output) == 1 && isText(output[0]):
		content = output[0].Text
	case len(output) > 0:
		content, err = parts(output, responses.PartInputText)
	}
	c.items = append(c.items, object{"type": kind, "call_id": callID, "output": content})
	return err
}

// parts returns content in the provider's parts. Texts get the given type, which depends on the role of the message.
func parts(list []responses.Part, text string) ([]any, error) {
	out := make([]any, len(list))
	for i, p := range list {
		switch {
		case isText(p):
			out[i] = object{"type": text, "text": p.Text}
		case p.Type == responses.PartRefusal, p.Type == responses.PartInputImage, p.Type == responses.PartInputFile:
			out[i] = p
		default:
			return nil, fmt.Errorf("content of type %q cannot be sent to this provider; leave it out", p.Type)
		}
	}
	return out, nil
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
