package responses

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Types of items (Open Responses, "Items") and our one extension item.
const (
	ItemMessage            = "message"
	ItemFunctionCall       = "function_call"
	ItemFunctionCallOutput = "function_call_output"
	ItemReasoning          = "reasoning"
	ItemCompaction         = "compaction"
	ItemReferenceType      = "item_reference"
	ItemToolCall           = "holon:tool_call"
)

// ItemStatus is the life-cycle state of an item.
type ItemStatus string

// Item states. Both of the last two are final; an incomplete item is the last
// item of an incomplete response.
const (
	ItemInProgress ItemStatus = "in_progress"
	ItemCompleted  ItemStatus = "completed"
	ItemIncomplete ItemStatus = "incomplete"
)

// Role says who speaks in a message.
type Role string

// The roles that a request may use.
const (
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
	RoleSystem    Role = "system"
	RoleDeveloper Role = "developer"
)

// Phase labels an assistant message as narration on the way or as the answer.
type Phase string

// The phases of an assistant message; "" is written as an absent key.
const (
	PhaseCommentary  Phase = "commentary"
	PhaseFinalAnswer Phase = "final_answer"
)

// Item is one element of input or output: *Message, *FunctionCall,
// *FunctionCallOutput, *Reasoning, *Compaction, *ItemReference, *ToolCall or
// *OpaqueItem. The set is closed; decoding gives nothing else.
type Item interface {
	// ItemType returns the value of the item's "type" key.
	ItemType() string
	// ItemID returns the item's id, "" when the client sent none.
	ItemID() string

	jsonAppender // closes the set
}

// Message is text or other content with a role.
type Message struct {
	ID      string
	Status  ItemStatus
	Role    Role
	Phase   Phase
	Content []Part
}

// Text returns the text parts of m, joined.
func (m *Message) Text() string {
	var b strings.Builder
	for _, p := range m.Content {
		b.WriteString(p.Text)
	}
	return b.String()
}

// FunctionCall asks the client to run one of its functions.
type FunctionCall struct {
	ID        string
	CallID    string // 1 to 64 characters, joins call and output
	Name      string
	Arguments string // JSON text as the model wrote it; may be malformed
	Status    ItemStatus
}

// FunctionCallOutput is the client's answer to a FunctionCall.
type FunctionCallOutput struct {
	ID     string
	CallID string
	Output []Part
	Status ItemStatus
}

// Reasoning is the model's thinking, in up to three views.
type Reasoning struct {
	ID               string
	Status           ItemStatus
	Summary          []Part // summary_text parts, safe to show
	Content          []Part // reasoning_text parts; written only when present
	EncryptedContent string // opaque to us; "" is written as an absent key
}

// Compaction replaces older context that was summarised.
type Compaction struct {
	ID               string
	Status           ItemStatus
	EncryptedContent string
}

// ItemReference stands in input for a stored item with the same id.
type ItemReference struct{ ID string }

// ToolCall is the receipt of a tool that ran in the container, our extension
// item "holon:tool_call". The stored trajectory always holds it; a stream only
// when the request asked for it (include: "holon:tool_calls").
type ToolCall struct {
	ID        string
	Status    ItemStatus
	CallID    string
	Name      string
	Arguments string          // JSON text as the model wrote it
	Result    json.RawMessage // canonical result envelope of the tool
	Output    string          // what the model was shown
	Media     []Part          // images and files that it was shown with Output; written only when present
	// Round identifies the model's answer that made the call; adjacent calls with the same Round were made
	// together. "" is written as an absent key.
	Round string
	// ArtifactDir is the absolute directory that relative artifact paths in Result lie in. "" is written as an absent
	// key.
	ArtifactDir string
}

// InterruptedCall is the output of a call whose process ended before it did.
const InterruptedCall = "The agent process ended before this call returned. It may have had effects; look before " +
	"running it again."

// OpaqueItem is an item of a type that this package does not know. It is kept
// as it came so that a round trip loses nothing; models never see it.
type OpaqueItem struct {
	Type string
	ID   string
	Raw  json.RawMessage
}

// ItemType returns "message".
func (*Message) ItemType() string { return ItemMessage }

// ItemType returns "function_call".
func (*FunctionCall) ItemType() string { return ItemFunctionCall }

// ItemType returns "function_call_output".
func (*FunctionCallOutput) ItemType() string { return ItemFunctionCallOutput }

// ItemType returns "reasoning".
func (*Reasoning) ItemType() string { return ItemReasoning }

// ItemType returns "compaction".
func (*Compaction) ItemType() string { return ItemCompaction }

// ItemType returns "item_reference".
func (*ItemReference) ItemType() string { return ItemReferenceType }

// ItemType returns "holon:tool_call".
func (*ToolCall) ItemType() string { return ItemToolCall }

// ItemType returns the type the item came with.
func (i *OpaqueItem) ItemType() string { return i.Type }

// ItemID returns the item's id.
func (m *Message) ItemID() string { return m.ID }

// ItemID returns the item's id, which differs from its call id.
func (c *FunctionCall) ItemID() string { return c.ID }

// ItemID returns the item's id, which differs from its call id.
func (o *FunctionCallOutput) ItemID() string { return o.ID }

// ItemID returns the item's id.
func (r *Reasoning) ItemID() string { return r.ID }

// ItemID returns the item's id.
func (c *Compaction) ItemID() string { return c.ID }

// ItemID returns the id of the item referred to.
func (r *ItemReference) ItemID() string { return r.ID }

// ItemID returns the item's id, which differs from its call id.
func (c *ToolCall) ItemID() string { return c.ID }

// ItemID returns the item's id.
func (i *OpaqueItem) ItemID() string { return i.ID }

// Items is a list of items that decodes element by element, so that an error
// names its index.
type Items []Item

// UnmarshalJSON reads a list of items with DecodeItem.
func (l *Items) UnmarshalJSON(data []byte) error {
	var raws []json.RawMessage
	if err := unmarshal(data, &raws); err != nil {
		return decodeError("", err)
	}
	items := make(Items, 0, len(raws))
	for i, raw := range raws {
		item, err := DecodeItem(raw)
		if err != nil {
			return within(fmt.Sprintf("[%d]", i), err)
		}
		items = append(items, item)
	}
	*l = items
	return nil
}

// MarshalJSON writes the list, [] when it is empty.
func (l Items) MarshalJSON() ([]byte, error) { return appendList(nil, l) }
