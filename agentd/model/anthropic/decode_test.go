package anthropic

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
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
		`{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"location\": \"San"}            }`,
		`{"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "Let me see\n"}}`,
	} {
		if _, d, ok := readDelta([]byte(ev)); !ok || d.Text+d.Thinking+d.PartialJSON == "" {
			t.Errorf("%s is left to the slow path", ev)
		}
	}
}
