package chat

import (
	"encoding/json"
	"fmt"

	"holon/responses"
)

// message is one of a request.
type message struct {
	Role       string          `json:"role"`
	Content    json.RawMessage `json:"content"` // a string, or parts
	Refusal    *string         `json:"refusal"`
	ToolCalls  []call          `json:"tool_calls"`
	ToolCallID string          `json:"tool_call_id"`
}

type call struct {
	Index    *int         `json:"index,omitempty"` // in a chunk
	ID       string       `json:"id,omitempty"`
	Type     string       `json:"type,omitempty"`
	Function callFunction `json:"function"`
}

type callFunction struct {
	Name      string `json:"name,omitempty"`
	Arguments string `json:"arguments"`
}

// part is one of the content of a message.
type part struct {
	Type     string `json:"type"`
	Text     string `json:"text"`
	Refusal  string `json:"refusal"`
	ImageURL struct {
		URL    string `json:"url"`
		Detail string `json:"detail"`
	} `json:"image_url"`
	File struct {
		FileData string `json:"file_data"`
		FileID   string `json:"file_id"`
		FileName string `json:"filename"`
	} `json:"file"`
}

// object is an item or a part of a response's input.
type object = map[string]any

// items are those of the input that a message is. param is its place.
func (m message) items(param string) ([]any, error) {
	switch m.Role {
	case "system", "developer", "user":
		content, err := m.parts(param, "input_text")
		return []any{object{"type": "message", "role": m.Role, "content": content}}, err
	case "assistant":
		return m.answer(param)
	case "tool":
		output, err := m.parts(param, "input_text")
		if len(m.Content) > 0 && m.Content[0] == '"' {
			return []any{object{"type": "function_call_output", "call_id": m.ToolCallID, "output": m.Content}}, nil
		}
		return []any{object{"type": "function_call_output", "call_id": m.ToolCallID, "output": output}}, err
	}
	return nil, responses.Invalid(param+".role", responses.CodeInvalidValue,
		fmt.Sprintf("the role must be system, developer, user, assistant or tool, not %.80q", m.Role))
}

// answer is a message of the assistant: what it said, then what it called.
func (m message) answer(param string) (items []any, err error) {
	content, err := m.parts(param, "output_text")
	if err != nil {
		return nil, err
	}
	if m.Refusal != nil && *m.Refusal != "" {
		content = append(content, object{"type": "refusal", "refusal": *m.Refusal})
	}
	if len(content) > 0 {
		items = append(items, object{"type": "message", "role": "assistant", "content": content})
	}
	for i, c := range m.ToolCalls {
		if c.Type != "" && c.Type != "function" {
			return nil, unsupported(fmt.Sprintf("%s.tool_calls[%d].type", param, i), "only functions are called")
		}
		items = append(items, object{"type": "function_call", "call_id": c.ID, "name": c.Function.Name,
			"arguments": c.Function.Arguments})
	}
	return items, nil
}

// parts maps the content of a message, whose texts are of type text.
func (m message) parts(param, text string) (content []any, err error) {
	param += ".content"
	if null(m.Content) {
		return nil, nil
	}
	if m.Content[0] == '"' {
		return []any{object{"type": text, "text": m.Content}}, nil
	}
	var list []part
	if err := json.Unmarshal(m.Content, &list); err != nil {
		return nil, responses.Invalid(param, responses.CodeInvalidValue, "the content must be a string or parts")
	}
	for i, p := range list {
		mapped, ok := p.mapped(text)
		if !ok {
			return nil, unsupported(fmt.Sprintf("%s[%d].type", param, i), fmt.Sprintf("%.80q is not read here", p.Type))
		}
		content = append(content, mapped)
	}
	return content, nil
}

func (p part) mapped(text string) (object, bool) {
	switch p.Type {
	case "text":
		return object{"type": text, "text": p.Text}, true
	case "refusal":
		return object{"type": "refusal", "refusal": p.Refusal}, true
	case "image_url":
		image := object{"type": "input_image", "image_url": p.ImageURL.URL}
		if p.ImageURL.Detail != "" {
			image["detail"] = p.ImageURL.Detail
		}
		return image, true
	case "file":
		file := object{"type": "input_file"}
		for key, value := range map[string]string{"file_data": p.File.FileData, "filename": p.File.FileName,
			"file_id": p.File.FileID} {
			if value != "" {
				file[key] = value
			}
		}
		return file, true
	}
	return nil, false
}
