package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"holon/agentd/tools"
	"holon/responses"
)

// Completes reports whether the tool is one of the host that completes the built-in one of its name.
func (t *tool) Completes() bool { return t.server.host && t.listed.completes }

// kindHostNotFound is the kind of the error with which the host says that it has no such task either.
const kindHostNotFound = "not_found"

// Complete asks the host for a task that is not of this container, and for the tasks that a list here does not have.
// The answers of the host have the form of the built-in tool's. Where the host does not answer, a list is as it is
// here.
func (t *tool) Complete(ctx context.Context, env tools.Env, c tools.Call, first tools.Output) tools.Output {
	lists := first.Error == nil
	if lists && !t.isList() || !lists && first.Error.Kind != tools.KindTaskNotFound {
		return first
	}
	answer, bad := t.ask(ctx, env, c)
	if bad == nil && answer.IsError {
		failed := t.output(answer, env)
		bad = failed.Error
	}
	switch {
	case bad != nil && (lists || bad.Kind == kindHostNotFound):
		return first
	case bad != nil:
		return tools.Fail(bad)
	}
	if lists {
		return join(first, encode(answer.StructuredContent))
	}
	return tools.Output{Summary: summary(answer.Meta), Result: json.RawMessage(encode(answer.StructuredContent))}
}

// isList reports whether the tool has no arguments: it lists.
func (t *tool) isList() bool {
	var schema struct {
		Properties map[string]any `json:"properties"`
	}
	return json.Unmarshal(t.listed.schema, &schema) == nil && len(schema.Properties) == 0
}

// join adds what the lists of an answer of the host have to those of an output.
func join(first tools.Output, more json.RawMessage) tools.Output {
	var lists map[string][]json.RawMessage
	if json.Unmarshal(more, &lists) != nil {
		return first
	}
	data, err := responses.Marshal(first.Result)
	var fields map[string]json.RawMessage
	omitted := 0
	if err != nil || json.Unmarshal(data, &fields) != nil ||
		fields["omitted"] != nil && json.Unmarshal(fields["omitted"], &omitted) != nil {
		return first
	}
	added := false
	for name, list := range lists {
		var all []json.RawMessage
		if json.Unmarshal(fields[name], &all) != nil || len(list) == 0 {
			continue
		}
		all = append(all, list...)
		fields[name], added = encode(all), true
		first.Summary = counted(len(all)+omitted, strings.TrimSuffix(name, "s"))
	}
	if !added {
		return first
	}
	first.Result = fields
	return first
}

// counted is the summary of a list, such as "2 tasks".
func counted(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}
