package openresponses_test

import (
	"bytes"
	"context"
	"net/http"
	"os/exec"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"holon/test/expect"
	"holon/test/programs"
)

// OpenAI's client for Go, with the checks that agentd passes.
func TestOpenAIClient(t *testing.T) {
	t.Parallel()
	d := open(t, "clients.yaml")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	out, err := exec.CommandContext(ctx, programs.Must("gosdk"), d.url+"/v1", "scripted/conformance").CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte(`"done":`)) || bytes.Contains(out, []byte(`"error"`)) {
		t.Errorf("%v\n%s", err, out)
	}
}

// Chat Completions with the same client: text, a call of a function, its result, and a stream of either.
func TestChatCompletions(t *testing.T) {
	t.Parallel()
	d := open(t)
	c := openai.NewClient(option.WithBaseURL(d.url+"/v1"), option.WithAPIKey("ann"),
		option.WithMaxRetries(0))
	params := openai.ChatCompletionNewParams{Model: "scripted/call",
		Messages: []openai.ChatCompletionMessageParamUnion{openai.SystemMessage("be brief"), openai.UserMessage("weather?")},
		Tools: []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(
			openai.FunctionDefinitionParam{Name: "weather", Parameters: openai.FunctionParameters{"type": "object"}})}}
	asked, err := c.Chat.Completions.New(t.Context(), params)
	expect.NoError(t, err)
	expect.Equal(t, "reason", asked.Choices[0].FinishReason, "tool_calls")
	call := asked.Choices[0].Message.ToolCalls[0]
	expect.Equal(t, "call", call.Function.Name+call.Function.Arguments, `weather{"city":"Rome"}`)

	stream := c.Chat.Completions.NewStreaming(t.Context(), params)
	var acc openai.ChatCompletionAccumulator
	for stream.Next() {
		acc.AddChunk(stream.Current())
	}
	expect.NoError(t, stream.Err())
	expect.Equal(t, "arguments", acc.Choices[0].Message.ToolCalls[0].Function.Arguments, call.Function.Arguments)
	expect.Equal(t, "reason", acc.Choices[0].FinishReason, "tool_calls")

	params.Messages = append(params.Messages, asked.Choices[0].Message.ToParam(), openai.ToolMessage("rain", call.ID))
	params.StreamOptions.IncludeUsage = openai.Bool(true)
	stream = c.Chat.Completions.NewStreaming(t.Context(), params)
	acc = openai.ChatCompletionAccumulator{}
	for stream.Next() {
		acc.AddChunk(stream.Current())
	}
	expect.NoError(t, stream.Err())
	expect.Equal(t, "text", acc.Choices[0].Message.Content, "It rains.")
	expect.Equal(t, "reason", acc.Choices[0].FinishReason, "stop")
	if acc.Usage.TotalTokens == 0 {
		t.Error("there is no usage")
	}

	d.do(http.MethodPost, "/v1/chat/completions", `{"messages":[],"n":1}`).
		is(t, 400, "missing_required_parameter", "messages")
	d.do(http.MethodPost, "/v1/chat/completions", `{"model":"scripted/none","messages":[{"role":"user","content":"x"}]}`).
		is(t, 400, "scenario_not_found", "model")
}
