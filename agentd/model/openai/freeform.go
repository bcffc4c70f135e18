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

// freeform names the tools of a request that the model calls in plain text, each
// with the argument that the text is. To all others such a call is an ordinary
// one: here, and only here, it is put into JSON and taken out again. A call of an
// earlier request is told in the form that its tool has now, so that a
// conversation can change its form and its provider; as long as neither changes,
// it is told in the same bytes.
type freeform map[string]string

// freeform returns the tools of req that are offered in free form.
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

// takesGrammars reports whether a model may know tools in free form. What is
// known not to is OpenAI's before the fifth generation.
func takesGrammars(name string) bool {
	name = name[strings.LastIndexByte(name, '/')+1:]
	for _, old := range []string{"gpt-3", "gpt-4", "gpt-oss", "chatgpt-"} {
		if strings.HasPrefix(name, old) {
			return false
		}
	}
	return len(name) < 2 || name[0] != 'o' || name[1] < '1' || '9' < name[1]
}

// text returns what a call said in plain text; ok is false for a call that can
// only be told in JSON.
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

// choice returns a tool choice in the provider's terms.
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

// escaped returns text as it stands within a JSON string. Of whole characters
// one after the other it is the same as of all at once.
func escaped(text string) string {
	quoted := responses.AppendString(nil, text)
	return string(quoted[1 : len(quoted)-1])
}
