package schema_test

import (
	"testing"

	"holon/test/conform/schema"
	"holon/test/expect"
)

func TestOfficial(t *testing.T) {
	d, err := schema.Official()
	expect.NoError(t, err)
	if got := len(d.Events()); got != 24 {
		t.Errorf("the document has %d events, want 24", got)
	}
	delta := `{"type":"response.output_text.delta","sequence_number":1,"item_id":"msg_1","output_index":0,` +
		`"content_index":0,"delta":"x","logprobs":[]}`
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
