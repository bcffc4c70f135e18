package chat

import (
	"encoding/base64"
	"encoding/json"
	"strings"

	"holon/responses"
)

// seal is stored with a reasoning item in addition to its text, which is the item's
// summary: the key of the text, and the provider's details, which hold signatures
// and encrypted content.
type seal struct {
	Key     string            `json:"k,omitempty"` // reasoning_content or reasoning
	Details []json.RawMessage `json:"d,omitempty"` // reasoning_details, as they came
	Extra   json.RawMessage   `json:"x,omitempty"` // extra_content of the first call that follows
}

// encode returns the opaque form, "" when there is nothing to store.
func (s seal) encode() string {
	if s.Key == "" && len(s.Details) == 0 && len(s.Extra) == 0 {
		return ""
	}
	b, err := json.Marshal(s)
	if err != nil { // raw JSON that was decoded before
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

// openSeal is the inverse of encode. ok is false for content that a client changed.
func openSeal(text string) (s seal, ok bool) {
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || responses.CheckDepth(b) != nil || json.Unmarshal(b, &s) != nil {
		return seal{}, false
	}
	switch s.Key {
	case "", keyContent, keyReasoning:
		return s, true
	}
	return seal{}, false
}

// Keys for the text of reasoning.
const (
	keyContent   = "reasoning_content"
	keyReasoning = "reasoning"
)

// thoughtText is the text of a reasoning item.
func thoughtText(r *responses.Reasoning) string {
	parts := r.Summary
	if len(parts) == 0 {
		parts = r.Content
	}
	var b strings.Builder
	for i, p := range parts {
		if i > 0 {
			b.WriteString("\n\n")
		}
		b.WriteString(p.Text)
	}
	return b.String()
}
