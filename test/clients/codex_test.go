package clients

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"holon/responses"
	"holon/responses/stream"
	"holon/test/expect"
)

// codex sends requests as Codex CLI does: the whole conversation each time, with reasoning items as they came and
// without ids, nothing stored, large instructions and many tools, of which some are of types that no server knows.
type codex struct {
	*testing.T
	server *server
	input  []any
}

// instructions are as long as those of Codex.
var instructions = strings.Repeat("You are a coding agent. Prefer rg to grep, and end with a summary.\n", 400)

// tools are functions, one with free text, and built-in ones.
func (c *codex) tools() []object {
	list := []object{
		{"type": "custom", "name": "apply_patch", "description": "Edits files.",
			"format": object{"type": "grammar", "syntax": "lark", "definition": "start: /.+/"}},
		{"type": "web_search", "external_web_access": false}, {"type": "local_shell"},
		{"type": "namespace", "name": "mcp__files", "description": "Files.", "tools": []object{}},
		{"type": "function", "name": "get_weather", "strict": false, "parameters": object{"type": "object",
			"properties": object{"city": object{"type": "string"}}, "required": []string{"city"}}},
	}
	for n := range 40 {
		list = append(list, object{"type": "function", "name": fmt.Sprint("mcp__files__tool_", n), "strict": false,
			"description": strings.Repeat("Does one thing to files. ", 20),
			"parameters": object{"type": "object", "additionalProperties": false,
				"properties": object{"path": object{"type": "string", "description": "of the file"}}}})
	}
	return list
}

// send sends what there is of the conversation and reads the answer as Codex does, which heeds response.created,
// output_item.done and response.completed alone. The items of the answer become part of the conversation.
func (c *codex) send(more ...any) (items []object) {
	c.Helper()
	c.input = append(c.input, more...)
	body, err := json.Marshal(object{"model": c.server.model, "instructions": instructions,
		"input": c.input, "tools": c.tools(), "tool_choice": "auto", "parallel_tool_calls": true, "store": false,
		"stream": true, "include": []string{"reasoning.encrypted_content"}, "prompt_cache_key": "0199-conversation",
		"reasoning": object{"effort": "medium", "summary": "auto"}, "text": object{"verbosity": "medium"},
		"client_metadata": object{"x-codex-installation-id": "1"}})
	expect.NoError(c, err)
	req, err := http.NewRequestWithContext(c.Context(), http.MethodPost, c.server.tcp+"/responses",
		strings.NewReader(string(body)))
	expect.NoError(c, err)
	for name, value := range map[string]string{"Authorization": "Bearer unused", "Content-Type": "application/json",
		"Accept": "text/event-stream", "originator": "codex_cli_rs", "session_id": "0199-conversation",
		"conversation_id": "0199-conversation", "User-Agent": "codex_cli_rs/0.50.0",
		"OpenAI-Beta": "responses=experimental"} {
		req.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(req)
	expect.NoError(c, err)
	defer resp.Body.Close()
	expect.Equal(c, "content type", resp.Header.Get("Content-Type"), "text/event-stream")
	completed := false
	for data, err := range stream.NewDecoder(resp.Body, stream.SSE).Limit(1 << 20).Events() {
		expect.NoError(c, err)
		var ev struct {
			Type     string
			Item     object
			Response struct {
				ID    string
				Usage *responses.Usage
			}
		}
		expect.NoError(c, json.Unmarshal(data, &ev))
		switch ev.Type {
		case responses.EventItemDone:
			items = append(items, ev.Item)
		case responses.EventCompleted:
			completed = ev.Response.ID != "" && ev.Response.Usage != nil
		}
	}
	if !completed || len(items) == 0 {
		c.Fatalf("completed %t, items %v", completed, items)
	}
	for _, item := range items {
		again := object{}
		for key, value := range item {
			if key != "id" && key != "status" {
				again[key] = value
			}
		}
		if item["type"] == "reasoning" { // which the scripted model does not seal
			again["encrypted_content"], again["content"] = "gAAAAABsealed", nil
		}
		c.input = append(c.input, again)
	}
	return items
}

func user(text string) object {
	return object{"type": "message", "role": "user", "content": []object{{"type": "input_text", "text": text}}}
}

// said is the text of the messages in an answer.
func said(items []object) string {
	text := ""
	for _, item := range items {
		parts, _ := item["content"].([]any)
		for _, part := range parts {
			if one, ok := part.(map[string]any); ok && item["type"] == "message" {
				text += fmt.Sprint(one["text"])
			}
		}
	}
	return text
}

// Codex CLI at the door of a daemon.
func TestCodexAtDoor(t *testing.T) {
	t.Parallel()
	onDoor(t, "clients", func(t *testing.T, s *server) {
		c := &codex{T: t, server: s}
		context := []any{object{"type": "message", "role": "developer", "content": []object{{"type": "input_text",
			"text": "<permissions>read-only</permissions>"}}},
			user("<environment_context><cwd>/src/app</cwd></environment_context>")}
		first := c.send(append(context, user("Say hello."))...)
		expect.Equal(t, "the first item", fmt.Sprint(first[0]["type"]), "reasoning")
		expect.Equal(t, "text", said(first), "Hello, Ada.")
		expect.Equal(t, "with reasoning sent again", said(c.send(user("Say it again."))), "You said then: Say it again.")

		c = &codex{T: t, server: s}
		called := c.send(append(context, user("Weather in Paris?"))...)
		call := called[len(called)-1]
		expect.Equal(t, "call", fmt.Sprint(call["type"], " ", call["name"]), "function_call get_weather")
		answer := c.send(object{"type": "function_call_output", "call_id": call["call_id"], "output": "Paris is sunny"})
		expect.Equal(t, "answer", said(answer), "The weather: Paris is sunny.")
	})
}
