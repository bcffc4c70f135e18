package openai

import (
	"encoding/json"
	"strings"

	"holon/agentd/model"
	"holon/responses"
)

// Types of the API that only tools in free form have.
const (
	typeCustom       = "custom"
	itemCustomCall   = "custom_tool_call"
	itemCustomOutput = "custom_tool_call_output"
)

// freeform maps the tools of a request that the model calls in plain text to the
// argument that holds the text. Outside this package such a call is an ordinary
// one with arguments in JSON. A call of an earlier request is sent in the form
// that its tool has now, so that a conversation can change form and provider; as
// long as neither changes, the bytes stay the same.
type freeform map[string]string

// freeformOf returns the tools of req that are offered in free form.
func (t *Transport) freeformOf(req model.Request) freeform {
	if !t.Capabilities(req.Model).Freeform {
		return nil
	}
	forms := make(freeform)
	for _, tool := range req.Tools {
		if tool.Freeform != nil {
			forms[tool.Name] = tool.Freeform.Argument
		}
	}
	return forms
}

// takesGrammars reports whether a model may support tools in free form. OpenAI's
// models before the fifth generation do not.
func takesGrammars(name string) bool {
	name = name[strings.LastIndexByte(name, '/')+1:]
	for _, old := range []string{"gpt-3", "gpt-4", "gpt-oss", "chatgpt-"} {
		if strings.HasPrefix(name, old) {
			return false
		}
	}
	return len(name) < 2 || name[0] != 'o' || name[1] < '1' || '9' < name[1]
}

// text returns the plain text of a call; ok is false for a call that can only be
// sent in JSON.
func (f freeform) text(name, arguments string) (text string, ok bool) {
	argument, ok := f[name]
	if !ok {
		return "", false
	}
	var args map[string]*string
	if json.Unmarshal([]byte(arguments), &args) != nil || len(args) != 1 || args[argument] == nil {
		return "", false
	}
	return *args[argument], true
}

// choice returns a tool choice in the wire format.
func (f freeform) choice(c responses.ToolChoice) any {
	type tool struct {
		Type string `json:"type"`
		Name string `json:"name"`
	}
	named := func(name string) tool {
		if _, ok := f[name]; ok {
			return tool{typeCustom, name}
		}
		return tool{"function", name}
	}
	switch {
	case len(f) == 0:
		return c
	case c.Allowed != nil:
		allowed := make([]tool, len(c.Allowed))
		for i, name := range c.Allowed {
			allowed[i] = named(name)
		}
		mode := c.Mode
		if mode == "" {
			mode = "auto"
		}
		return struct {
			Type  string `json:"type"`
			Tools []tool `json:"tools"`
			Mode  string `json:"mode"`
		}{"allowed_tools", allowed, mode}
	case c.Name != "":
		return named(c.Name)
	}
	return c
}

// opening and closing are the JSON around the text of a call.
func (f freeform) opening(name string) string {
	argument, ok := f[name]
	if !ok {
		return ""
	}
	return `{"` + escaped(argument) + `":"`
}

const closing = `"}`

// escaped returns text as the inside of a JSON string. Escaping pieces of whole
// characters one by one gives the same as escaping the whole text.
func escaped(text string) string {
	quoted := responses.AppendString(nil, text)
	return string(quoted[1 : len(quoted)-1])
}
