package openai

import (
	"fmt"

	"holon/agentd/model"
	"holon/responses"
)

// The items of a conversation as the provider is told them. None has an id: the
// provider stores nothing of ours and refuses ids that it does not know.
type (
	wireMessage struct {
		Type    string          `json:"type"`
		Role    responses.Role  `json:"role"`
		Phase   responses.Phase `json:"phase,omitempty"`
		Content []any           `json:"content"`
	}
	wireCall struct {
		Type      string `json:"type"`
		CallID    string `json:"call_id"`
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	}
	wireOutput struct {
		Type   string `json:"type"`
		CallID string `json:"call_id"`
		Output any    `json:"output"` // a string or parts
	}
	wireThought struct {
		Type             string           `json:"type"`
		Summary          []responses.Part `json:"summary"`
		EncryptedContent string           `json:"encrypted_content"`
	}
	wireCompaction struct {
		Type             string `json:"type"`
		EncryptedContent string `json:"encrypted_content"`
	}
	wireTextPart struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
)

// unanswered is told to the model in the place of an output that never came:
// the API refuses a call without one, and then the conversation would be stuck.
const unanswered = "There is no output: the call was not answered."

// encodeInput returns the conversation in the provider's terms.
func encodeInput(provider string, items []responses.Item) ([]any, error) {
	answered := make(map[string]bool)
	for _, item := range items {
		if o, ok := item.(*responses.FunctionCallOutput); ok {
			answered[o.CallID] = true
		}
	}
	list := make([]any, 0, len(items)+8)
	for i, item := range items {
		var err error
		switch item := item.(type) {
		case *responses.Message:
			list, err = appendMessage(list, item)
		case *responses.ToolCall:
			var w wireOutput
			w, err = encodeOutput(item.CallID, append([]responses.Part{responses.InputText(item.Output)}, item.Media...))
			list = append(list, wireCall{responses.ItemFunctionCall, item.CallID, item.Name, item.Arguments}, w)
		case *responses.FunctionCall:
			list = append(list, wireCall{responses.ItemFunctionCall, item.CallID, item.Name, item.Arguments})
			if !answered[item.CallID] {
				list = append(list, wireOutput{responses.ItemFunctionCallOutput, item.CallID, unanswered})
			}
		case *responses.FunctionCallOutput:
			var w wireOutput
			w, err = encodeOutput(item.CallID, item.Output)
			list = append(list, w)
		case *responses.Reasoning:
			// Without its encrypted form a thought means nothing to a provider that
			// stored none.
			if content := unseal(provider, item.EncryptedContent); content != "" {
				list = append(list, wireThought{responses.ItemReasoning, nonNil(item.Summary), content})
			}
		case *responses.Compaction:
			list = append(list, wireCompaction{responses.ItemCompaction, item.EncryptedContent})
		case *responses.ItemReference:
			err = fmt.Errorf("the item %.64q is only referred to, not given", item.ID)
		}
		if err != nil {
			return nil, &model.Error{Kind: model.KindInvalidRequest, Code: responses.CodeInvalidValue, Message: fmt.Sprintf("item %d of the conversation: %v", i, err)}
		}
	}
	return list, nil
}

func nonNil(parts []responses.Part) []responses.Part {
	if parts == nil {
		return []responses.Part{}
	}
	return parts
}

func appendMessage(list []any, m *responses.Message) ([]any, error) {
	w := wireMessage{Type: responses.ItemMessage, Role: m.Role, Content: make([]any, 0, len(m.Content))}
	text := responses.PartInputText
	if m.Role == responses.RoleAssistant {
		text, w.Phase = responses.PartOutputText, m.Phase
	}
	for _, p := range m.Content {
		part, err := encodePart(p, text)
		if err != nil {
			return nil, err
		}
		w.Content = append(w.Content, part)
	}
	if len(w.Content) == 0 {
		return list, nil // a message that was cut short before its first word
	}
	return append(list, w), nil
}

// encodeOutput returns what a call gave: text alone as a string, the form that
// every server of this API reads, else a list of parts.
func encodeOutput(callID string, output []responses.Part) (wireOutput, error) {
	w := wireOutput{Type: responses.ItemFunctionCallOutput, CallID: callID}
	switch {
	case len(output) == 0:
		w.Output = ""
	case len(output) == 1 && isText(output[0]):
		w.Output = output[0].Text
	default:
		parts := make([]any, len(output))
		for i, p := range output {
			var err error
			if parts[i], err = encodePart(p, responses.PartInputText); err != nil {
				return w, err
			}
		}
		w.Output = parts
	}
	return w, nil
}

func isText(p responses.Part) bool {
	switch p.Type {
	case responses.PartInputText, responses.PartOutputText, responses.PartText:
		return true
	}
	return false
}

// encodePart returns a content part. Which type a text has depends on who
// speaks, whatever it was sent as.
func encodePart(p responses.Part, text string) (any, error) {
	switch {
	case isText(p):
		return wireTextPart{text, p.Text}, nil
	case p.Type == responses.PartRefusal, p.Type == responses.PartInputImage, p.Type == responses.PartInputFile:
		return p, nil
	}
	return nil, fmt.Errorf("content of type %q cannot be sent to this provider; leave it out", p.Type)
}

// seal marks opaque reasoning with the provider that can read it. OpenAI's own
// stays as it is, so that clients may bring it from elsewhere.
func seal(provider, content string) string {
	if provider == openAI || content == "" {
		return content
	}
	return model.Seal(provider, content)
}

// unseal returns opaque reasoning for its provider, "" for what is another's.
func unseal(provider, content string) string {
	if provider != openAI {
		content, _ = model.Unseal(provider, content)
		return content
	}
	if model.Sealed(content) {
		return ""
	}
	return content
}
