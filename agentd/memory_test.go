package agentd

import (
	"encoding/json"
	"testing"

	"holon/responses"
)

func TestWeight(t *testing.T) {
	t.Parallel()
	text := []responses.Part{responses.InputText("1234567890")}
	for name, item := range map[string]responses.Item{
		"a message": &responses.Message{Content: text}, "an output": &responses.FunctionCallOutput{Output: text},
		"a call":         &responses.FunctionCall{Arguments: "1234567890"},
		"a command":      &responses.ToolCall{Output: "1234567890"},
		"a thought":      &responses.Reasoning{EncryptedContent: "1234567890"},
		"an opaque item": &responses.OpaqueItem{Raw: json.RawMessage("1234567890")},
		"an image": &responses.Message{Content: []responses.Part{{Type: responses.PartInputImage,
			ImageURL: "1234567890"}}},
	} {
		if n := weight([]responses.Item{item}); n < 10+256 || n > 10+256+128 {
			t.Errorf("%s weighs %d", name, n)
		}
	}
}
