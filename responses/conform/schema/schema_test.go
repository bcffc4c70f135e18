package schema_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"holon/responses/conform/schema"
)

func TestDocument(t *testing.T) {
	path := filepath.Join("..", "..", "..", "..", "shared", "openresponses", "openapi.json")
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		t.Skip("the OpenAPI document is absent: it belongs beside the repository, at " +
			"../shared/openresponses/openapi.json")
	}
	d, err := schema.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if d.Events() != 24 {
		t.Errorf("the document has %d events, want 24", d.Events())
	}
	delta := `{"type":"response.output_text.delta","sequence_number":1,"item_id":"msg_1","output_index":0,"content_index":0,"delta":"x","logprobs":[]}`
	for _, test := range []struct {
		event string
		ok    bool
	}{
		{delta, true},
		{`{"type":"response.output_text.delta","sequence_number":"1"}`, false},
		{`{"type":"acme:trace","sequence_number":1}`, false},
		{`{"type":"error","status":404,"error":{"code":"c","message":"m"}}`, true},
		{`{"type":"error","status":"404","error":{"code":"c","message":"m"}}`, false},
		{`{"type":"error","sequence_number":0,"error":{"type":"t","code":null,"message":"m","param":null}}`, true},
		{`[`, false},
	} {
		if err := d.Event([]byte(test.event)); (err == nil) != test.ok {
			t.Errorf("%s: %v", test.event, err)
		}
	}
	if err := d.Object("CompactResource", []byte(`{"object":"response.compaction"}`)); err == nil {
		t.Error("a compaction that lacks its output was accepted")
	}
	if err := d.Object("NoSuchThing", []byte(`{}`)); err == nil {
		t.Error("a component that the document does not have was accepted")
	}
}

func TestLoadRefusesOtherFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "empty.json")
	if err := os.WriteFile(path, []byte(
		`{"openapi":"3.1.0","info":{"title":"t","version":"1"},"paths":{},"components":{}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{path, path + ".missing"} {
		if _, err := schema.Load(path); err == nil {
			t.Errorf("%s was loaded", path)
		}
	}
}
