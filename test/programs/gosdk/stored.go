package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/responses"
)

// stored are the checks of what OpenAI's service adds to the protocol.
func stored() []check {
	return []check{
		{"retrieve", retrieve},
		{"retrieve as a stream", retrieveStream},
		{"background and poll", background},
		{"resume with starting_after", resume},
		{"cancel", cancelled},
		{"delete", deleted},
		{"input_items", inputItems},
		{"models", models},
	}
}

func retrieve(ctx context.Context, c *sdk) error {
	r, err := c.Responses.New(ctx, c.ask("Say hello."))
	if err != nil {
		return err
	}
	got, err := c.Responses.Get(ctx, r.ID,
		responses.ResponseGetParams{Include: []responses.ResponseIncludable{"reasoning.encrypted_content"}})
	if err != nil {
		return err
	}
	return errors.Join(hello(got), want("id", got.ID, r.ID))
}

// retrieveStream sends what this client sends for it: a GET whose body says
// "stream".
func retrieveStream(ctx context.Context, c *sdk) error {
	r, err := c.Responses.New(ctx, c.ask("Say hello."))
	if err != nil {
		return err
	}
	f, err := collect(c.Responses.GetStreaming(ctx, r.ID, responses.ResponseGetParams{}))
	return errors.Join(err, want("text", f.text, "Hello, Ada."), want("last", f.last, "response.completed"),
		want("id", f.response.ID, r.ID))
}

// detached starts a background response.
func (c *sdk) detached(ctx context.Context, text string) (*responses.Response, error) {
	p := c.ask(text)
	p.Background = openai.Bool(true)
	r, err := c.Responses.New(ctx, p)
	if err == nil && r.Status != "queued" && r.Status != "in_progress" {
		err = fmt.Errorf("a background response begins as %s", r.Status)
	}
	return r, err
}

func background(ctx context.Context, c *sdk) error {
	r, err := c.detached(ctx, "Count.")
	for err == nil && (r.Status == "queued" || r.Status == "in_progress") {
		time.Sleep(20 * time.Millisecond)
		r, err = c.Responses.Get(ctx, r.ID, responses.ResponseGetParams{})
	}
	if err != nil {
		return err
	}
	return errors.Join(want("status", string(r.Status), "completed"), want("text", r.OutputText(), "1 2 3 4 5"))
}

// resume leaves a stream after its third event and reads the rest.
func resume(ctx context.Context, c *sdk) error {
	p := c.ask("Count.")
	p.Background = openai.Bool(true)
	s := c.Responses.NewStreaming(ctx, p)
	id, text, last := "", "", int64(-1)
	for len(text) < 3 && s.Next() {
		ev := s.Current()
		last = ev.SequenceNumber
		if ev.Type == "response.created" {
			id = ev.Response.ID
		}
		if ev.Type == "response.output_text.delta" {
			text += ev.Delta
		}
	}
	if err := errors.Join(s.Err(), s.Close()); err != nil {
		return err
	}
	rest, err := collect(c.Responses.GetStreaming(ctx, id,
		responses.ResponseGetParams{StartingAfter: param.NewOpt(last)}))
	if err != nil {
		return err
	}
	if len(rest.sequence) == 0 || rest.sequence[0] != last+1 {
		return fmt.Errorf("after %d come %v", last, rest.sequence)
	}
	return errors.Join(want("text", text+rest.text, "1 2 3 4 5"), want("last", rest.last, "response.completed"))
}

func cancelled(ctx context.Context, c *sdk) error {
	r, err := c.detached(ctx, "Count for long.")
	if err != nil {
		return err
	}
	for range 2 { // cancelling is idempotent
		if r, err = c.Responses.Cancel(ctx, r.ID); err != nil {
			return err
		}
		if r.Status != "cancelled" {
			return fmt.Errorf("the response is %s", r.Status)
		}
	}
	return nil
}

func deleted(ctx context.Context, c *sdk) error {
	r, err := c.Responses.New(ctx, c.ask("Say hello."))
	if err != nil {
		return err
	}
	if err := c.Responses.Delete(ctx, r.ID); err != nil {
		return err
	}
	_, err = c.Responses.Get(ctx, r.ID, responses.ResponseGetParams{})
	var e *openai.Error
	if !errors.As(err, &e) || e.StatusCode != 404 {
		return fmt.Errorf("GET after DELETE: %v", err)
	}
	return nil
}

func inputItems(ctx context.Context, c *sdk) error {
	p := c.ask("")
	p.Input = responses.ResponseNewParamsInputUnion{OfInputItemList: responses.ResponseInputParam{
		responses.ResponseInputItemParamOfMessage("One.", responses.EasyInputMessageRoleUser),
		responses.ResponseInputItemParamOfMessage("Two.", responses.EasyInputMessageRoleDeveloper),
		responses.ResponseInputItemParamOfMessage("Say hello.", responses.EasyInputMessageRoleUser),
	}}
	r, err := c.Responses.New(ctx, p)
	if err != nil {
		return err
	}
	var texts []string
	pager := c.Responses.InputItems.ListAutoPaging(ctx, r.ID,
		responses.InputItemListParams{Limit: openai.Int(2), Order: "asc"})
	for len(texts) < 6 && pager.Next() { // a wrong page would come again and again
		texts = append(texts, pager.Current().AsMessage().Content[0].Text)
	}
	return errors.Join(pager.Err(), want("items", strings.Join(texts, " "), "One. Two. Say hello."))
}

func models(ctx context.Context, c *sdk) error {
	pager := c.Models.ListAutoPaging(ctx, option.WithMaxRetries(0))
	n := 0
	for pager.Next() {
		n++
	}
	return errors.Join(pager.Err(), want("there are models", n > 0, true))
}
