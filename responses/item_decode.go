package responses

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// DecodeItem reads one item as a client or a provider wrote it: a message may
// lack its type, an item_reference too, content may be a string, and ids and
// statuses may be missing or null (Open Responses, "Input items", and the
// habits of its clients). Unknown types become an *OpaqueItem. Errors are
// *Error values that name the key within the item.
func DecodeItem(data []byte) (Item, error) {
	var w wireItem
	if err := unmarshal(data, &w); err != nil {
		return nil, decodeError("", err)
	}
	w.Status = done(w.Status)
	switch w.kind() {
	case ItemMessage:
		return w.message()
	case ItemFunctionCall:
		return w.functionCall()
	case ItemFunctionCallOutput:
		return w.functionCallOutput()
	case ItemReasoning:
		return w.reasoning()
	case ItemCompaction:
		if w.EncryptedContent == "" {
			return nil, Invalid("encrypted_content", CodeMissingParameter, "a compaction item needs encrypted_content")
		}
		return &Compaction{ID: w.ID, Status: w.Status, EncryptedContent: w.EncryptedContent}, nil
	case ItemReferenceType:
		if w.ID == "" {
			return nil, Invalid("id", CodeMissingParameter, "an item_reference needs the id of a stored item")
		}
		return &ItemReference{ID: w.ID}, nil
	case ItemToolCall:
		return w.toolCall()
	case "":
		return nil, Invalid("type", CodeMissingParameter, "an item needs a type, or a role and content")
	}
	return w.opaque(data)
}

// wireItem has the keys of all item types.
type wireItem struct {
	Type             string          `json:"type"`
	ID               string          `json:"id"`
	Status           ItemStatus      `json:"status"`
	Role             Role            `json:"role"`
	Phase            Phase           `json:"phase"`
	Content          json.RawMessage `json:"content"`
	CallID           string          `json:"call_id"`
	Name             string          `json:"name"`
	Arguments        string          `json:"arguments"`
	Output           json.RawMessage `json:"output"`
	Result           json.RawMessage `json:"result"`
	Round            json.RawMessage `json:"round"`
	ArtifactDir      json.RawMessage `json:"artifact_dir"`
	Media            json.RawMessage `json:"media"`
	Summary          json.RawMessage `json:"summary"`
	EncryptedContent string          `json:"encrypted_content"`
}

// kind returns the item's type, inferred where clients leave it out.
func (w *wireItem) kind() string {
	switch {
	case w.Type != "":
		return w.Type
	case w.Role != "":
		return ItemMessage
	case w.ID != "" && isNull(w.Content):
		return ItemReferenceType
	}
	return ""
}

func (w *wireItem) message() (Item, error) {
	textType := PartInputText
	switch w.Role {
	case RoleUser, RoleSystem, RoleDeveloper:
	case RoleAssistant:
		textType = PartOutputText
	case "":
		return nil, Invalid("role", CodeMissingParameter,
			"a message needs a role: user, assistant, system or developer")
	default:
		return nil, Invalid("role", CodeInvalidValue,
			fmt.Sprintf("role must be user, assistant, system or developer, not %q", clip(string(w.Role), 32)))
	}
	switch w.Phase {
	case "", PhaseCommentary, PhaseFinalAnswer:
	default:
		return nil, Invalid("phase", CodeInvalidValue,
			fmt.Sprintf("phase must be commentary or final_answer, not %q", clip(string(w.Phase), 32)))
	}
	content, err := decodeContent(w.Content, textType)
	if err != nil {
		return nil, within("content", err)
	}
	return &Message{ID: w.ID, Status: w.Status, Role: w.Role, Phase: w.Phase, Content: content}, nil
}

func (w *wireItem) functionCall() (Item, error) {
	if err := checkCallID(w.CallID); err != nil {
		return nil, err
	}
	if w.Name == "" {
		return nil, Invalid("name", CodeMissingParameter, "a function_call needs the name of the function")
	}
	return &FunctionCall{ID: w.ID, CallID: w.CallID, Name: w.Name, Arguments: w.Arguments, Status: w.Status}, nil
}

func (w *wireItem) functionCallOutput() (Item, error) {
	if err := checkCallID(w.CallID); err != nil {
		return nil, err
	}
	if isNull(w.Output) {
		return nil, Invalid("output", CodeMissingParameter, "a function_call_output needs an output")
	}
	output, err := decodeContent(w.Output, PartInputText)
	if err != nil {
		return nil, within("output", err)
	}
	return &FunctionCallOutput{ID: w.ID, CallID: w.CallID, Output: output, Status: w.Status}, nil
}

func (w *wireItem) reasoning() (Item, error) {
	summary, err := decodeParts(w.Summary)
	if err != nil {
		return nil, within("summary", err)
	}
	content, err := decodeContent(w.Content, PartReasoningText)
	if err != nil {
		return nil, within("content", err)
	}
	return &Reasoning{ID: w.ID, Status: w.Status, Summary: summary, Content: content,
		EncryptedContent: w.EncryptedContent}, nil
}

func (w *wireItem) toolCall() (Item, error) {
	c := &ToolCall{ID: w.ID, Status: w.Status, CallID: w.CallID, Name: w.Name, Arguments: w.Arguments}
	if !isNull(w.Result) {
		c.Result = w.Result
	}
	if err := unmarshal(w.Output, &c.Output); err != nil && !isNull(w.Output) {
		return nil, Invalid("output", CodeInvalidValue, "output of a holon:tool_call must be a string")
	}
	if err := unmarshal(w.Round, &c.Round); err != nil && !isNull(w.Round) {
		return nil, Invalid("round", CodeInvalidValue, "round of a holon:tool_call must be a string")
	}
	if err := unmarshal(w.ArtifactDir, &c.ArtifactDir); err != nil && !isNull(w.ArtifactDir) {
		return nil, Invalid("artifact_dir", CodeInvalidValue, "artifact_dir of a holon:tool_call must be a string")
	}
	var err error
	if c.Media, err = decodeParts(w.Media); err != nil {
		return nil, within("media", err)
	}
	return c, nil
}

func (w *wireItem) opaque(data []byte) (Item, error) {
	var raw bytes.Buffer
	if err := json.Compact(&raw, data); err != nil {
		return nil, decodeError("", err)
	}
	return &OpaqueItem{Type: w.Type, ID: w.ID, Raw: raw.Bytes()}, nil
}

func checkCallID(id string) error {
	if n := utf8.RuneCountInString(id); n < 1 || n > maxCallID {
		return Invalid("call_id", CodeInvalidValue,
			fmt.Sprintf("call_id must have 1 to %d characters, this has %d", maxCallID, n))
	}
	return nil
}
