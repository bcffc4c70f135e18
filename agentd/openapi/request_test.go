package openapi_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"holon/responses"
	"holon/test/expect"
)

// tolerated are requests on which decoder and schema may disagree, each with
// its reason. All other requests are refused by both or by none.
var tolerated = []struct {
	refused string // what the decoder says; the schema lets it pass
	why     string
}{
	{"is declared twice", "that names in a list differ cannot be said by a schema"},
	{"there are two items of type", "nor that call ids do"},
	{"can only be fetched when it is stored",
		"background needs store: what a value permits elsewhere is said in words"},
	{"an https URL", "nor what an address of content may be"},
	{"must be a data URL", "nor that"},
	{".type must be ", "the schema of a schema is not part of the document"},
}

// agree decodes a body and validates it.
func agree(doc interface {
	Object(component string, data []byte) error
}, component string, body any) (data []byte, refused, invalid error, ok bool) {
	data, err := json.Marshal(body)
	if err != nil {
		return nil, err, nil, false
	}
	_, refused = responses.DecodeRequest(data)
	invalid = doc.Object(component, data)
	if refused != nil && invalid == nil {
		for _, exception := range tolerated {
			if strings.Contains(refused.Error(), exception.refused) {
				return data, refused, invalid, true
			}
		}
	}
	return data, refused, invalid, (refused == nil) == (invalid == nil)
}

// Every key that our own requests can have is described.
func TestEncodedRequestsAreDescribed(t *testing.T) {
	req := &responses.Request{Model: "m", Input: responses.Items{responses.UserMessage("hi")},
		PreviousResponseID: "resp_1", Instructions: new("i"), Include: []string{responses.IncludeReasoning},
		Tools: []responses.Tool{{Name: "f"}}, ShowToolCalls: true,
		MCP: []responses.MCPTool{{Param: "tools[1]", Label: "l", URL: "https://x", AllowedTools: []string{"a"},
			Headers: map[string]string{"a": "b"}, Authorization: "t"}},
		ToolChoice: responses.ToolChoice{Mode: "auto", Name: "f", Allowed: []string{"f"}}, ParallelToolCalls: true,
		MaxToolCalls: new(1), MaxOutputTokens: new(1), Temperature: 1, TopP: 1, PresencePenalty: 1,
		FrequencyPenalty: 1, Sampling: responses.Sampling{Temperature: true, TopP: true, PresencePenalty: true,
			FrequencyPenalty: true}, TopLogprobs: 1,
		Reasoning: &responses.ReasoningConfig{Effort: new("low"), Summary: new("auto")},
		Text: responses.TextConfig{Format: responses.TextFormat{Type: "json_schema", Name: "n", Description: new("d"),
			Schema: json.RawMessage(`{}`), Strict: true}, Verbosity: "low"},
		Truncation: "auto", Stream: true, Background: true, Store: true, Metadata: map[string]string{"a": "b"},
		ServiceTier: "flex", PromptCacheKey: new("k"), SafetyIdentifier: new("s"),
		Holon: responses.Holon{SessionID: "s", TurnID: "t", InputDir: "/i", OutputDir: "/o", WorkspaceDir: "/w",
			AnchorDir: "/a", ResponseID: "resp_x",
			Isolation: "none", OnDisconnect: "continue", Skills: &[]string{"pdf"}, ModelFallbacks: []string{"a/b"},
			Reminder: &responses.Reminder{Text: "x", Rounds: 1, CooldownRounds: 1},
			Limits:   &responses.Limits{MaxRounds: 1, TimeoutMS: 1, MaxOutputBytes: 1}}, Digest: "d"}
	for _, v := range []any{*req, req.Holon, *req.Holon.Limits, *req.Holon.Reminder, req.MCP[0], req.Text.Format} {
		value := reflect.ValueOf(v)
		for field, f := range value.Fields() {
			if f.IsZero() && field.Name != "IgnoredTools" && field.Name != "NoModel" { // which are in tools, or not sent
				t.Errorf("%s.%s is not set: the test does not cover it", value.Type(), field.Name)
			}
		}
	}
	req.MCP = nil // to the schema a tool of another type, of which it describes no keys
	data, err := json.Marshal(req)
	expect.NoError(t, err)
	expect.NoError(t, strict(t).Object("CreateResponseBody", data))
}

// The decoder takes a body exactly if the schema of a request does: a random body
// that fits, and the same with one value changed.
func TestDecoderAndSchemaAgree(t *testing.T) {
	doc, schemas := lax(t), components(t)
	odd := []any{gone, nil, true, 0, -1, 21, 0.5, "", "x", "a b", "message", "function", "function_call",
		"item_reference", "reasoning", "acme:x", "holon:x", "holon:tool_calls", "holon:tool_call",
		strings.Repeat("a", 65), strings.Repeat("é", 64), strings.Repeat("a", 129), strings.Repeat("é", 513), []any{},
		[]any{nil}, []any{"x"}, map[string]any{}, map[string]any{"zzz": 1}, map[string]any{"type": "input_text"}}
	fitting, accepted, rejected := 0, 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		g := generator{rt, schemas}
		body := g.value(schemas["CreateResponseBody"], 0)
		data, refused, invalid, ok := agree(doc, "CreateResponseBody", body)
		if !ok {
			rt.Fatalf("decoder: %v\nschema: %v\n%s", refused, invalid, data)
		}
		if refused == nil {
			fitting++
		}
		all := places(body)
		changed := all[g.intn(len(all), "place")].put(rapid.SampledFrom(odd).Draw(rt, "value"))
		if isGone(changed) {
			return
		}
		data, refused, invalid, ok = agree(doc, "CreateResponseBody", changed)
		if !ok {
			rt.Fatalf("changed; decoder: %v\nschema: %v\n%s", refused, invalid, data)
		}
		if refused == nil {
			accepted++
		} else {
			rejected++
		}
	})
	t.Logf("%d bodies fit; of those with one value changed %d were accepted, %d refused", fitting, accepted, rejected)
	switch {
	case fitting == 0:
		t.Error("fitting = 0, want another value")
	case accepted == 0:
		t.Error("accepted = 0, want another value")
	case rejected == 0:
		t.Error("rejected = 0, want another value")
	}
}
