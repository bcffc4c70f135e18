//go:build !openai381

package main

import (
	"context"
	"encoding/json"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/responses"
)

// sockets are the checks of what only recent releases can do.
func sockets() []check {
	return []check{
		{"websocket", socket},
		{"websocket error", socketError},
		{"rebuilt from events", rebuilt},
		{"compact", compact},
		{"input_tokens", inputTokens},
	}
}

func (c *sdk) send(ctx context.Context, conn *responses.ResponseConnection, event map[string]any) {
	event["type"], event["model"] = "response.create", c.model
	ensure(conn.SendRaw(ctx, must(json.Marshal(event))))
}

func (c *sdk) turn(ctx context.Context, conn *responses.ResponseConnection, input,
	previous string) (*responses.Response, error) {
	event := map[string]any{"input": input, "store": false}
	if previous != "" {
		event["previous_response_id"] = previous
	}
	c.send(ctx, conn, event)
	return conn.FinalResponse(ctx)
}

func (c *sdk) connect(ctx context.Context) *responses.ResponseConnection {
	return must(c.Responses.Connect(ctx, responses.ResponseConnectionOptions{}))
}

func socket(ctx context.Context, c *sdk) {
	conn := c.connect(ctx)
	defer conn.Abort()
	first := must(c.turn(ctx, conn, "Say hello.", ""))
	hello(first)
	second := must(c.turn(ctx, conn, "Say it again.", first.ID))
	want("text", second.OutputText(), "You said then: Say it again.")
	ensure(conn.Close())
}

// socketError: a refusal ends the turn and not the connection.
func socketError(ctx context.Context, c *sdk) {
	conn := c.connect(ctx)
	defer conn.Abort()
	_, err := c.turn(ctx, conn, "Go on.", "resp_nowhere")
	want("an unknown response is continued", err == nil, false)
	hello(must(c.turn(ctx, conn, "Say hello.", "")))
	ensure(conn.Close())
}

// rebuilt has the client put a response together from its deltas.
func rebuilt(ctx context.Context, c *sdk) {
	conn := c.connect(ctx)
	defer conn.Abort()
	c.send(ctx, conn, map[string]any{"input": "Say hello."})
	var all responses.ResponseAccumulator
	for last := ""; last != "response.completed"; {
		ev := must(conn.Recv(ctx))
		ensure(all.AddEvent(ev))
		last = ev.Type
	}
	want("text", all.Snapshot().OutputText(), "Hello, Ada.")
	hello(must(all.ReconstructedResponse()))
}

func compact(ctx context.Context, c *sdk) {
	first := c.new(ctx, c.ask("Say hello."))
	got := must(c.Responses.Compact(ctx,
		responses.ResponseCompactParams{Model: responses.ResponseCompactParamsModel(c.model),
			PreviousResponseID: openai.String(first.ID)}))
	last := got.Output[len(got.Output)-1]
	want("type of the last item", last.Type, "compaction")
	want("the last item is empty", last.EncryptedContent == "", false)
	// The client has no way from these items to input but their JSON.
	var raw struct {
		Output []json.RawMessage `json:"output"`
	}
	ensure(json.Unmarshal([]byte(got.RawJSON()), &raw))
	raw.Output = append(raw.Output, json.RawMessage(`{"role":"user","content":"Weather in Paris?"}`))
	input := must(json.Marshal(map[string]any{"model": c.model, "input": raw.Output}))
	var next responses.Response
	ensure(c.Post(ctx, "responses", json.RawMessage(input), &next))
	want("status", string(next.Status), "completed")
}

func inputTokens(ctx context.Context, c *sdk) {
	got := must(c.Responses.InputTokens.Count(ctx, responses.InputTokenCountParams{
		Model: openai.String(c.model), Input: responses.InputTokenCountParamsInputUnion{
			OfString: openai.String("How many tokens are these?")},
	}))
	want("object", string(got.Object), "response.input_tokens")
	want("there are tokens", got.InputTokens > 0, true)
}
