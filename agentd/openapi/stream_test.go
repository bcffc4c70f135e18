package openapi_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"holon/responses"
	"holon/test/expect"
)

// stream drives an emitter as a turn could, in random order, and returns its
// events; those of tools in the container are part of them when asked for.
func (m maker) stream(req *responses.Request, tools bool) [][]byte {
	resp := responses.NewResponse("resp_1", "m", 1, req)
	resp.Status = pick(m, responses.StatusInProgress, responses.StatusQueued)
	var events [][]byte
	e, err := responses.NewEmitter(resp, func(_ string, data []byte) error {
		events = append(events, bytes.Clone(data))
		return nil
	})
	if err != nil {
		m.Fatal(err)
	}
	prob := []responses.LogProb{{Token: "t", Bytes: []int{2}}}
	acts := []func(int) error{
		func(int) error { return e.BeginMessage(pick(m, "", responses.PhaseCommentary)) },
		func(int) error { return e.Text(m.text()) },
		func(int) error { e.Annotate(m.annotation()); return e.TextLogprobs(m.text(), prob) },
		func(int) error { return e.Refusal(m.text()) },
		func(int) error { return e.BeginReasoning() },
		func(int) error { return e.Summary(m.text()) },
		func(int) error { return e.ReasoningText(m.text()) },
		func(int) error { e.SetEncryptedReasoning(m.text()); return nil },
		func(i int) error { return e.BeginFunctionCall(fmt.Sprint("call_", i), "f") },
		func(int) error { _ = e.Arguments(m.text()); return nil },
		func(i int) error {
			if !tools {
				return nil
			}
			c := &responses.ToolCall{ID: m.id(), CallID: fmt.Sprint("call_", i), Name: "ExecCommand", Arguments: "{}"}
			if err := e.BeginToolCall(c); err != nil {
				return err
			}
			c.Output, c.Result = m.text(), json.RawMessage(`{}`)
			return e.EndToolCall(c)
		},
		func(int) error { return e.EndItem() },
	}
	for i := range rapid.IntRange(0, 30).Draw(m.T, "acts") {
		_ = rapid.SampledFrom(acts).Draw(m.T, "act")(i) // what makes no sense is refused
	}
	end := []func() error{
		func() error { return e.Complete(responses.Usage{}, 5) },
		func() error { return e.Incomplete(responses.ReasonTimeout, responses.Usage{}) },
		func() error { return e.Fail(responses.Internal("broken", nil), responses.Usage{}) },
		func() error { return e.Cancel(nil, responses.Usage{}) },
	}
	_ = rapid.SampledFrom(end).Draw(m.T, "end")()
	return events
}

func TestEventsAreWhatIsDescribed(t *testing.T) {
	doc := strict(t)
	seen := map[string]bool{}
	req, err := responses.DecodeRequest([]byte(`{"tools":[{"type":"function","name":"f"}]}`))
	expect.NoError(t, err)
	rapid.Check(t, func(rt *rapid.T) {
		for _, data := range (maker{rt}).stream(req, true) {
			expect.NoError(rt, doc.Event(data))
			expect.NoError(rt, doc.Object("StreamingEvent", data))
			seen[responses.EventType(data)] = true
		}
	})
	for _, data := range everything(t, req) {
		expect.NoError(t, doc.Event(data))
		seen[responses.EventType(data)] = true
	}
	seen[responses.EventError] = true // it is not sent
	if got, want := slices.Sorted(maps.Keys(seen)), doc.Events(); !slices.Equal(got, want) {
		t.Errorf("the events %v were seen, want %v", got, want)
	}
}

// everything is streams that together have every event.
func everything(t *testing.T, req *responses.Request) (events [][]byte) {
	t.Helper()
	sink := func(_ string, data []byte) error {
		events = append(events, bytes.Clone(data))
		return nil
	}
	for _, end := range []func(e *responses.Emitter) error{
		func(e *responses.Emitter) error { return e.Complete(responses.Usage{}, 5) },
		func(e *responses.Emitter) error { return e.Incomplete(responses.ReasonTimeout, responses.Usage{}) },
		func(e *responses.Emitter) error { return e.Cancel(nil, responses.Usage{}) },
	} {
		resp := responses.NewResponse("resp_1", "m", 1, req)
		resp.Status = responses.StatusQueued
		e, err := responses.NewEmitter(resp, sink)
		expect.NoError(t, err)
		err = errors.Join(e.BeginMessage(""), e.Text("a"))
		e.Annotate(responses.Annotation{Type: "url_citation", URL: "u"})
		err = errors.Join(err, e.Refusal("b"), e.BeginReasoning(), e.Summary("c"), e.EndItem(), e.BeginReasoning(),
			e.ReasoningText("d"),
			e.BeginFunctionCall("call_1", "f"), e.Arguments("{}"), e.EndItem(), end(e))
		expect.NoError(t, err)
	}
	return events
}
