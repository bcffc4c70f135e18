package openai

import (
	"fmt"

	"holon/agentd/model"
	"holon/agentd/model/endpoint"
	"holon/internal/providers"
	"holon/responses"
)

// encodeInput returns the conversation as a list in JSON. Items have no ids: the
// provider stores nothing and refuses unknown ids.
func encodeInput(provider string, forms freeform, items []responses.Item) ([]byte, error) {
	answered := make(map[string]bool)
	for _, item := range items {
		if o, ok := item.(*responses.FunctionCallOutput); ok {
			answered[o.CallID] = true
		}
	}
	l := &list{provider: provider, forms: forms, buf: make([]byte, 0, 128*len(items))}
	l.open()
	for i, item := range items {
		if err := l.add(item, answered); err != nil {
			return nil, endpoint.RefusedItem(i, err)
		}
	}
	if err := l.settle(); err != nil {
		return nil, endpoint.RefusedItem(len(items), err)
	}
	l.shut()
	return l.buf, nil
}

// list is a JSON list under construction. It writes the few shapes of items by
// hand: a conversation is encoded again in every round, and encoding/json takes
// several times as long.
type list struct {
	provider string
	forms    freeform
	buf      []byte
	fresh    bool                  // the innermost open list is empty so far
	owed     []*responses.ToolCall // calls of one answer whose outputs are not written yet
}

func (l *list) open() { l.buf, l.fresh = append(l.buf, '['), true }
func (l *list) shut() { l.buf, l.fresh = append(l.buf, ']'), false }

// next separates an element from the one before.
func (l *list) next() {
	if !l.fresh {
		l.buf = append(l.buf, ',')
	}
	l.fresh = false
}

// begin opens an object of the given type.
func (l *list) begin(itemType string) {
	l.next()
	l.buf = append(append(append(l.buf, `{"type":"`...), itemType...), '"')
}

// str adds a key with a string.
func (l *list) str(key, value string) {
	l.key(key)
	l.buf = responses.AppendString(l.buf, value)
}

func (l *list) key(key string) {
	l.buf = append(append(append(l.buf, ',', '"'), key...), '"', ':')
}

func (l *list) close() { l.buf = append(l.buf, '}') }

// add writes an item. The calls of one answer come one after the other, followed by
// their outputs, in the provider's own order.
func (l *list) add(item responses.Item, answered map[string]bool) error {
	if err := l.settleBefore(item); err != nil {
		return err
	}
	call, ok := item.(*responses.ToolCall)
	if !ok {
		return l.item(item, answered)
	}
	if text, ok := l.forms.text(call.Name, call.Arguments); ok {
		l.call(itemCustomCall, call.CallID, call.Name, "input", text)
	} else {
		l.call(responses.ItemFunctionCall, call.CallID, call.Name, "arguments", call.Arguments)
	}
	l.owed = append(l.owed, call)
	return nil
}

// settleBefore writes the owed outputs unless item is another call of the same
// answer.
func (l *list) settleBefore(item responses.Item) error {
	call, ok := item.(*responses.ToolCall)
	if n := len(l.owed); n > 0 && ok && call.Round != "" && call.Round == l.owed[n-1].Round {
		return nil
	}
	return l.settle()
}

// settle writes the owed outputs.
func (l *list) settle() error {
	for _, call := range l.owed {
		if err := l.result(call); err != nil {
			return err
		}
	}
	l.owed = nil
	return nil
}

// result writes the output of a call that ran in the container.
func (l *list) result(call *responses.ToolCall) error {
	output := responses.ItemFunctionCallOutput
	if _, ok := l.forms.text(call.Name, call.Arguments); ok {
		output = itemCustomOutput
	}
	return l.output(output, call.CallID, append([]responses.Part{responses.InputText(call.Output)}, call.Media...))
}

func (l *list) item(item responses.Item, answered map[string]bool) error {
	switch item := item.(type) {
	case *responses.Message:
		return l.message(item)
	case *responses.FunctionCall:
		l.call(responses.ItemFunctionCall, item.CallID, item.Name, "arguments", item.Arguments)
		if !answered[item.CallID] {
			return l.output(responses.ItemFunctionCallOutput, item.CallID,
				[]responses.Part{responses.InputText(endpoint.Unanswered)})
		}
	case *responses.FunctionCallOutput:
		return l.output(responses.ItemFunctionCallOutput, item.CallID, item.Output)
	case *responses.Reasoning:
		// A provider that stored nothing can use a thought only in its encrypted form.
		content := unseal(l.provider, item.EncryptedContent)
		if content == "" {
			return nil
		}
		l.begin(responses.ItemReasoning)
		l.key("summary")
		if err := l.parts(item.Summary, ""); err != nil {
			return err
		}
		l.str("encrypted_content", content)
		l.close()
	case *responses.Compaction:
		l.begin(responses.ItemCompaction)
		l.str("encrypted_content", item.EncryptedContent)
		l.close()
	case *responses.ItemReference:
		return endpoint.Referred(item)
	}
	return nil
}

func (l *list) message(m *responses.Message) error {
	if len(m.Content) == 0 {
		return nil // it was cut short before its first word
	}
	l.begin(responses.ItemMessage)
	l.str("role", string(m.Role))
	text := responses.PartInputText
	if m.Role == responses.RoleAssistant {
		text = responses.PartOutputText
		if m.Phase != "" {
			l.str("phase", string(m.Phase))
		}
	}
	l.key("content")
	if err := l.parts(m.Content, text); err != nil {
		return err
	}
	l.close()
	return nil
}

// call adds a call whose text is under key.
func (l *list) call(itemType, callID, name, key, said string) {
	l.begin(itemType)
	l.str("call_id", callID)
	l.str("name", name)
	l.str(key, said)
	l.close()
}

// output adds the output of a call: a single text as a string, the form that every
// server of this API reads, and anything else as a list of parts.
func (l *list) output(itemType, callID string, output []responses.Part) error {
	l.begin(itemType)
	l.str("call_id", callID)
	switch {
	case len(output) == 0:
		l.str("output", "")
	case len(output) == 1 && isText(output[0]):
		l.str("output", output[0].Text)
	default:
		l.key("output")
		if err := l.parts(output, responses.PartInputText); err != nil {
			return err
		}
	}
	l.close()
	return nil
}

// parts adds a list of content. Texts get the given type, which depends on the role
// of the message; "" leaves every part as it is.
func (l *list) parts(parts []responses.Part, text string) error {
	l.open()
	for _, p := range parts {
		if err := l.part(p, text); err != nil {
			return err
		}
	}
	l.shut()
	return nil
}

func (l *list) part(p responses.Part, text string) error {
	if text != "" && isText(p) {
		l.begin(text)
		l.str("text", p.Text)
		l.close()
		return nil
	}
	switch {
	case text == "", p.Type == responses.PartRefusal, p.Type == responses.PartInputImage,
		p.Type == responses.PartInputFile:
	default:
		return fmt.Errorf("content of type %q cannot be sent to this provider; leave it out", p.Type)
	}
	raw, err := p.MarshalJSON()
	if err != nil {
		return err
	}
	l.next()
	l.buf = append(l.buf, raw...)
	return nil
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
