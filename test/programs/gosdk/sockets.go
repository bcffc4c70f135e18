//go:build !openai381

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

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

// turn sends a response.create and returns its final response.
func (c *sdk) turn(ctx context.Context, conn *responses.ResponseConnection, input,
	previous string) (*responses.Response, error) {
	event := map[string]any{"type": "response.create", "model": c.model, "input": input, "store": false}
	if previous != "" {
		event["previous_response_id"] = previous
	}
	data, err := json.Marshal(event)
	if err != nil {
		return nil, err
	}
	if err := conn.SendRaw(ctx, data); err != nil {
		return nil, err
	}
	return conn.FinalResponse(ctx)
}

// connect runs f on a WebSocket.
func (c *sdk) connect(ctx context.Context, f func(*responses.ResponseConnection) error) error {
	conn, err := c.Responses.Connect(ctx, responses.ResponseConnectionOptions{})
	if err != nil {
		return err
	}
	return errors.Join(f(conn), conn.Close())
}

func socket(ctx context.Context, c *sdk) error {
	return c.connect(ctx, func(conn *responses.ResponseConnection) error {
		first, err := c.turn(ctx, conn, "Say hello.", "")
		if err != nil {
			return err
		}
		if err := hello(first); err != nil {
			return err
		}
		second, err := c.turn(ctx, conn, "Say it again.", first.ID)
		if err != nil {
			return err
		}
		return want("text", second.OutputText(), "You said then: Say it again.")
	})
}

// socketError: a refusal ends the turn and not the connection.
func socketError(ctx context.Context, c *sdk) error {
	return c.connect(ctx, func(conn *responses.ResponseConnection) error {
		_, err := c.turn(ctx, conn, "Go on.", "resp_nowhere")
		if err == nil {
			return errors.New("an unknown response was continued")
		}
		r, err := c.turn(ctx, conn, "Say hello.", "")
		if err != nil {
			return err
		}
		return hello(r)
	})
}

// rebuilt has the client put a response together from its deltas.
func rebuilt(ctx context.Context, c *sdk) error {
	conn, err := c.Responses.Connect(ctx, responses.ResponseConnectionOptions{})
	if err != nil {
		return err
	}
	defer conn.Abort()
	data, err := json.Marshal(map[string]any{"type": "response.create", "model": c.model, "input": "Say hello."})
	if err != nil {
		return err
	}
	if err := conn.SendRaw(ctx, data); err != nil {
		return err
	}
	var all responses.ResponseAccumulator
	for {
		ev, err := conn.Recv(ctx)
		if err != nil {
			return err
		}
		if err := all.AddEvent(ev); err != nil {
			return fmt.Errorf("%s: %w", ev.Type, err)
		}
		if ev.Type == "response.completed" {
			r, err := all.ReconstructedResponse()
			if err != nil {
				return err
			}
			return errors.Join(want("text", all.Snapshot().OutputText(), "Hello, Ada."), hello(r))
		}
	}
}

func compact(ctx context.Context, c *sdk) error {
	first, err := c.Responses.New(ctx, c.ask("Say hello."))
	if err != nil {
		return err
	}
	got, err := c.Responses.Compact(ctx,
		responses.ResponseCompactParams{Model: responses.ResponseCompactParamsModel(c.model),
			PreviousResponseID: openai.String(first.ID)})
	if err != nil {
		return err
	}
	last := got.Output[len(got.Output)-1]
	if last.Type != "compaction" || last.EncryptedContent == "" {
		return fmt.Errorf("the last item is a %s", last.Type)
	}
	// The client has no way from these items to input but their JSON.
	var raw struct {
		Output []json.RawMessage `json:"output"`
	}
	if err := json.Unmarshal([]byte(got.RawJSON()), &raw); err != nil {
		return err
	}
	raw.Output = append(raw.Output, json.RawMessage(`{"role":"user","content":"Weather in Paris?"}`))
	input, err := json.Marshal(map[string]any{"model": c.model, "input": raw.Output})
	if err != nil {
		return err
	}
	var next responses.Response
	if err := c.Post(ctx, "responses", json.RawMessage(input), &next); err != nil {
		return err
	}
	return want("status", string(next.Status), "completed")
}

func inputTokens(ctx context.Context, c *sdk) error {
	got, err := c.Responses.InputTokens.Count(ctx, responses.InputTokenCountParams{
		Model: openai.String(c.model), Input: responses.InputTokenCountParamsInputUnion{
			OfString: openai.String("How many tokens are these?")},
	})
	if err != nil {
		return err
	}
	return errors.Join(want("object", string(got.Object), "response.input_tokens"),
		want("there are tokens", got.InputTokens > 0, true))
}
