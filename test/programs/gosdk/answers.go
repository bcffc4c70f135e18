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

// withWeather offers the client's function. It is made of JSON, since the types
// that hold it are not the same in every release.
func withWeather(p responses.ResponseNewParams) (responses.ResponseNewParams, error) {
	const tool = `{"type":"function","name":"get_weather","parameters":{"type":"object","properties":{"city":{"type":` +
		`"string"}}},"strict":true}`
	var t responses.ToolUnionParam
	if err := json.Unmarshal([]byte(tool), &t); err != nil {
		return p, err
	}
	p.Tools = []responses.ToolUnionParam{t}
	return p, nil
}

func output(callID, text string) responses.ResponseNewParamsInputUnion {
	return responses.ResponseNewParamsInputUnion{
		OfInputItemList: responses.ResponseInputParam{outputItem(callID, text)}}
}

func outputItem(callID, text string) responses.ResponseInputItemUnionParam {
	return param.Override[responses.ResponseInputItemUnionParam](map[string]string{"type": "function_call_output",
		"call_id": callID, "output": text})
}

func create(ctx context.Context, c *sdk) error {
	r, err := c.Responses.New(ctx, c.ask("Say hello."))
	if err != nil {
		return err
	}
	return hello(r)
}

// hello checks the whole answer to "Say hello.".
func hello(r *responses.Response) error {
	if len(r.Output) != 2 {
		return fmt.Errorf("%d items", len(r.Output))
	}
	u := r.Usage
	return errors.Join(
		want("text", r.OutputText(), "Hello, Ada."),
		want("status", string(r.Status), "completed"),
		want("reasoning", r.Output[0].AsReasoning().Summary[0].Text, "A greeting is asked for."),
		want("message", r.Output[1].Type, "message"),
		want("usage", fmt.Sprint(u.InputTokens, u.OutputTokens, u.TotalTokens, u.InputTokensDetails.CachedTokens,
			u.OutputTokensDetails.ReasoningTokens), "11 7 18 3 2"))
}

// final is what came of a stream.
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

func streamed(ctx context.Context, c *sdk) error {
	f, err := collect(c.Responses.NewStreaming(ctx, c.ask("Say hello.")))
	if err != nil {
		return err
	}
	for i, n := range f.sequence {
		if n != int64(i) {
			return fmt.Errorf("event %d has number %d", i, n)
		}
	}
	return errors.Join(want("text", f.text, "Hello, Ada."), want("reasoning", f.reasoning, "A greeting is asked for."),
		want("last", f.last, "response.completed"), want("id", f.response.ID, f.created), hello(&f.response))
}

func continued(ctx context.Context, c *sdk) error {
	first, err := c.Responses.New(ctx, c.ask("Say hello."))
	if err != nil {
		return err
	}
	p := c.ask("Say it again.")
	p.PreviousResponseID = openai.String(first.ID)
	second, err := c.Responses.New(ctx, p)
	if err != nil {
		return err
	}
	return errors.Join(want("text", second.OutputText(), "You said then: Say it again."),
		want("previous", second.PreviousResponseID, first.ID))
}

func toolRoundTrip(ctx context.Context, c *sdk) error {
	p, err := withWeather(c.ask("Weather in Paris?"))
	if err != nil {
		return err
	}
	first, err := c.Responses.New(ctx, p)
	if err != nil {
		return err
	}
	call := first.Output[len(first.Output)-1].AsFunctionCall()
	if err := errors.Join(want("name", call.Name, "get_weather"), want("call_id", call.CallID, "call_weather"),
		want("arguments", call.Arguments, `{"city":"Paris"}`),
		want("status", string(first.Status), "completed"),
		want("text", first.OutputText(), "Let me look.")); err != nil {
		return err
	}
	p.PreviousResponseID, p.Input = openai.String(first.ID), output(call.CallID, "21 degrees")
	second, err := c.Responses.New(ctx, p)
	if err != nil {
		return err
	}
	return want("text", second.OutputText(), "The weather: 21 degrees.")
}

func toolStreamed(ctx context.Context, c *sdk) error {
	p, err := withWeather(c.ask("Weather in Paris?"))
	if err != nil {
		return err
	}
	f, err := collect(c.Responses.NewStreaming(ctx, p))
	if err != nil {
		return err
	}
	if err := errors.Join(want("arguments", f.arguments, `{"city":"Paris"}`),
		want("last", f.last, "response.completed")); err != nil {
		return err
	}
	p.PreviousResponseID, p.Input = openai.String(f.response.ID), output("call_weather", "21 degrees")
	f, err = collect(c.Responses.NewStreaming(ctx, p))
	return errors.Join(err, want("text", f.text, "The weather: 21 degrees."))
}

func parallelTools(ctx context.Context, c *sdk) error {
	p, err := withWeather(c.ask("Weather in Paris and Rome?"))
	if err != nil {
		return err
	}
	first, err := c.Responses.New(ctx, p)
	if err != nil {
		return err
	}
	var ids []string
	var answers responses.ResponseInputParam
	for _, item := range first.Output {
		if item.Type == "function_call" {
			ids = append(ids, item.CallID)
			answers = append(answers, outputItem(item.CallID, item.CallID+" is sunny"))
		}
	}
	if err := want("calls", strings.Join(ids, " "), "call_paris call_rome"); err != nil {
		return err
	}
	p.PreviousResponseID, p.Input = openai.String(first.ID),
		responses.ResponseNewParamsInputUnion{OfInputItemList: answers}
	second, err := c.Responses.New(ctx, p)
	if err != nil {
		return err
	}
	return want("text", second.OutputText(), "The weather: call_rome is sunny.")
}

// inside: calls that run in the container do not concern the client.
func inside(ctx context.Context, c *sdk) error {
	f, err := collect(c.Responses.NewStreaming(ctx, c.ask("Test it.")))
	if err != nil {
		return err
	}
	for _, item := range f.response.Output {
		if item.Type != "message" {
			return fmt.Errorf("there is a %s", item.Type)
		}
	}
	return errors.Join(want("text", f.text, "I test it.It works."), want("arguments", f.arguments, ""))
}

// bothKinds: the container's call has run when the client is asked for its own.
func bothKinds(ctx context.Context, c *sdk) error {
	p, err := withWeather(c.ask("Test it and ask for the weather."))
	if err != nil {
		return err
	}
	first, err := c.Responses.New(ctx, p)
	if err != nil {
		return err
	}
	if len(first.Output) != 1 || first.Output[0].CallID != "call_outside" {
		return fmt.Errorf("the output is %s", first.RawJSON())
	}
	p.PreviousResponseID, p.Input = openai.String(first.ID), output("call_outside", "21 degrees")
	second, err := c.Responses.New(ctx, p)
	if err != nil {
		return err
	}
	return want("text", second.OutputText(), "It works.")
}

func incomplete(ctx context.Context, c *sdk) error {
	p := c.ask("Say much.")
	p.MaxOutputTokens = openai.Int(16)
	r, err := c.Responses.New(ctx, p)
	if err != nil {
		return err
	}
	return errors.Join(want("status", string(r.Status), "incomplete"),
		want("reason", r.IncompleteDetails.Reason, "max_output_tokens"), want("text", r.OutputText(), "Much is"))
}

func refusal(ctx context.Context, c *sdk) error {
	r, err := c.Responses.New(ctx, c.ask("Refuse."))
	if err != nil {
		return err
	}
	return want("refusal", r.Output[0].AsMessage().Content[0].Refusal, "I will not.")
}

// failed checks the error of a request.
func failed(err error, status int, code, param string) error {
	var e *openai.Error
	if !errors.As(err, &e) {
		return fmt.Errorf("no error of the API: %v", err)
	}
	return errors.Join(want("status", e.StatusCode, status), want("code", e.Code, code), want("param", e.Param, param))
}

func failure(ctx context.Context, c *sdk) error {
	_, err := c.Responses.New(ctx, c.ask("Break."))
	var e *openai.Error
	if !errors.As(err, &e) || e.StatusCode < 400 || e.Code != "model_says_no" ||
		!strings.Contains(e.Message, "the model broke") {
		return fmt.Errorf("the error is %v", err)
	}
	return nil
}

func failureStreamed(ctx context.Context, c *sdk) error {
	f, err := collect(c.Responses.NewStreaming(ctx, c.ask("Break in the middle.")))
	if err != nil {
		return err
	}
	return errors.Join(want("text", f.text, "Half of"), want("last", f.last, "response.failed"),
		want("status", string(f.response.Status), "failed"),
		want("message", strings.Contains(f.response.Error.Message, "the model broke"), true))
}

func refused(ctx context.Context, c *sdk) error {
	p := c.ask("Go on.")
	p.PreviousResponseID = openai.String("resp_nowhere")
	_, err := c.Responses.New(ctx, p)
	err1 := failed(err, 404, "previous_response_not_found", "previous_response_id")
	s := c.Responses.NewStreaming(ctx, p)
	_, err = collect(s)
	return errors.Join(err1, failed(err, 404, "previous_response_not_found", "previous_response_id"))
}
