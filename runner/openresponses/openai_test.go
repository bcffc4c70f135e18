package openresponses_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	api "github.com/openai/openai-go/v3/responses"

	"holon/test/expect"
)

func (d *door) openai(name string) openai.Client {
	return openai.NewClient(option.WithBaseURL(d.url+"/v1"), option.WithAPIKey(name), option.WithMaxRetries(0))
}

func text(s string) api.ResponseNewParamsInputUnion {
	return api.ResponseNewParamsInputUnion{OfString: openai.String(s)}
}

// OpenAI's client for Go, as a user has it.
func TestOpenAIClient(t *testing.T) {
	t.Parallel()
	d := open(t)
	c := d.openai("ann")
	first, err := c.Responses.New(t.Context(), api.ResponseNewParams{Model: "scripted/talk", Input: text("hi")})
	expect.NoError(t, err)
	expect.Equal(t, "text", first.OutputText(), "Hello from the session.")
	stream := c.Responses.NewStreaming(t.Context(), api.ResponseNewParams{Model: "scripted/talk", Input: text("on"),
		PreviousResponseID: openai.String(first.ID)})
	var said strings.Builder
	for stream.Next() {
		said.WriteString(stream.Current().Delta)
	}
	expect.NoError(t, stream.Err())
	expect.Equal(t, "text", said.String(), "Once more.")
	got, err := c.Responses.Get(t.Context(), first.ID, api.ResponseGetParams{})
	expect.NoError(t, err)
	expect.Equal(t, "text", got.OutputText(), first.OutputText())
	again := c.Responses.GetStreaming(t.Context(), first.ID, api.ResponseGetParams{StartingAfter: openai.Int(2)})
	events := 0
	for again.Next() {
		events++
	}
	expect.NoError(t, again.Err())
	if events == 0 {
		t.Error("no events after the second")
	}
	items, err := c.Responses.InputItems.List(t.Context(), first.ID, api.InputItemListParams{})
	expect.NoError(t, err)
	expect.Equal(t, "items", len(items.Data), 1)
	expect.NoError(t, c.Responses.Delete(t.Context(), first.ID))
	models, err := c.Models.List(t.Context())
	expect.NoError(t, err)
	expect.Equal(t, "models", len(models.Data), 1)
}

// The same for Chat Completions: text, a call of a function, its result, and a stream of either.
func TestChatCompletions(t *testing.T) {
	t.Parallel()
	d := open(t)
	c := d.openai("ann")
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
