package turn

import (
	"fmt"
	"slices"
	"strings"

	"holon/agentd/model"
	"holon/agentd/structured"
	"holon/agentd/tools"
	"holon/responses"
)

// Check refuses what a request asks for and no turn could do: a tool that is not
// there, a schema that cannot be checked, content that the model cannot be told.
// offered are the container's tools. Errors are *responses.Error values that
// name the field.
func Check(q *responses.Request, offered []tools.Definition, takes model.Capabilities) error {
	if err := checkChoice(q, offered); err != nil {
		return err
	}
	if _, err := structured.Compile(q.Text.Format); err != nil {
		return err
	}
	return checkMedia("input", q.Input, takes)
}

// CheckHistory refuses to go on with a conversation that holds content which the
// model cannot be told: it began with another model.
func CheckHistory(items []responses.Item, takes model.Capabilities) error {
	err := checkMedia("", items, takes)
	if err == nil {
		return nil
	}
	e := responses.Invalid("previous_response_id", responses.CodeInvalidValue,
		"the conversation cannot go on with this model: "+responses.AsError(err).Message)
	e.Hint = "name a model that takes it"
	return e
}

// checkChoice checks that the tools which tool_choice names are there. A name
// that stands for nothing would turn a limit into another one.
func checkChoice(q *responses.Request, offered []tools.Definition) error {
	var names []string
	for _, tool := range q.Tools {
		names = append(names, tool.Name)
	}
	for _, def := range offered {
		names = append(names, def.Name)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	unknown := func(param, name string) error {
		e := responses.Invalid(param, responses.CodeInvalidValue,
			fmt.Sprintf("there is no tool named %q", tools.Clip(name, 64)))
		e.Hint = "the tools of this request are " + tools.Clip(strings.Join(names, ", "), 500)
		return e
	}
	c := q.ToolChoice
	if c.Name != "" && !slices.Contains(names, c.Name) {
		return unknown("tool_choice.name", c.Name)
	}
	for i, name := range c.Allowed {
		if !slices.Contains(names, name) {
			return unknown(fmt.Sprintf("tool_choice.tools[%d].name", i), name)
		}
	}
	if c.Mode == "required" && len(names) == 0 {
		return responses.Invalid("tool_choice", responses.CodeInvalidValue,
			"a tool is required and there is none; declare one in tools")
	}
	return nil
}

// CheckReferred refuses an item that a request's input only refers to, at param,
// when the model cannot be told it.
func CheckReferred(param string, item responses.Item, takes model.Capabilities) error {
	err := checkItem(item, takes)
	if err == nil {
		return nil
	}
	e := responses.Invalid(param+".id", responses.CodeInvalidValue,
		"the item that is referred to does not fit: "+responses.AsError(err).Message)
	e.Hint = "leave it out, or name a model that takes it"
	return e
}

// checkMedia refuses items with content that the model cannot be told. The error
// names the part below param, as param[i].content[j].
func checkMedia(param string, items []responses.Item, takes model.Capabilities) error {
	for i, item := range items {
		if err := checkItem(item, takes); err != nil {
			e := *responses.AsError(err)
			e.Param = fmt.Sprintf("%s[%d]%s", param, i, e.Param)
			return &e
		}
	}
	return nil
}

// checkItem names the part as .content[j].
func checkItem(item responses.Item, takes model.Capabilities) error {
	key, parts := "content", []responses.Part(nil)
	switch item := item.(type) {
	case *responses.Message:
		parts = item.Content
	case *responses.FunctionCallOutput:
		key, parts = "output", item.Output
	case *responses.ToolCall:
		key, parts = "media", item.Media
	}
	for j, p := range parts {
		if takes.Take(p) {
			continue
		}
		e := responses.Invalid(fmt.Sprintf(".%s[%d]", key, j), responses.CodeInvalidValue,
			fmt.Sprintf("the model cannot be given content of type %s", p.Type))
		e.Hint = "leave it out, or name a model that takes it"
		return e
	}
	return nil
}
