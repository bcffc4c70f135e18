package responses

import (
	"errors"
	"strings"
	"testing"
)

// The bounds of large content, without a body of that size.
func TestBoundsOfContent(t *testing.T) {
	const mib = 1 << 20
	message := func(p Part) Item { return &Message{Role: RoleUser, Content: []Part{InputText("x"), p}} }
	// Bounds count characters, so bytes would refuse the first; and it is quickly seen that this is no address.
	const begin, char = "data:", "ä"
	longest := begin + strings.Repeat(char, 32*mib)
	first := func(n int) string { return longest[:len(begin)+(n-len(begin))*len(char)] }
	for param, tt := range map[string]struct {
		edge int
		item func(s string) Item
	}{
		"content[1].text":    {10 * mib, func(s string) Item { return message(InputText(s)) }},
		"content[1].refusal": {10 * mib, func(s string) Item { return message(Part{Type: PartRefusal, Refusal: s}) }},
		"content[1].image_url": {20 * mib, func(s string) Item {
			return message(Part{Type: PartInputImage, ImageURL: s})
		}},
		"content[1].file_data": {32 * mib, func(s string) Item {
			return message(Part{Type: PartInputFile, FileData: s})
		}},
		"output[0].text": {10 * mib, func(s string) Item {
			return &FunctionCallOutput{Output: []Part{InputText(s)}}
		}},
		"output[0].image_url": {20 * mib, func(s string) Item {
			return &FunctionCallOutput{Output: []Part{{Type: PartInputImage, ImageURL: s}}}
		}},
		"summary[0].text": {10 * mib, func(s string) Item {
			return &Reasoning{Summary: []Part{{Type: PartSummaryText, Text: s}}}
		}},
		"content[0].text": {10 * mib, func(s string) Item {
			return &Reasoning{Content: []Part{{Type: PartReasoningText, Text: s}}}
		}},
		"encrypted_content": {10 * mib, func(s string) Item { return &Compaction{EncryptedContent: s} }},
		"output":            {10 * mib, func(s string) Item { return &ToolCall{CallID: "c", Name: "f", Output: s} }},
	} {
		err := checkItem(tt.item(first(tt.edge)))
		if err != nil && strings.Contains(err.Error(), "characters") { // it is no address, which is said after its length
			t.Errorf("%s at the edge: %v", param, err)
		}
		e, _ := errors.AsType[*Error](checkItem(tt.item(first(tt.edge + 1))))
		if e == nil || e.Param != param || len(e.Message) > 400 {
			t.Errorf("%s beyond the edge: %+v, want a short error about it", param, e)
		}
	}
}
