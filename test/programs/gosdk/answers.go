package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/responses"
)

// answers are the checks of POST /responses.
func answers() []check {
	return []check{
		{"create", create},
		{"stream", streamed},
		{"continue", continued},
		{"tool round trip", toolRoundTrip},
		{"tool round trip, streamed", toolStreamed},
		{"parallel tools", parallelTools},
		{"container tools stay inside", inside},
		{"both kinds of tools", bothKinds},
		{"incomplete", incomplete},
		{"refusal", refusal},
		{"failure", failure},
		{"failure in a stream", failureStreamed},
		{"refused request", refused},
	}
}

// ask is a request with one message of the user.
func (c *sdk) ask(text string) responses.ResponseNewParams {
	return responses.ResponseNewParams{Model: c.model,
		Input: responses.ResponseNewParamsInputUnion{OfString: openai.String(text)}}
}

func (c *sdk) new(ctx context.Context, p responses.ResponseNewParams) *responses.Response {
	return must(c.Responses.New(ctx, p))
}

// askWeather offers the client's function. It is made of JSON, since the types
// that hold it are not the same in every release.
func (c *sdk) askWeather(text string) responses.ResponseNewParams {
	const tool = `{"type":"function","name":"get_weather","parameters":{"type":"object","properties":{"city":{"type":` +
		`"string"}}},"strict":true}`
	p := c.ask(text)
	p.Tools = make([]responses.ToolUnionParam, 1)
	ensure(json.Unmarshal([]byte(tool), &p.Tools[0]))
	return p
}

// answer continues a response with the outputs of its calls.
func answer(p responses.ResponseNewParams, id string, outputs ...responses.ResponseInputItemUnionParam,
) responses.ResponseNewParams {
	p.PreviousResponseID = openai.String(id)
	p.Input = responses.ResponseNewParamsInputUnion{OfInputItemList: outputs}
	return p
}

func output(callID, text string) responses.ResponseInputItemUnionParam {
	return param.Override[responses.ResponseInputItemUnionParam](map[string]string{"type": "function_call_output",
		"call_id": callID, "output": text})
}

func create(ctx context.Context, c *sdk) { hello(c.new(ctx, c.ask("Say hello."))) }

// hello checks the whole answer to "Say hello.".
func hello(r *responses.Response) {
	want("number of items", len(r.Output), 2)
	want("text", r.OutputText(), "Hello, Ada.")
	want("status", string(r.Status), "completed")
	want("reasoning", r.Output[0].AsReasoning().Summary[0].Text, "A greeting is asked for.")
	want("message", r.Output[1].Type, "message")
	u := r.Usage
	want("usage", fmt.Sprint(u.InputTokens, u.OutputTokens, u.TotalTokens, u.InputTokensDetails.CachedTokens,
		u.OutputTokensDetails.ReasoningTokens), "11 7 18 3 2")
}

type final struct {
	text, reasoning, arguments string
	response                   responses.Response // of the terminal event
	last                       string             // type of the last event
	created                    string             // id
	sequence                   []int64
}

// collect reads a stream as programs do: by its deltas.
func collect(s eventStream) (f final, err error) {
	for s.Next() {
		ev := s.Current()
		f.sequence = append(f.sequence, ev.SequenceNumber)
		f.last = ev.Type
		switch ev.Type {
		case "response.created":
			f.created = ev.Response.ID
		case "response.output_text.delta":
			f.text += ev.Delta
		case "response.reasoning_summary_text.delta":
			f.reasoning += ev.Delta
		case "response.function_call_arguments.delta":
			f.arguments += ev.Delta
		case "response.completed", "response.failed", "response.incomplete":
			f.response = ev.Response
		}
	}
	return f, s.Err()
}

// eventStream is the part of the client's stream that programs use.
type eventStream interface {
	Next() bool
	Current() responses.ResponseStreamEventUnion
	Err() error
}

func (c *sdk) stream(ctx context.Context, p responses.ResponseNewParams) final {
	return must(collect(c.Responses.NewStreaming(ctx, p)))
}

func streamed(ctx context.Context, c *sdk) {
	f := c.stream(ctx, c.ask("Say hello."))
	for i, n := range f.sequence {
		want("number of an event", n, int64(i))
	}
	want("text", f.text, "Hello, Ada.")
	want("reasoning", f.reasoning, "A greeting is asked for.")
	want("last", f.last, "response.completed")
	want("id", f.response.ID, f.created)
	hello(&f.response)
}

func continued(ctx context.Context, c *sdk) {
	first := c.new(ctx, c.ask("Say hello."))
	p := c.ask("Say it again.")
	p.PreviousResponseID = openai.String(first.ID)
	second := c.new(ctx, p)
	want("text", second.OutputText(), "You said then: Say it again.")
	want("previous", second.PreviousResponseID, first.ID)
}

func toolRoundTrip(ctx context.Context, c *sdk) {
	p := c.askWeather("Weather in Paris?")
	first := c.new(ctx, p)
	call := first.Output[len(first.Output)-1].AsFunctionCall()
	want("name", call.Name, "get_weather")
	want("call_id", call.CallID, "call_weather")
	want("arguments", call.Arguments, `{"city":"Paris"}`)
	want("status", string(first.Status), "completed")
	want("text", first.OutputText(), "Let me look.")
	second := c.new(ctx, answer(p, first.ID, output(call.CallID, "21 degrees")))
	want("text", second.OutputText(), "The weather: 21 degrees.")
}

func toolStreamed(ctx context.Context, c *sdk) {
	p := c.askWeather("Weather in Paris?")
	f := c.stream(ctx, p)
	want("arguments", f.arguments, `{"city":"Paris"}`)
	want("last", f.last, "response.completed")
	f = c.stream(ctx, answer(p, f.response.ID, output("call_weather", "21 degrees")))
	want("text", f.text, "The weather: 21 degrees.")
}

func parallelTools(ctx context.Context, c *sdk) {
	p := c.askWeather("Weather in Paris and Rome?")
	first := c.new(ctx, p)
	var ids []string
	var answers responses.ResponseInputParam
	for _, item := range first.Output {
		if item.Type == "function_call" {
			ids = append(ids, item.CallID)
			answers = append(answers, output(item.CallID, item.CallID+" is sunny"))
		}
	}
	want("calls", strings.Join(ids, " "), "call_paris call_rome")
	want("text", c.new(ctx, answer(p, first.ID, answers...)).OutputText(), "The weather: call_rome is sunny.")
}

// inside: calls that run in the container do not concern the client.
func inside(ctx context.Context, c *sdk) {
	f := c.stream(ctx, c.ask("Test it."))
	for _, item := range f.response.Output {
		want("type of an item", item.Type, "message")
	}
	want("text", f.text, "I test it.It works.")
	want("arguments", f.arguments, "")
}

// bothKinds: the container's call has run when the client is asked for its own.
func bothKinds(ctx context.Context, c *sdk) {
	p := c.askWeather("Test it and ask for the weather.")
	first := c.new(ctx, p)
	if len(first.Output) != 1 || first.Output[0].CallID != "call_outside" {
		ensure(fmt.Errorf("the output is %s", first.RawJSON()))
	}
	want("text", c.new(ctx, answer(p, first.ID, output("call_outside", "21 degrees"))).OutputText(), "It works.")
}

func incomplete(ctx context.Context, c *sdk) {
	p := c.ask("Say much.")
	p.MaxOutputTokens = openai.Int(16)
	r := c.new(ctx, p)
	want("status", string(r.Status), "incomplete")
	want("reason", r.IncompleteDetails.Reason, "max_output_tokens")
	want("text", r.OutputText(), "Much is")
}

func refusal(ctx context.Context, c *sdk) {
	want("refusal", c.new(ctx, c.ask("Refuse.")).Output[0].AsMessage().Content[0].Refusal, "I will not.")
}

// failed returns the error of a request as the client has it.
func failed(err error) *openai.Error {
	var e *openai.Error
	if !errors.As(err, &e) {
		ensure(fmt.Errorf("no error of the API: %v", err))
	}
	return e
}

func failure(ctx context.Context, c *sdk) {
	_, err := c.Responses.New(ctx, c.ask("Break."))
	e := failed(err)
	want("status of an error", e.StatusCode >= 400, true)
	want("code", e.Code, "model_says_no")
	want("message", strings.Contains(e.Message, "the model broke"), true)
}

func failureStreamed(ctx context.Context, c *sdk) {
	f := c.stream(ctx, c.ask("Break in the middle."))
	want("text", f.text, "Half of")
	want("last", f.last, "response.failed")
	want("status", string(f.response.Status), "failed")
	want("message", strings.Contains(f.response.Error.Message, "the model broke"), true)
}

func refused(ctx context.Context, c *sdk) {
	p := c.ask("Go on.")
	p.PreviousResponseID = openai.String("resp_nowhere")
	_, whole := c.Responses.New(ctx, p)
	_, stream := collect(c.Responses.NewStreaming(ctx, p))
	for _, err := range []error{whole, stream} {
		e := failed(err)
		want("status", e.StatusCode, 404)
		want("code", e.Code, "previous_response_not_found")
		want("param", e.Param, "previous_response_id")
	}
}
