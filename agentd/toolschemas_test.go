package agentd_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http/httptest"
	"slices"
	"testing"

	"holon/agentd/config"
	"holon/responses"
	"holon/test/expect"
)

// TestToolSchemasOnTheWire holds the schemas of all tools of the container, as
// each provider is sent them, to the rules of both forms (runtime specification,
// "Provider Tool Schema Contract").
func TestToolSchemasOnTheWire(t *testing.T) {
	t.Parallel()
	for _, by := range []struct {
		name, ref, setting, schema string
		stream                     func(int, []string, recordedUsage) string
	}{
		{"responses", "openai/gpt-5", "OPENAI", "parameters", responsesRound},
		{"codex", "openai-codex/gpt-5", "OPENAI_CODEX", "parameters", responsesRound},
		{"chat", "lab/m", "LAB", "parameters", chatRound},
		{"anthropic", "anthropic/claude-opus-5", "ANTHROPIC", "input_schema", anthropicRound},
	} {
		for _, strict := range []bool{false, true} {
			t.Run(fmt.Sprint(by.name, " strict ", strict), func(t *testing.T) {
				p := &recorder{stream: by.stream}
				server := httptest.NewServer(p)
				t.Cleanup(server.Close)
				env := []string{"LAB_BASE_URL=" + server.URL, "OPENAI_CODEX_BASE_URL=" + server.URL,
					"OPENAI_CODEX_API_KEY=k", fmt.Sprint(by.setting, "_STRICT_TOOLS=", strict)}
				h := assembled(t, env, func(c *config.Config) {
					c.Models.Default, c.Models.OpenAIBaseURL, c.Models.OpenAIKey, c.Models.AnthropicBaseURL,
						c.Models.AnthropicKey = by.ref, server.URL,
						"sk-test", server.URL, "sk-test"
				})
				resp, err := responses.DecodeResponse(
					h.post(`{"input":"go","tools":[{"type":"function","name":"client","parameters":{"type":"object",` +
						`"properties":{"q":{"type":"string"}}}}]}`).body)
				if err != nil || resp.Status != responses.StatusCompleted {
					t.Fatalf("%+v %v", resp, err)
				}
				var body struct {
					Tools []map[string]json.RawMessage `json:"tools"`
				}
				expect.NoError(t, json.Unmarshal(p.bodies[0], &body))
				if len(body.Tools) < 6 {
					t.Fatalf("%d tools", len(body.Tools))
				}
				for _, tool := range body.Tools {
					if f := tool["function"]; f != nil {
						tool = nil
						expect.NoError(t, json.Unmarshal(f, &tool))
					}
					name, own := string(tool["name"]), string(tool["name"]) != `"client"`
					if flagged := string(tool["strict"]) == "true"; flagged != (strict && own) {
						t.Errorf("%s: strict is %s", name, tool["strict"])
					}
					var schema map[string]any
					if err := json.Unmarshal(tool[by.schema], &schema); err != nil {
						t.Fatalf("%s: %v", name, err)
					}
					if own {
						for _, wrong := range closed("", schema, strict) {
							t.Errorf("%s: %s", name, wrong)
						}
					}
				}
			})
		}
	}
}

// strictKeys are the keywords of the strict form.
var strictKeys = []string{"type", "description", "enum", "const", "properties", "required", "additionalProperties",
	"items", "pattern", "format", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minItems",
	"maxItems"}

// closed returns what in a schema breaks the rules of its form.
func closed(at string, schema map[string]any, strict bool) (wrong []string) {
	for key := range schema {
		if strict && !slices.Contains(strictKeys, key) {
			wrong = append(wrong, at+" has the keyword "+key)
		}
	}
	if items, ok := schema["items"].(map[string]any); ok {
		wrong = append(wrong, closed(at+"[]", items, strict)...)
	}
	properties, object := schema["properties"].(map[string]any)
	if !object {
		return wrong
	}
	if schema["additionalProperties"] != false {
		wrong = append(wrong, at+" takes other properties")
	}
	required := make(map[string]bool)
	list, _ := schema["required"].([]any)
	for _, name := range list {
		required[fmt.Sprint(name)] = true
	}
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		if strict && !required[name] {
			wrong = append(wrong, at+"."+name+" is not required")
		}
		property, ok := properties[name].(map[string]any)
		if !ok {
			return append(wrong, at+"."+name+" has no schema")
		}
		if property["description"] == nil {
			wrong = append(wrong, at+"."+name+" has no description")
		}
		types, nullable := property["type"].([]any)
		if enum, ok := property["enum"].([]any); ok && nullable && slices.Contains(types, any("null")) &&
			!slices.Contains(enum, nil) {
			wrong = append(wrong, at+"."+name+" may be null and its enum lacks it")
		}
		wrong = append(wrong, closed(at+"."+name, property, strict)...)
	}
	return wrong
}
