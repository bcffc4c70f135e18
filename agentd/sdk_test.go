package agentd_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	openaisdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/ssestream"
	sdk "github.com/openai/openai-go/v3/responses"

	"holon/responses"
	"holon/responses/client"
)

// openAI is OpenAI's client of the server.
func (h *harness) openAI() openaisdk.Client {
	return openaisdk.NewClient(option.WithBaseURL("http://agentd/v1/"), option.WithHTTPClient(h.http),
		option.WithAPIKey("unused"))
}

// background begins a response with OpenAI's client and waits until its model is asked.
func (h *harness) background(c openaisdk.Client, ref string) *sdk.Response {
	h.t.Helper()
	input := sdk.ResponseNewParamsInputUnion{OfInputItemList: sdk.ResponseInputParam{
		sdk.ResponseInputItemParamOfMessage("one", sdk.EasyInputMessageRoleDeveloper),
		sdk.ResponseInputItemParamOfMessage("two", sdk.EasyInputMessageRoleUser),
	}}
	begun, err := c.Responses.New(h.t.Context(), sdk.ResponseNewParams{Model: ref, Input: input,
		Background: openaisdk.Bool(true)})
	if err != nil {
		h.t.Fatal(err)
	}
	h.gate.wait(h.t, 1)
	return begun
}

// readSDK reads a stream to its end.
func readSDK(t *testing.T, s *ssestream.Stream[sdk.ResponseStreamEventUnion]) (types []string, numbers []int64) {
	t.Helper()
	for s.Next() {
		types, numbers = append(types, s.Current().Type), append(numbers, s.Current().SequenceNumber)
	}
	if err := s.Err(); err != nil {
		t.Error(err)
	}
	return types, numbers
}

// The client of others does all that it can do with a stored response.
func TestOpenAIClientOnStoredResponses(t *testing.T) {
	t.Parallel()
	h := start(t)
	c, ctx := h.openAI(), t.Context()
	begun := h.background(c, "gate/thinker")
	if begun.Status != sdk.ResponseStatusInProgress && begun.Status != sdk.ResponseStatusQueued || begun.ID == "" {
		t.Errorf("it begins as %s", begun.Status)
	}
	eventually(t, "the output so far is shown", func() bool {
		now, err := c.Responses.Get(ctx, begun.ID, sdk.ResponseGetParams{})
		if err != nil {
			t.Fatal(err)
		}
		return len(now.Output) == 1
	})
	live := c.Responses.GetStreaming(ctx, begun.ID,
		sdk.ResponseGetParams{Include: []sdk.ResponseIncludable{sdk.ResponseIncludableReasoningEncryptedContent}})
	h.gate.release <- struct{}{}
	types, numbers := readSDK(t, live)
	if n := len(types); n < 5 || types[0] != responses.EventCreated || types[n-1] != responses.EventCompleted ||
		numbers[n-1] != int64(n-1) {
		t.Errorf("%+v, %+v, %+v", n, types, numbers)
	}
	for after := range numbers[:len(numbers)-1] {
		got, _ := readSDK(t, c.Responses.GetStreaming(ctx, begun.ID,
			sdk.ResponseGetParams{StartingAfter: openaisdk.Int(int64(after))}))
		if want := types[after+1:]; !slices.Equal(got, want) {
			t.Errorf("after %d came %v, want %v", after, got, want)
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
}

func TestOpenAIClientEndsResponses(t *testing.T) {
	t.Parallel()
	h := start(t)
	c, ctx := h.openAI(), t.Context()
	ended := h.background(c, "gate/any")
	for range 2 {
		if got, err := c.Responses.Cancel(ctx, ended.ID); err != nil || got.Status != sdk.ResponseStatusCancelled {
			t.Errorf("cancel: %+v, %v", got, err)
		}
	}
	if err := c.Responses.Delete(ctx, ended.ID); err != nil {
		t.Error(err)
	}
	_, err := c.Responses.Get(ctx, ended.ID, sdk.ResponseGetParams{})
	if e, ok := errors.AsType[*openaisdk.Error](err); !ok || e.StatusCode != 404 || e.Code != responses.CodeNotFound {
		t.Errorf("after it was deleted: %+v", e)
	}
}

func TestOpenAIClientOnModels(t *testing.T) {
	t.Parallel()
	c, ctx := start(t).openAI(), t.Context()
	list, err := c.Models.List(ctx)
	if err != nil || len(list.Data) == 0 || list.Data[0].ID != "gate/any" {
		t.Errorf("models: %+v, %v", list, err)
	}
	if m, err := c.Models.Get(ctx, "scripted/demo"); err != nil || m.ID != "scripted/demo" || m.OwnedBy != "scripted" {
		t.Errorf("a model: %+v, %v", m, err)
	}
}

// replayed returns the types of a response's events after the one numbered after.
func replayed(t *testing.T, c *client.Client, id string, after int64) (types []string) {
	t.Helper()
	for ev, err := range c.Replay(t.Context(), id, after) {
		if err != nil {
			t.Fatalf("after %d: %v", after, err)
		}
		if want := after + 1 + int64(len(types)); ev.SequenceNumber != want {
			t.Errorf("an event is numbered %d, want %d", ev.SequenceNumber, want)
		}
		types = append(types, ev.Type)
	}
	return types
}

// And so does our own.
func TestClientOnStoredResponses(t *testing.T) {
	t.Parallel()
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
	types := replayed(t, c, begun.ID, client.FromStart)
	for after := range len(types) + 2 {
		got := replayed(t, c, begun.ID, int64(after))
		if want := types[min(after+1, len(types)):]; !slices.Equal(got, want) {
			t.Errorf("after %d came %v, want %v", after, got, want)
		}
	}
	if got, err := c.GetResponse(ctx, begun.ID); err != nil || got.OutputText() != "Working. Done." {
		t.Errorf("%+v, %v", got, err)
	}
	if list, err := c.InputItems(ctx, begun.ID, client.ItemPage{Limit: 5, Ascending: true}); err != nil ||
		len(list.Data) != 1 || list.HasMore || list.FirstID == "" || list.FirstID != list.LastID {
		t.Errorf("%+v, %+v", err, list)
	}
	if models, err := c.Models(ctx); err != nil || len(models) == 0 || models[0].ID != "gate/any" ||
		models[0].OwnedBy != "gate" {
		t.Errorf("%+v, %+v", err, models)
	}
	if err := c.Delete(ctx, begun.ID); err != nil {
		t.Error(err)
	}
	_, err = c.GetResponse(ctx, begun.ID)
	if e, ok := errors.AsType[*responses.Error](err); !ok || e.Code != responses.CodeNotFound {
		t.Errorf("of what is deleted: %v", err)
	}
}
