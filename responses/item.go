package responses

import (
	stdjson "encoding/json"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Types of items (Open Responses, "Items") and our one extension item.
const (
	ItemMessage            = "message"
	ItemFunctionCall       = "function_call"
	ItemFunctionCallOutput = "function_call_output"
	ItemReasoning          = "reasoning"
	ItemCompaction         = "compaction"
	itemReference          = "item_reference"
	ItemToolCall           = "holon:tool_call"
)

// itemStatus is the life-cycle state of an item.
type itemStatus string

// Item states. Both of the last two are final; an incomplete item is the last
// item of an incomplete response.
const (
	ItemInProgress itemStatus = "in_progress"
	ItemCompleted  itemStatus = "completed"
	ItemIncomplete itemStatus = "incomplete"
)

// Role is the speaker of a message.
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

	// settle completes and checks what was decoded. It closes the set.
	settle() error
}

// constant is the "type" key of an item, which its Go type decides.
type constant[T Item] struct{}

// MarshalText writes the type.
func (constant[T]) MarshalText() ([]byte, error) {
	var item T
	return []byte(item.ItemType()), nil
}

// UnmarshalText takes any type: DecodeItem has looked at it.
func (constant[T]) UnmarshalText([]byte) error { return nil }

// Message is text or other content with a role.
type Message struct {
	Type    constant[*Message] `json:"type"`
	ID      string             `json:"id,omitzero"`
	Status  itemStatus         `json:"status"`
	Role    Role               `json:"role"`
	Phase   Phase              `json:"phase,omitzero"`
	Content Parts              `json:"content"`
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
	Type      constant[*FunctionCall] `json:"type"`
	ID        string                  `json:"id,omitzero"`
	CallID    string                  `json:"call_id"` // 1 to 64 characters, joins call and output
	Name      string                  `json:"name"`
	Arguments string                  `json:"arguments"` // JSON text as the model wrote it; may be malformed
	Status    itemStatus              `json:"status"`
}

// FunctionCallOutput is the client's answer to a FunctionCall.
type FunctionCallOutput struct {
	Type   constant[*FunctionCallOutput] `json:"type"`
	ID     string                        `json:"id,omitzero"`
	CallID string                        `json:"call_id"`
	Output Output                        `json:"output"`
	Status itemStatus                    `json:"status"`
}

// Reasoning is the model's thinking, in up to three views.
type Reasoning struct {
	Type             constant[*Reasoning] `json:"type"`
	ID               string               `json:"id,omitzero"`
	Status           itemStatus           `json:"status"`
	Summary          Parts                `json:"summary"`                     // summary_text parts, safe to show
	Content          Parts                `json:"content,omitempty"`           // reasoning_text parts
	EncryptedContent string               `json:"encrypted_content,omitempty"` // opaque to us
}

// Compaction replaces older context that was summarised.
type Compaction struct {
	Type             constant[*Compaction] `json:"type"`
	ID               string                `json:"id,omitzero"`
	Status           itemStatus            `json:"status"`
	EncryptedContent string                `json:"encrypted_content"`
}

// ItemReference stands in input for a stored item with the same id.
type ItemReference struct {
	Type constant[*ItemReference] `json:"type"`
	ID   string                   `json:"id"`
}

// ToolCall is the receipt of a tool that ran in the container, our extension
// item "holon:tool_call". The stored trajectory always holds it; a stream only
// when the request asked for it (include: "holon:tool_calls").
type ToolCall struct {
	Type      constant[*ToolCall] `json:"type"`
	ID        string              `json:"id,omitzero"`
	Status    itemStatus          `json:"status"`
	CallID    string              `json:"call_id"`
	Name      string              `json:"name"`
	Arguments string              `json:"arguments"`       // JSON text as the model wrote it
	Result    stdjson.RawMessage  `json:"result"`          // canonical result envelope of the tool
	Output    string              `json:"output"`          // what the model was shown
	Media     Parts               `json:"media,omitempty"` // images and files that it was shown with Output
	// Round identifies the model's answer that made the call; adjacent calls with the same Round were made together.
	Round string `json:"round,omitzero"`
	// ArtifactDir is the absolute directory that relative artifact paths in Result lie in.
	ArtifactDir string `json:"artifact_dir,omitzero"`
}

// InterruptedCall is the output of a call whose process ended before it did.
const InterruptedCall = "The agent process ended before this call returned. It may have had effects; look before " +
	"running it again."

// OpaqueItem is an item of a type that this package does not know. It is kept
// as it came so that a round trip loses nothing; models never see it.
type OpaqueItem struct {
	Type string
	ID   string
	Raw  stdjson.RawMessage
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
func (*ItemReference) ItemType() string { return itemReference }

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
func (l *Items) UnmarshalJSON(data []byte) error { return Unmarshal(data, (*[]Item)(l), decodeItems) }

// decodeItems makes the decoder read an Item with DecodeItem.
var decodeItems = json.WithUnmarshalers(json.UnmarshalFunc(func(data []byte, item *Item) (err error) {
	*item, err = DecodeItem(data)
	return err
}))

// MarshalJSON writes the list, [] when it is empty.
func (l Items) MarshalJSON() ([]byte, error) { return encode(l) }

// MarshalJSONTo is MarshalJSON for an encoder.
func (l Items) MarshalJSONTo(enc *jsontext.Encoder) error { return json.MarshalEncode(enc, []Item(l)) }
