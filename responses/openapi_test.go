package responses_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"holon/responses"
)

// document loads the protocol's own OpenAPI document, which lies beside the
// module, or skips the test where it does not.
func document(t *testing.T) *openapi3.T {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			break
		} else if filepath.Dir(dir) == dir {
			t.Fatal("no go.mod above the test's directory")
		}
		dir = filepath.Dir(dir)
	}
	path := filepath.Join(dir, "..", "shared", "openresponses", "openapi.json")
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		t.Skipf("the OpenAPI document is absent: %s", path)
	}
	doc, err := openapi3.NewLoader().LoadFromFile(path)
	if err != nil {
		t.Fatalf("load %s: %v", path, err)
	}
	return doc
}

// eventSchemas maps each event type to its schema.
func eventSchemas(t *testing.T, doc *openapi3.T) map[string]*openapi3.Schema {
	t.Helper()
	schemas := make(map[string]*openapi3.Schema)
	for name, ref := range doc.Components.Schemas {
		if !strings.HasSuffix(name, "StreamingEvent") {
			continue
		}
		typ := ref.Value.Properties["type"].Value
		if len(typ.Enum) != 1 {
			t.Fatalf("%s has no single type: %v", name, typ.Enum)
		}
		schemas[typ.Enum[0].(string)] = ref.Value
	}
	return schemas
}

func validate(schema *openapi3.Schema, data []byte) error {
	var v any
	if err := json.Unmarshal(data, &v); err != nil {
		return err
	}
	return schema.VisitJSON(v, openapi3.EnableJSONSchema2020(), openapi3.MultiErrors())
}

func TestEventsFitTheOpenAPIDocument(t *testing.T) {
	schemas := eventSchemas(t, document(t))
	if len(schemas) != 24 {
		t.Fatalf("the document has %d events, want 24", len(schemas))
	}
	seen := make(map[string]bool)
	for name := range streams {
		for _, line := range record(t, name).lines {
			typ := responses.EventType(line)
			schema, ok := schemas[typ]
			if !ok {
				t.Fatalf("%s: the document has no event %q", name, typ)
			}
			if err := validate(schema, line); err != nil {
				t.Errorf("%s: %s\n%v", name, line, err)
			}
			seen[typ] = true
		}
	}
	delete(schemas, responses.EventError)
	for typ := range schemas {
		if !seen[typ] {
			t.Errorf("no stream shows %s", typ)
		}
	}
	// The check itself must be able to fail.
	if err := validate(schemas[responses.EventTextDelta],
		[]byte(`{"type":"response.output_text.delta","sequence_number":"1"}`)); err == nil {
		t.Error("a broken event was accepted")
	}
}

func TestResponsesFitTheOpenAPIDocument(t *testing.T) {
	doc := document(t)
	schema := doc.Components.Schemas["ResponseResource"].Value
	for _, body := range []string{
		`{}`,
		`{"tool_choice":{"type":"function","name":"f"},"tools":[{"type":"function","name":"f"}]}`,
		`{"tool_choice":{"type":"allowed_tools","tools":[{"type":"function","name":"f"}]}}`,
		`{"tool_choice":"required","reasoning":{},"max_output_tokens":20,"max_tool_calls":1,"metadata":{"a":"b"}}`,
		`{"text":{"format":{"type":"text"},"verbosity":"high"}}`,
		`{"text":{"format":{"type":"json_object"}}}`,
		`{"text":{"format":{"type":"json_schema","name":"n","description":"d","schema":{"type":"object"},"strict":true}}}`,
		`{"text":{"format":{"type":"json_schema"}}}`,
		`{"instructions":"i","previous_response_id":"resp_0","prompt_cache_key":"k","safety_identifier":"s","service_tier":"flex","truncation":"auto","background":true}`,
		`{"store":false,"reasoning":{"effort":"high","summary":"auto"}}`,
	} {
		r := responses.NewResponse("resp_1", "m", 1, request(t, body))
		b, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if err := validate(schema, b); err != nil {
			t.Errorf("echo of %s\n%s\n%v", body, b, err)
		}
	}
	// The check must be able to fail, deep within as well.
	broken, err := json.Marshal(responses.Response{ID: "resp_1", Object: "response", Status: "completed",
		Output: responses.Items{&responses.OpaqueItem{Raw: []byte(`{"type":"acme:x","id":"x"}`)}}})
	if err != nil {
		t.Fatal(err)
	}
	if validate(schema, broken) == nil {
		t.Error("a response with a foreign item was accepted")
	}
	items := doc.Components.Schemas["ItemField"].Value
	for _, item := range []responses.Item{
		&responses.Message{ID: "msg_1", Role: responses.RoleUser,
			Content: []responses.Part{responses.InputText("x"), {Type: responses.PartInputImage},
				{Type: responses.PartInputFile, FileName: "f"}}},
		&responses.FunctionCallOutput{ID: "fco_1", CallID: "c", Output: []responses.Part{responses.InputText("x")}},
		&responses.Compaction{ID: "cmp_1", EncryptedContent: "e"},
		&responses.Reasoning{ID: "rs_1"},
	} {
		b, err := json.Marshal(item)
		if err != nil {
			t.Fatal(err)
		}
		if err := validate(items, b); err != nil {
			t.Errorf("%s\n%v", b, err)
		}
	}
}
