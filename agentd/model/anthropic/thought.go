package anthropic

import (
	"encoding/json"

	"holon/agentd/model"
)

// thought is a block of thinking as it was streamed. The API refuses a conversation
// in which it is not returned byte for byte, so it is stored in the opaque content
// of a reasoning item. The summary, which a client sees and may change, is never
// sent.
type thought struct {
	Type      string  `json:"type"` // thinking or redacted_thinking
	Thinking  *string `json:"thinking,omitempty"`
	Signature *string `json:"signature,omitempty"`
	Data      string  `json:"data,omitempty"`
}

// Types of blocks that hold thoughts.
const (
	typeThinking = "thinking"
	typeRedacted = "redacted_thinking"
)

// seal returns the opaque content for a thought of a provider's model.
func (t thought) seal(provider string) (string, error) {
	b, err := json.Marshal(t)
	return model.Seal(provider, string(b)), err
}

// unsealThought returns the block in opaque content. It is false for content of
// another provider and for anything else that a client may send.
func unsealThought(provider, sealed string) (block, bool) {
	content, ok := model.Unseal(provider, sealed)
	var t thought
	if !ok || json.Unmarshal([]byte(content), &t) != nil {
		return block{}, false
	}
	switch {
	case t.Type == typeThinking && t.Thinking != nil && t.Signature != nil:
		return block{Type: typeThinking, Thinking: t.Thinking, Signature: t.Signature}, true
	case t.Type == typeRedacted && t.Data != "":
		return block{Type: typeRedacted, Data: t.Data}, true
	}
	return block{}, false
}
