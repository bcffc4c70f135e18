package anthropic

import (
	"errors"
	"strings"
	"testing"

	"holon/agentd/model"
	"holon/internal/providers"
	"holon/test/expect"
)

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
		a.begin(0, &tt.block)
		for range 16 {
			a.delta(0, &tt.piece)
		}
		expect.NoError(t, a.queue.Err())
		a.delta(0, &tt.piece)
		e, ok := errors.AsType[*model.Error](a.queue.Err())
		if !ok {
			t.Fatalf("%s: more than 16 MiB give %v, want a protocol error that names the bound", name, e)
		}
		expect.Equal(t, name+": e.Kind", e.Kind, model.KindProtocol)
		expect.Contains(t, name+": e.Message", e.Message, "16 MiB")
	}
}
