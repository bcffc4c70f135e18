package main

import (
	"context"
	"errors"
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

func retrieve(ctx context.Context, c *sdk) {
	r := c.new(ctx, c.ask("Say hello."))
	got := must(c.Responses.Get(ctx, r.ID,
		responses.ResponseGetParams{Include: []responses.ResponseIncludable{"reasoning.encrypted_content"}}))
	hello(got)
	want("id", got.ID, r.ID)
}

// retrieveStream sends what this client sends for it: a GET whose body says
// "stream".
func retrieveStream(ctx context.Context, c *sdk) {
	r := c.new(ctx, c.ask("Say hello."))
	f := must(collect(c.Responses.GetStreaming(ctx, r.ID, responses.ResponseGetParams{})))
	want("text", f.text, "Hello, Ada.")
	want("last", f.last, "response.completed")
	want("id", f.response.ID, r.ID)
}

func (c *sdk) inBackground(text string) responses.ResponseNewParams {
	p := c.ask(text)
	p.Background = openai.Bool(true)
	return p
}

func open(r *responses.Response) bool { return r.Status == "queued" || r.Status == "in_progress" }

func background(ctx context.Context, c *sdk) {
	r := c.new(ctx, c.inBackground("Count."))
	want("a background response begins as "+string(r.Status)+", open", open(r), true)
	for open(r) {
		time.Sleep(20 * time.Millisecond)
		r = must(c.Responses.Get(ctx, r.ID, responses.ResponseGetParams{}))
	}
	want("status", string(r.Status), "completed")
	want("text", r.OutputText(), "1 2 3 4 5")
}

// resume leaves a stream after its third event and reads the rest.
func resume(ctx context.Context, c *sdk) {
	s := c.Responses.NewStreaming(ctx, c.inBackground("Count."))
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
	ensure(errors.Join(s.Err(), s.Close()))
	rest := must(collect(c.Responses.GetStreaming(ctx, id,
		responses.ResponseGetParams{StartingAfter: param.NewOpt(last)})))
	want("number of the next event", rest.sequence[0], last+1)
	want("text", text+rest.text, "1 2 3 4 5")
	want("last", rest.last, "response.completed")
}

func cancelled(ctx context.Context, c *sdk) {
	r := c.new(ctx, c.inBackground("Count for long."))
	for range 2 { // cancelling is idempotent
		r = must(c.Responses.Cancel(ctx, r.ID))
		want("status", string(r.Status), "cancelled")
	}
}

func deleted(ctx context.Context, c *sdk) {
	r := c.new(ctx, c.ask("Say hello."))
	ensure(c.Responses.Delete(ctx, r.ID))
	_, err := c.Responses.Get(ctx, r.ID, responses.ResponseGetParams{})
	want("status of GET after DELETE", failed(err).StatusCode, 404)
}

func inputItems(ctx context.Context, c *sdk) {
	p := c.ask("")
	p.Input = responses.ResponseNewParamsInputUnion{OfInputItemList: responses.ResponseInputParam{
		responses.ResponseInputItemParamOfMessage("One.", responses.EasyInputMessageRoleUser),
		responses.ResponseInputItemParamOfMessage("Two.", responses.EasyInputMessageRoleDeveloper),
		responses.ResponseInputItemParamOfMessage("Say hello.", responses.EasyInputMessageRoleUser),
	}}
	r := c.new(ctx, p)
	var texts []string
	pager := c.Responses.InputItems.ListAutoPaging(ctx, r.ID,
		responses.InputItemListParams{Limit: openai.Int(2), Order: "asc"})
	for len(texts) < 6 && pager.Next() { // a wrong page would come again and again
		texts = append(texts, pager.Current().AsMessage().Content[0].Text)
	}
	ensure(pager.Err())
	want("items", strings.Join(texts, " "), "One. Two. Say hello.")
}

func models(ctx context.Context, c *sdk) {
	pager := c.Models.ListAutoPaging(ctx, option.WithMaxRetries(0))
	want("there are models", pager.Next(), true)
	for pager.Next() {
	}
	ensure(pager.Err())
}
