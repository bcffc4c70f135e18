package openai

import (
	"bytes"
	"cmp"
	"encoding/json"
	"strings"

	"github.com/openai/openai-go/v3/packages/param"
	sdk "github.com/openai/openai-go/v3/responses"

	"holon/agentd/model"
	"holon/agentd/model/endpoint"
	"holon/responses"
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

// choice returns a tool choice in the provider's form.
func (f freeform) choice(c responses.ToolChoice) (out sdk.ResponseNewParamsToolChoiceUnion) {
	mode := cmp.Or(c.Mode, "auto")
	_, custom := f[c.Name]
	switch {
	case c.Allowed != nil:
		allowed := &sdk.ToolChoiceAllowedParam{Mode: sdk.ToolChoiceAllowedMode(mode), Tools: []map[string]any{}}
		for _, name := range c.Allowed {
			kind := "function"
			if _, custom := f[name]; custom {
				kind = "custom"
			}
			allowed.Tools = append(allowed.Tools, map[string]any{"type": kind, "name": name})
		}
		out.OfAllowedTools = allowed
	case custom:
		out.OfCustomTool = &sdk.ToolChoiceCustomParam{Name: c.Name}
	case c.Name != "":
		out.OfFunctionTool = &sdk.ToolChoiceFunctionParam{Name: c.Name}
	default:
		out.OfToolChoiceMode = param.NewOpt(sdk.ToolChoiceOptions(mode))
	}
	return out
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
	quoted, _ := endpoint.EncodeJSON(text) // a string always has a form
	return string(bytes.Trim(quoted, "\n")[1 : len(quoted)-2])
}
