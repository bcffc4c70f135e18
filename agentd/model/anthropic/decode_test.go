package anthropic

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"holon/agentd/model"
	"holon/internal/providers"
)

// What the fast path accepts means the same to encoding/json.
func FuzzReadDelta(f *testing.F) {
	for _, seed := range []string{
		`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"h\u00e9llo"}}`,
		`{"type":"content_block_delta","index":12,"delta":{"type":"thinking_delta","thinking":"hm"}}`,
		`{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"a\":\n1}"}}`,
		` { "type" : "content_block_delta" , "index" : 1 , "delta" : { "type" : "text_delta" , "text" : "\ud83d" } } `,
		`{"type":"content_block_delta","index":01,"delta":{"type":"text_delta","text":"x"}}`,
		`{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"x"},"delta":null}`,
		"{\"type\":\"content_block_delta\",\"index\":1,\"delta\":{\"type\":\"text_delta\",\"text\":\"\xff\"}}",
		`{"type":"content_block_delta","index":1,"delta":{"type":"signature_delta","signature":"x"}}`,
		`{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"x`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		index, d, ok := readDelta(data)
		if !ok {
			return
		}
		var want wireEvent
		if err := json.Unmarshal(data, &want); err != nil {
			t.Fatalf("accepted %q: %v", data, err)
		}
		if diff := cmp.Diff(&wireEvent{Type: "content_block_delta", Index: index, Delta: &d}, &want); diff != "" {
			t.Fatalf("%q (-fast +slow):\n%s", data, diff)
		}
	})
}

func TestReadDeltaTakesOrdinaryEvents(t *testing.T) {
	for _, ev := range []string{
		`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hello"}}`,
		`{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta",` +
			`"partial_json":"{\"location\": \"San"}            }`,
		`{"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "Let me see\n"}}`,
	} {
		if _, d, ok := readDelta([]byte(ev)); !ok || d.Text+d.Thinking+d.PartialJSON == "" {
			t.Errorf("%s is left to the slow path", ev)
		}
	}
}

// Arguments, thoughts and signatures without end are refused.
func TestHugeBlocks(t *testing.T) {
	piece := strings.Repeat("x", 1<<20)
	for name, tt := range map[string]struct {
		block wireBlock
		piece wireDelta
	}{
		"arguments": {wireBlock{Type: typeToolUse, ID: "t", Name: "f"},
			wireDelta{Type: "input_json_delta", PartialJSON: model.WireText(piece)}},
		"thinking": {wireBlock{Type: typeThinking},
			wireDelta{Type: "thinking_delta", Thinking: model.WireText(piece)}},
		"signature": {wireBlock{Type: typeThinking}, wireDelta{Type: "signature_delta", Signature: piece}},
	} {
		a := newAssembly(providers.Anthropic, contractOf("claude-opus-5"), "", func(model.Event) bool { return true })
		if err := a.begin(0, &tt.block); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for range 16 {
			if err := a.delta(0, &tt.piece); err != nil {
				t.Fatalf("%s: 16 MiB are refused: %v", name, err)
			}
		}
		e, ok := errors.AsType[*model.Error](a.delta(0, &tt.piece))
		switch {
		case !ok:
			t.Errorf("%s: more than 16 MiB give %v, want a protocol error that names the bound", name, e)
		case e.Kind != model.KindProtocol:
			t.Errorf("%s: e.Kind = %q, want %q", name, e.Kind, model.KindProtocol)
		case !strings.Contains(e.Message, "16 MiB"):
			t.Errorf(`%s: e.Message = %q, want it to contain "16 MiB"`, name, e.Message)
		}
	}
}
