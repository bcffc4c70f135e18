package agentd_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	openaisdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	sdk "github.com/openai/openai-go/v3/responses"

	"holon/agentd"
	"holon/agentd/config"
	"holon/responses"
	"holon/responses/turns"
	"holon/test/conform"
	"holon/test/conform/schema"
)

const hello = `
rounds:
  - reasoning: A greeting is asked for.
    text: Hello there.
    usage: {input_tokens: 10, output_tokens: 3, cached_tokens: 4, reasoning_tokens: 1}
`

// The cases of package conform that need no more than a model that talks; the
// others are run against the program itself, in test/clients.
func TestConformance(t *testing.T) {
	t.Parallel()
	h := start(t, func(c *config.Config, _ *agentd.Parts) { c.Server.Listen = "127.0.0.1:0" })
	ref := h.scenario("hello", hello)
	cases := slices.DeleteFunc(conform.Cases(), func(c conform.Case) bool {
		return c.ID != "streaming-response" && !strings.HasPrefix(c.ID, "accepts/") &&
			!strings.HasPrefix(c.ID, "streams/ndjson") && !strings.HasPrefix(c.ID, "errors/unknown")
	})
	doc, err := schema.Official()
	if err != nil {
		t.Fatal(err)
	}
	target := conform.Target{BaseURL: "http://agentd", Socket: h.cfg.Server.Socket, Model: ref, Schemas: doc}
	t.Run("unix", func(t *testing.T) { conform.Run(t, target, cases) })
	target.BaseURL = "http://agentd/v1"
	t.Run("unix, v1", func(t *testing.T) { conform.Run(t, target, cases) })
	target.BaseURL, target.Socket = "http://"+h.tcp+"/v1", ""
	t.Run("tcp", func(t *testing.T) { conform.Run(t, target, cases) })
}

func TestOpenAIClient(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.scenario("chat", "turns:\n  - rounds: [{text: My name is Ada.}]\n  - rounds: [{text: I said Ada.}]\n")
	client := openaisdk.NewClient(option.WithBaseURL("http://agentd/v1/"), option.WithHTTPClient(h.http),
		option.WithAPIKey("unused"))
	ask := func(text, previous string) sdk.ResponseNewParams {
		p := sdk.ResponseNewParams{Model: "scripted/chat",
			Input: sdk.ResponseNewParamsInputUnion{OfString: openaisdk.String(text)}}
		if previous != "" {
			p.PreviousResponseID = openaisdk.String(previous)
		}
		return p
	}
	first, err := client.Responses.New(t.Context(), ask("Who are you?", ""))
	if err != nil {
		t.Fatal(err)
	}
	if first.OutputText() != "My name is Ada." || first.Status != "completed" {
		t.Errorf("the answer is %q, %s", first.OutputText(), first.Status)
	}
	s := client.Responses.NewStreaming(t.Context(), ask("What did you say?", first.ID))
	var text strings.Builder
	var last sdk.ResponseStreamEventUnion
	for s.Next() {
		last = s.Current()
		text.WriteString(last.AsResponseOutputTextDelta().Delta)
	}
	if err := s.Err(); err != nil {
		t.Fatal(err)
	}
	if last.Type != responses.EventCompleted || text.String() != "I said Ada." ||
		last.Response.PreviousResponseID != first.ID {
		t.Errorf("%+v, %+v, %+v", last, text, first)
	}
	_, err = client.Responses.New(t.Context(), ask("And?", "resp_nowhere"))
	if e := (*openaisdk.Error)(nil); !errors.As(err, &e) || e.StatusCode != 404 ||
		e.Code != responses.CodePreviousNotFound || e.Param != "previous_response_id" {
		t.Errorf("%+v, %+v", err, e)
	}
	got, err := client.Responses.Get(t.Context(), last.Response.ID, sdk.ResponseGetParams{})
	if err != nil || got.OutputText() != "I said Ada." {
		t.Errorf("stored: %v, %v", got, err)
	}
}

// What a client reads, in either framing, is what lies on disk.
func TestEventLogIsTheStream(t *testing.T) {
	t.Parallel()
	h := start(t)
	ref := h.scenario("work", `
rounds:
  - text: "Looking at <files> & \"quotes\"."
    calls: [{tool: ExecCommand, arguments: {cmd: echo hi}}]
  - text: Done.
`)
	body := `{"model":"` + ref + `","input":"go","stream":true,"holon":{"turn_id":"turn_%s"}}`
	sse := h.post(fmt.Sprintf(body, "sse"))
	file, err := os.ReadFile(h.file("turn_sse", turns.EventsFile))
	if err != nil {
		t.Fatal(err)
	}
	if got := lines(sse.body); !bytes.Equal(got, file) || len(file) == 0 {
		t.Errorf("the stream is\n%s\nand the file\n%s", got, file)
	}
	if again := h.post(fmt.Sprintf(body, "sse")); !bytes.Equal(again.body, sse.body) {
		t.Error("the same request gets another stream")
	}
	nd := h.post(fmt.Sprintf(body, "nd"), "Accept", "application/x-ndjson")
	if file, err = os.ReadFile(h.file("turn_nd", turns.EventsFile)); err != nil || !bytes.Equal(nd.body, file) {
		t.Errorf("NDJSON differs from the file (%v)", err)
	}
	if sse.header.Get("X-Should-Retry") != "false" || sse.header.Get("X-Request-Id") == "" {
		t.Errorf("headers %v", sse.header)
	}
	if bytes.Contains(sse.body, []byte("ExecCommand")) {
		t.Error("the container's own tool is on the stream")
	}
}

func TestRuntimeEvents(t *testing.T) {
	t.Parallel()
	h := start(t)
	ref := h.scenario("work", "rounds:\n  - calls: [{tool: ExecCommand, arguments: {cmd: 'echo hi; exit 3'}}, "+
		"{tool: NoSuchTool, arguments: {}}]\n  - text: Done.\n")
	if resp := h.post(`{"model":"` + ref +
		`","input":"go","holon":{"turn_id":"turn_a"}}`).response(t); resp.Status != responses.StatusCompleted {
		t.Fatalf("the turn is %s", resp.Status)
	}
	var classes []string
	read := func(query string) (n int) {
		classes = nil
		for line := range bytes.Lines(h.do(http.MethodGet, "/turns/turn_a/events"+query, "").body) {
			ev, err := turns.DecodeRuntimeEvent(line)
			if err != nil {
				t.Fatalf("%v: %s", err, line)
			}
			classes = append(classes, ev.Type)
		}
		return len(classes)
	}
	n := read("?follow=true")
	want := "thread.started turn.submitted turn.started sandbox.applied tool.catalog.resolved context.resolved " +
		"routing.decided model.requested model.completed cost.recorded tool.started process.started process.completed " +
		"tool.result tool.started tool.failed model.requested model.completed cost.recorded " +
		"turn.completed"
	if strings.Join(classes, " ") != want {
		t.Errorf("the facts are %v", classes)
	}
	if got := read("?after=4"); got != n-4 {
		t.Errorf("%d facts after the 4th of %d", got, n)
	}
	rec := h.record("turn_a")
	if rec.Rounds != 2 || rec.ToolCalls.Total != 2 || rec.ToolCalls.Failed != 1 ||
		rec.Status != responses.StatusCompleted || len(rec.Artifacts) != 1 {
		t.Errorf("%+v", rec)
	}
	served := h.do(http.MethodGet, "/turns/turn_a", "")
	var disk, wire any
	file, err := os.ReadFile(h.file("turn_a", turns.RecordFile))
	if err = errors.Join(err, json.Unmarshal(file, &disk), json.Unmarshal(served.body, &wire)); err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(disk) != fmt.Sprint(wire) {
		t.Errorf("GET answers\n%v\nand the disk has\n%v", wire, disk)
	}
	for query, code := range map[string]string{"/turns/turn_a/events?after=-1": responses.CodeInvalidValue,
		"/turns/turn_b/events": responses.CodeTurnNotFound, "/turns/a%2Fb": responses.CodeInvalidValue,
		"/turns/..": responses.CodeInvalidValue, "/turns/x.y": responses.CodeInvalidValue,
		"/turns/turn_b": responses.CodeTurnNotFound} {
		if e := h.do(http.MethodGet, query, "").failure(t); e.Code != code {
			t.Errorf("%s: %s, want %s", query, e.Code, code)
		}
	}
}

func TestClientFunctionsEndTheTurn(t *testing.T) {
	t.Parallel()
	h := start(t)
	ref := h.scenario("weather", `
rounds:
  - text: I need the weather.
    calls: [{tool: weather, id: call_w, arguments: {city: Bern}}]
  - cases:
      - when: {contains: rain}
        text: Take an umbrella.
`)
	tool := `"tools":[{"type":"function","name":"weather","parameters":{"type":"object"}}]`
	first := h.post(`{"model":"` + ref + `","input":"Umbrella?",` + tool + `}`).response(t)
	if first.Status != responses.StatusCompleted || len(first.Output) != 2 {
		t.Fatalf("the turn is %s with %d items", first.Status, len(first.Output))
	}
	call, ok := first.Output[1].(*responses.FunctionCall)
	if !ok || call.CallID != "call_w" || call.Arguments != `{"city":"Bern"}` {
		t.Fatalf("%+v", call)
	}
	if m := first.Output[0].(*responses.Message); m.Phase != responses.PhaseCommentary {
		t.Errorf("the text before the call is %q", m.Phase)
	}
	e := h.post(`{"model":"` + ref + `","input":"Well?","previous_response_id":"` + first.ID + `"}`).failure(t)
	if e.Code != responses.CodeMissingParameter || !strings.Contains(e.Message, "call_w") {
		t.Errorf("a question before the answer: %v", e)
	}
	second := h.post(`{"model":"` + ref + `","previous_response_id":"` + first.ID + `",` + tool +
		`,"input":[{"type":"function_call_output","call_id":"call_w","output":"rain"}]}`).response(t)
	if second.OutputText() != "Take an umbrella." {
		t.Errorf("the answer is %q", second.OutputText())
	}
}
