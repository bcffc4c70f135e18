package responses

import (
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// DecodeItem reads one item as a client or a provider wrote it: a message may
// lack its type, an item_reference too, content may be a string, and ids and
// statuses may be missing or null (Open Responses, "Input items", and the
// habits of its clients). Unknown types become an *OpaqueItem. Errors are
// *Error values that name the key within the item.
func DecodeItem(data []byte) (Item, error) {
	var head itemHead
	if err := Unmarshal(data, &head); err != nil {
		return nil, err
	}
	item := head.item()
	if item == nil {
		return nil, Invalid("type", CodeMissingParameter, "an item needs a type, or a role and content")
	}
	if err := Unmarshal(data, item); err != nil {
		return nil, err
	}
	return item, item.settle()
}

// itemHead is what decides which item it is.
type itemHead struct {
	Type    string          `json:"type"`
	ID      string          `json:"id"`
	Role    Role            `json:"role"`
	Content json.RawMessage `json:"content"`
}

// item returns an item of the right type to decode into, inferred where clients leave the type out; nil without one.
func (h *itemHead) item() Item {
	switch {
	case h.Type == ItemMessage, h.Type == "" && h.Role != "":
		return &Message{}
	case h.Type == itemReference, h.Type == "" && h.ID != "" && isNull(h.Content):
		return &ItemReference{}
	}
	switch h.Type {
	case "":
		return nil
	case ItemFunctionCall:
		return &FunctionCall{}
	case ItemFunctionCallOutput:
		return &FunctionCallOutput{}
	case ItemReasoning:
		return &Reasoning{}
	case ItemCompaction:
		return &Compaction{}
	case ItemToolCall:
		return &ToolCall{}
	}
	return &OpaqueItem{}
}

func (m *Message) settle() error {
	textType := PartInputText
	switch m.Role {
	case RoleAssistant:
		textType = PartOutputText
	case "":
		return Invalid("role", CodeMissingParameter,
			"a message needs a role: user, assistant, system or developer")
	}
	err := firstError(checkWord("role", string(m.Role), "user", "assistant", "system", "developer"),
		checkWord("phase", string(m.Phase), "", string(PhaseCommentary), string(PhaseFinalAnswer)))
	if err != nil {
		return err
	}
	m.Status = done(m.Status)
	m.Content.settle(textType)
	return nil
}

func (c *FunctionCall) settle() error {
	c.Status = done(c.Status)
	if c.Name == "" {
		return firstError(checkCallID(c.CallID),
			Invalid("name", CodeMissingParameter, "a function_call needs the name of the function"))
	}
	return checkCallID(c.CallID)
}

func (o *FunctionCallOutput) settle() error {
	o.Status = done(o.Status)
	Parts(o.Output).settle(PartInputText)
	if o.Output == nil {
		return firstError(checkCallID(o.CallID),
			Invalid("output", CodeMissingParameter, "a function_call_output needs an output"))
	}
	return checkCallID(o.CallID)
}

func (r *Reasoning) settle() error {
	r.Status = done(r.Status)
	if len(r.Summary) == 1 && r.Summary[0].Type == "" {
		return Invalid("summary", CodeInvalidValue, "summary must be an array, not a string")
	}
	r.Content.settle(PartReasoningText)
	return nil
}

func (c *Compaction) settle() error {
	c.Status = done(c.Status)
	if c.EncryptedContent == "" {
		return Invalid("encrypted_content", CodeMissingParameter, "a compaction item needs encrypted_content")
	}
	return nil
}

func (r *ItemReference) settle() error {
	if r.ID == "" {
		return Invalid("id", CodeMissingParameter, "an item_reference needs the id of a stored item")
	}
	return nil
}

func (c *ToolCall) settle() error {
	c.Status = done(c.Status)
	if isNull(c.Result) {
		c.Result = nil
	}
	return nil
}

func (*OpaqueItem) settle() error { return nil }

// UnmarshalJSON keeps the item as it came.
func (i *OpaqueItem) UnmarshalJSON(data []byte) error {
	var head itemHead
	if err := Unmarshal(data, &head); err != nil {
		return err
	}
	raw := jsontext.Value(data).Clone()
	if err := raw.Compact(); err != nil {
		return fmt.Errorf("compact an item: %w", err)
	}
	*i = OpaqueItem{Type: head.Type, ID: head.ID, Raw: json.RawMessage(raw)}
	return nil
}

// MarshalJSON writes the item as it came.
func (i *OpaqueItem) MarshalJSON() ([]byte, error) { return i.Raw, nil }

func checkCallID(id string) error {
	if n := utf8.RuneCountInString(id); n < 1 || n > maxCallID {
		return Invalid("call_id", CodeInvalidValue,
			fmt.Sprintf("call_id must have 1 to %d characters, this has %d", maxCallID, n))
	}
	return nil
}

// done gives items that lack a status, as items of clients do, the one they have.
func done(s itemStatus) itemStatus {
	if s == "" {
		return ItemCompleted
	}
	return s
}

// MarshalText writes a status that is not set as completed.
func (s itemStatus) MarshalText() ([]byte, error) { return []byte(done(s)), nil }
