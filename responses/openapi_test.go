package responses_test

import (
	"encoding/json"
	"testing"

	"holon/responses"
	"holon/test/conform/schema"
	"holon/test/expect"
)

// document is the protocol's own OpenAPI document.
func document(t *testing.T) *schema.Document {
	t.Helper()
	doc, err := schema.Official()
	expect.NoError(t, err)
	return doc
}

func TestResponsesFitTheOpenAPIDocument(t *testing.T) {
	doc := document(t)
	for _, body := range []string{
		`{}`,
		`{"tool_choice":{"type":"function","name":"f"},"tools":[{"type":"function","name":"f"}]}`,
		`{"tool_choice":{"type":"allowed_tools","tools":[{"type":"function","name":"f"}]}}`,
		`{"tool_choice":"required","reasoning":{},"max_output_tokens":20,"max_tool_calls":1,"metadata":{"a":"b"}}`,
		`{"text":{"format":{"type":"text"},"verbosity":"high"}}`,
		`{"text":{"format":{"type":"json_object"}}}`,
		`{"text":{"format":{"type":"json_schema","name":"n","description":"d","schema":{"type":"object"},` +
			`"strict":true}}}`,
		`{"text":{"format":{"type":"json_schema"}}}`,
		`{"instructions":"i","previous_response_id":"resp_0","prompt_cache_key":"k","safety_identifier":"s",` +
			`"service_tier":"flex","truncation":"auto","background":true}`,
		`{"store":false,"reasoning":{"effort":"high","summary":"auto"}}`,
	} {
		r := responses.NewResponse("resp_1", "m", 1, request(t, body))
		b, err := json.Marshal(r)
		expect.NoError(t, err)
		if err := doc.Object("ResponseResource", b); err != nil {
			t.Errorf("echo of %s: %v", body, err)
		}
	}
	// The check must be able to fail, deep within as well.
	broken, err := json.Marshal(responses.Response{ID: "resp_1", Object: "response", Status: "completed",
		Output: responses.Items{&responses.OpaqueItem{Raw: []byte(`{"type":"acme:x","id":"x"}`)}}})
	expect.NoError(t, err)
	if doc.Object("ResponseResource", broken) == nil {
		t.Error("a response with a foreign item was accepted")
	}
	for _, item := range []responses.Item{
		&responses.Message{ID: "msg_1", Role: responses.RoleUser,
			Content: []responses.Part{responses.InputText("x"), {Type: responses.PartInputImage},
				{Type: responses.PartInputFile, FileName: "f"}}},
		&responses.FunctionCallOutput{ID: "fco_1", CallID: "c", Output: []responses.Part{responses.InputText("x")}},
		&responses.Compaction{ID: "cmp_1", EncryptedContent: "e"},
		&responses.Reasoning{ID: "rs_1"},
	} {
		b, err := json.Marshal(item)
		expect.NoError(t, err)
		expect.NoError(t, doc.Object("ItemField", b))
	}
}
