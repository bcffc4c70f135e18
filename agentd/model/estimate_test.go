package model

import (
	"encoding/json"
	"strings"
	"testing"

	"holon/responses"
)

func TestEstimate(t *testing.T) {
	text := func(s string) *responses.Message {
		return &responses.Message{Role: responses.RoleUser, Content: []responses.Part{responses.InputText(s)}}
	}
	for name, c := range map[string]struct {
		req  Request
		want int
	}{
		"nothing":       {Request{}, 0},
		"instructions":  {Request{Instructions: strings.Repeat("word ", 8)}, 10},
		"a message":     {Request{Input: []responses.Item{text("twelve bytes")}}, itemTokens + 3},
		"a part of one": {Request{Input: []responses.Item{text("x")}}, itemTokens + 1},
		"digits":        {Request{Input: []responses.Item{text("123456789")}}, itemTokens + 3},
		"a tool": {Request{Tools: []Tool{{Name: "ls", Description: "list",
			Parameters: json.RawMessage(`{"type":"object"}`)}}}, callTokens + 1 + 1 + 5},
		"a schema": {Request{Text: responses.TextConfig{
			Format: responses.TextFormat{Schema: json.RawMessage(`{"a":1}`)}}}, 2},
		"a call": {Request{Input: []responses.Item{&responses.FunctionCall{Name: "f", Arguments: "{}"}}},
			callTokens + 2},
		"its output": {Request{Input: []responses.Item{
			&responses.FunctionCallOutput{Output: []responses.Part{responses.InputText("ok")}}}}, itemTokens + 1},
		"a container call": {Request{Input: []responses.Item{&responses.ToolCall{Name: "f", Arguments: "{}",
			Output: "ok"}}}, callTokens + itemTokens + 3},
		"an image": {Request{Input: []responses.Item{
			&responses.Message{Content: []responses.Part{{Type: responses.PartInputImage,
				ImageURL: "data:" + strings.Repeat("x", 1<<20)}}}}}, itemTokens + mediaTokens},
		"a small image": {Request{Input: []responses.Item{
			&responses.Message{Content: []responses.Part{{Type: responses.PartInputImage,
				Detail: "low"}}}}}, itemTokens + thumbTokens},
		"a video": {Request{Input: []responses.Item{
			&responses.FunctionCallOutput{Output: []responses.Part{
				{Type: responses.PartInputVideo}}}}}, itemTokens + mediaTokens},
		"a file": {Request{Input: []responses.Item{
			&responses.Message{Content: []responses.Part{{Type: responses.PartInputFile,
				FileData: strings.Repeat("x", 1600)}}}}}, itemTokens + 300},
		"a file elsewhere": {Request{Input: []responses.Item{
			&responses.Message{Content: []responses.Part{{Type: responses.PartInputFile,
				FileURL: "https://example.org"}}}}}, itemTokens + mediaTokens},
		"a thought": {Request{Input: []responses.Item{
			&responses.Reasoning{Summary: []responses.Part{{Type: responses.PartSummaryText, Text: "hmm."}},
				EncryptedContent: strings.Repeat("x", 160)}}}, itemTokens + 1 + 30},
		"a refusal": {Request{Input: []responses.Item{
			&responses.Message{Content: []responses.Part{{Type: responses.PartRefusal,
				Refusal: "no."}}}}}, itemTokens + 1},
		"not for models": {Request{Input: []responses.Item{&responses.OpaqueItem{Type: "x:y",
			Raw: json.RawMessage(`{"type":"x:y"}`)}}}, 0},
	} {
		if got := Estimate(c.req); got != c.want {
			t.Errorf("%s: %d tokens, want %d", name, got, c.want)
		}
	}
}
