package openai

import (
	"encoding/json"
	"fmt"

	"github.com/openai/openai-go/v3/packages/param"
	sdk "github.com/openai/openai-go/v3/responses"

	"holon/agentd/model"
	"holon/agentd/model/endpoint"
	"holon/internal/providers"
	"holon/responses"
)

// input returns the conversation in the provider's items. They have no ids: the
// provider stores nothing and refuses unknown ids.
func (t *Transport) input(forms freeform, items []responses.Item) (sdk.ResponseInputParam, error) {
	c := conversation{provider: t.provider, forms: forms, answered: make(map[string]bool),
		items: make(sdk.ResponseInputParam, 0, len(items))}
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
	return c.items, nil
}

type conversation struct {
	provider string
	forms    freeform
	answered map[string]bool // calls of the client's that have an output
	items    sdk.ResponseInputParam
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
		c.items = append(c.items, sdk.ResponseInputItemParamOfCustomToolCall(call.CallID, text, call.Name))
	} else {
		c.items = append(c.items, sdk.ResponseInputItemParamOfFunctionCall(call.Arguments, call.CallID, call.Name))
	}
	c.owed = append(c.owed, call)
	return nil
}

// settle adds the outputs of the calls that ran in the container.
func (c *conversation) settle() error {
	for _, call := range c.owed {
		output := append([]responses.Part{responses.InputText(call.Output)}, call.Media...)
		add := c.output
		if _, ok := c.forms.text(call.Name, call.Arguments); ok {
			add = c.customOutput
		}
		if err := add(call.CallID, output); err != nil {
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
		c.items = append(c.items, sdk.ResponseInputItemParamOfFunctionCall(item.Arguments, item.CallID, item.Name))
		if !c.answered[item.CallID] {
			return c.output(item.CallID, []responses.Part{responses.InputText(endpoint.Unanswered)})
		}
	case *responses.FunctionCallOutput:
		return c.output(item.CallID, item.Output)
	case *responses.Reasoning:
		// A provider that stored nothing can use a thought only in its encrypted form.
		if content := unseal(c.provider, item.EncryptedContent); content != "" {
			c.reasoning(item, content)
		}
	case *responses.Compaction:
		c.items = append(c.items, sdk.ResponseInputItemParamOfCompaction(item.EncryptedContent))
	case *responses.ItemReference:
		return endpoint.Referred(item)
	}
	return nil
}

func (c *conversation) message(m *responses.Message) (err error) {
	if len(m.Content) == 0 {
		return nil // it was cut short before its first word
	}
	if m.Role == responses.RoleAssistant {
		out := &sdk.ResponseOutputMessageParam{Phase: sdk.ResponseOutputMessagePhase(m.Phase)}
		out.Content, err = parts[sdk.ResponseOutputMessageContentUnionParam](m.Content, responses.PartOutputText)
		c.items = append(c.items, sdk.ResponseInputItemUnionParam{OfOutputMessage: out})
		return err
	}
	in := &sdk.EasyInputMessageParam{Type: sdk.EasyInputMessageTypeMessage, Role: sdk.EasyInputMessageRole(m.Role)}
	in.Content.OfInputItemContentList, err = parts[sdk.ResponseInputContentUnionParam](m.Content,
		responses.PartInputText)
	c.items = append(c.items, sdk.ResponseInputItemUnionParam{OfMessage: in})
	return err
}

func (c *conversation) reasoning(r *responses.Reasoning, content string) {
	out := &sdk.ResponseReasoningItemParam{EncryptedContent: param.NewOpt(content),
		Summary: make([]sdk.ResponseReasoningItemSummaryParam, len(r.Summary))}
	for i, p := range r.Summary {
		out.Summary[i].Text = p.Text
	}
	out.SetExtraFields(map[string]any{"id": param.Omit})
	c.items = append(c.items, sdk.ResponseInputItemUnionParam{OfReasoning: out})
}

func (c *conversation) output(callID string, output []responses.Part) (err error) {
	out := &sdk.ResponseInputItemFunctionCallOutputParam{CallID: param.NewOpt(callID)}
	if text, ok := singleText(output); ok {
		out.Output.OfString = param.NewOpt(text)
	} else {
		out.Output.OfResponseFunctionCallOutputItemArray, err =
			parts[sdk.ResponseFunctionCallOutputItemUnionParam](output, responses.PartInputText)
	}
	c.items = append(c.items, sdk.ResponseInputItemUnionParam{OfFunctionCallOutput: out})
	return err
}

func (c *conversation) customOutput(callID string, output []responses.Part) (err error) {
	out := &sdk.ResponseCustomToolCallOutputParam{CallID: callID}
	if text, ok := singleText(output); ok {
		out.Output.OfString = param.NewOpt(text)
	} else {
		out.Output.OfOutputContentList, err =
			parts[sdk.ResponseCustomToolCallOutputOutputOutputContentListItemUnionParam](output, responses.PartInputText)
	}
	c.items = append(c.items, sdk.ResponseInputItemUnionParam{OfCustomToolCallOutput: out})
	return err
}

// singleText returns the text of an output that is nothing else. A string is the form
// of an output that every server of this API reads.
func singleText(output []responses.Part) (text string, ok bool) {
	if len(output) == 0 {
		return "", true
	}
	return output[0].Text, len(output) == 1 && isText(output[0])
}

// parts returns content as one of the API's four types for it, which have the same
// parts. Texts get the given type, which depends on the role of the message.
func parts[T param.ParamStruct, P param.InferPtr[T]](list []responses.Part, text string) ([]T, error) {
	out := make([]T, len(list))
	for i, p := range list {
		switch {
		case isText(p):
			out[i] = param.Override[T, P](map[string]string{"type": text, "text": p.Text})
		case p.Type == responses.PartRefusal, p.Type == responses.PartInputImage, p.Type == responses.PartInputFile:
			raw, err := p.MarshalJSON()
			if err != nil {
				return nil, err
			}
			out[i] = param.Override[T, P](json.RawMessage(raw))
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
