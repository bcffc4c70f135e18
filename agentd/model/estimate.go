package model

import (
	"encoding/json"

	"holon/responses"
)

// Tokens that an estimate adds for things without a text.
const (
	itemTokens  = 4    // around a message or an output
	callTokens  = 8    // around a call or a tool's definition
	mediaTokens = 1000 // an image, and a file or video that is given by its URL
	thumbTokens = 85   // an image of low detail
)

// Estimate returns about how many tokens req is for a model: four bytes a
// token, and three where a text is full of digits, as hashes and tables are;
// an image is 1000 (85 at low detail) regardless of its size. The same request
// gives the same number. Text and code come out within a tenth of the common
// tokenizers. Exact tables are large and right for one vendor only; the usage of a
// response is exact.
func Estimate(req Request) int {
	n := EstimateText(req.Instructions) + EstimateItems(req.Input)
	for _, tool := range req.Tools {
		n += callTokens + EstimateText(tool.Name) + EstimateText(tool.Description) + estimateBytes(tool.Parameters)
	}
	return n + estimateBytes(req.Text.Format.Schema)
}

// EstimateItems is Estimate for a part of a conversation.
func EstimateItems(items []responses.Item) int {
	n := 0
	for _, item := range items {
		n += EstimateItem(item)
	}
	return n
}

// EstimateItem is Estimate for one item. Items that are not sent to models are 0.
func EstimateItem(item responses.Item) int {
	switch item := item.(type) {
	case *responses.Message:
		return itemTokens + estimateParts(item.Content)
	case *responses.FunctionCall:
		return callTokens + EstimateText(item.Name) + EstimateText(item.Arguments)
	case *responses.FunctionCallOutput:
		return itemTokens + estimateParts(item.Output)
	case *responses.ToolCall:
		return callTokens + itemTokens + EstimateText(item.Name) + EstimateText(item.Arguments) + EstimateText(
			item.Output)
	case *responses.Reasoning:
		return itemTokens + estimateParts(item.Summary) + estimateParts(item.Content) + len(item.EncryptedContent)*3/16
	case *responses.Compaction:
		return itemTokens + len(item.EncryptedContent)*3/16 // base64 of as many bytes
	}
	return 0
}

func estimateParts(parts []responses.Part) int {
	n := 0
	for _, p := range parts {
		switch p.Type {
		case responses.PartInputImage:
			if p.Detail == "low" {
				n += thumbTokens
			} else {
				n += mediaTokens
			}
		case responses.PartInputVideo:
			n += mediaTokens
		case responses.PartInputFile:
			if p.FileData == "" {
				n += mediaTokens
			}
			n += EstimateText(p.FileName) + len(p.FileData)*3/16
		default:
			n += EstimateText(p.Text) + EstimateText(p.Refusal)
		}
	}
	return n
}

func estimateBytes(raw json.RawMessage) int { return (len(raw) + 3) / 4 }

// EstimateText is Estimate for a text.
func EstimateText(s string) int {
	digits := 0
	for i := range len(s) {
		if '0' <= s[i] && s[i] <= '9' {
			digits++
		}
	}
	if 8*digits > len(s) {
		return (len(s) + 2) / 3
	}
	return (len(s) + 3) / 4
}
