package agentd_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	openaisdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/ssestream"
	sdk "github.com/openai/openai-go/v3/responses"

	"holon/responses"
	"holon/responses/client"
)

// The client of others does all that it can do with a stored response.
func TestOpenAIClientOnStoredResponses(t *testing.T) {
	h := start(t)
	c := openaisdk.NewClient(option.WithBaseURL("http://agentd/v1/"), option.WithHTTPClient(h.http),
		option.WithAPIKey("unused"))
	ctx := t.Context()
	input := sdk.ResponseNewParamsInputUnion{OfInputItemList: sdk.ResponseInputParam{
		sdk.ResponseInputItemParamOfMessage("one", sdk.EasyInputMessageRoleDeveloper),
		sdk.ResponseInputItemParamOfMessage("two", sdk.EasyInputMessageRoleUser),
	}}
	begun, err := c.Responses.New(ctx, sdk.ResponseNewParams{Model: "gate/thinker", Input: input,
		Background: openaisdk.Bool(true)})
	if err != nil {
		t.Fatal(err)
	}
	h.gate.wait(t, 1)
	if begun.Status != sdk.ResponseStatusInProgress && begun.Status != sdk.ResponseStatusQueued || begun.ID == "" {
		t.Errorf("it begins as %s", begun.Status)
	}
	var now *sdk.Response
	eventually(t, "the output so far is shown", func() bool {
		if now, err = c.Responses.Get(ctx, begun.ID, sdk.ResponseGetParams{}); err != nil {
			t.Fatal(err)
		}
		return len(now.Output) == 1
	})
	read := func(s *ssestream.Stream[sdk.ResponseStreamEventUnion]) (types []string, numbers []int64) {
		t.Helper()
		for s.Next() {
			types, numbers = append(types, s.Current().Type), append(numbers, s.Current().SequenceNumber)
		}
		if err := s.Err(); err != nil {
			t.Error(err)
		}
		return types, numbers
	}
	live := c.Responses.GetStreaming(ctx, begun.ID,
		sdk.ResponseGetParams{Include: []sdk.ResponseIncludable{sdk.ResponseIncludableReasoningEncryptedContent}})
	h.gate.release <- struct{}{}
	types, numbers := read(live)
	if n := len(types); n < 5 || types[0] != responses.EventCreated || types[n-1] != responses.EventCompleted ||
		numbers[n-1] != int64(n-1) {
		t.Errorf("the stream is %v %v", types, numbers)
	}
	for after := range numbers[:len(numbers)-1] {
		got, _ := read(c.Responses.GetStreaming(ctx, begun.ID,
			sdk.ResponseGetParams{StartingAfter: openaisdk.Int(int64(after))}))
		if want := types[after+1:]; strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("after %d came %v", after, got)
		}
	}
	if got, err := c.Responses.Get(ctx, begun.ID, sdk.ResponseGetParams{}); err != nil ||
		got.OutputText() != "Working. Done." || got.Status != sdk.ResponseStatusCompleted {
		t.Errorf("%v, %+v", err, got)
	}
	var texts []string
	pages := c.Responses.InputItems.ListAutoPaging(ctx, begun.ID,
		sdk.InputItemListParams{Limit: openaisdk.Int(1), Order: sdk.InputItemListParamsOrderAsc})
	for pages.Next() {
		texts = append(texts, pages.Current().AsMessage().Content[0].Text)
	}
	if err := pages.Err(); err != nil || strings.Join(texts, " ") != "one two" {
		t.Errorf("the input is %v, %v", texts, err)
	}
	ended, err := c.Responses.New(ctx, sdk.ResponseNewParams{Model: "gate/any", Input: input,
		Background: openaisdk.Bool(true)})
	if err != nil {
		t.Fatal(err)
	}
	h.gate.wait(t, 1)
	for range 2 {
		if got, err := c.Responses.Cancel(ctx, ended.ID); err != nil || got.Status != sdk.ResponseStatusCancelled {
			t.Errorf("cancel: %+v, %v", got, err)
		}
	}
	if err := c.Responses.Delete(ctx, begun.ID); err != nil {
		t.Error(err)
	}
	_, err = c.Responses.Get(ctx, begun.ID, sdk.ResponseGetParams{})
	if e, ok := errors.AsType[*openaisdk.Error](err); !ok || e.StatusCode != 404 || e.Code != responses.CodeNotFound {
		t.Errorf("after it was deleted: %v", err)
	}
	list, err := c.Models.List(ctx)
	if err != nil || len(list.Data) == 0 || list.Data[0].ID != "gate/any" {
		t.Errorf("models: %+v, %v", list, err)
	}
	if m, err := c.Models.Get(ctx, "scripted/demo"); err != nil || m.ID != "scripted/demo" || m.OwnedBy != "scripted" {
		t.Errorf("a model: %+v, %v", m, err)
	}
}

// And so does our own.
func TestClientOnStoredResponses(t *testing.T) {
	h := start(t)
	c := client.Unix(h.cfg.Server.Socket)
	defer c.Close()
	ctx := t.Context()
	begun, err := c.Background(ctx, responses.NewRequest("gate/thinker", responses.UserMessage("go")))
	if err != nil || begun.Status.Terminal() {
		t.Fatalf("%+v, %v", begun, err)
	}
	h.gate.wait(t, 1)
	h.gate.release <- struct{}{}
	var types []string
	for ev, err := range c.Replay(ctx, begun.ID, client.FromStart) {
		if err != nil {
			t.Fatal(err)
		}
		if ev.SequenceNumber != int64(len(types)) {
			t.Errorf("event %d is numbered %d", len(types), ev.SequenceNumber)
		}
		types = append(types, ev.Type)
	}
	for after := range len(types) + 2 {
		var got []string
		for ev, err := range c.Replay(ctx, begun.ID, int64(after)) {
			if err != nil {
				t.Fatalf("after %d: %v", after, err)
			}
			got = append(got, ev.Type)
		}
		if want := types[min(after+1, len(types)):]; fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("after %d came %v", after, got)
		}
	}
	if got, err := c.GetResponse(ctx, begun.ID); err != nil || got.OutputText() != "Working. Done." {
		t.Errorf("%+v, %v", got, err)
	}
	if list, err := c.InputItems(ctx, begun.ID, client.ItemPage{Limit: 5, Ascending: true}); err != nil ||
		len(list.Data) != 1 || list.HasMore || list.FirstID == "" || list.FirstID != list.LastID {
		t.Errorf("%+v, %v", list, err)
	}
	if models, err := c.Models(ctx); err != nil || len(models) == 0 || models[0].ID != "gate/any" ||
		models[0].OwnedBy != "gate" {
		t.Errorf("%+v, %v", models, err)
	}
	if err := c.Delete(ctx, begun.ID); err != nil {
		t.Error(err)
	}
	for what, call := range map[string]func() error{
		"get":    func() error { _, err := c.GetResponse(ctx, begun.ID); return err },
		"delete": func() error { return c.Delete(ctx, begun.ID) },
		"items":  func() error { _, err := c.InputItems(ctx, begun.ID, client.ItemPage{}); return err },
		"replay": func() (last error) {
			for _, err := range c.Replay(ctx, begun.ID, 3) {
				last = err
			}
			return last
		},
	} {
		if e, ok := errors.AsType[*responses.Error](call()); !ok || e.Code != responses.CodeNotFound {
			t.Errorf("%s of what is deleted: %v", what, e)
		}
	}
}
