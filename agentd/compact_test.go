package agentd_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"holon/agentd"
	"holon/agentd/config"
	"holon/responses"
	"holon/test/conform/schema"
	"holon/test/expect"
)

// compaction is an answer of POST /responses/compact.
type compaction struct {
	Object string          `json:"object"`
	Output responses.Items `json:"output"`
	Raw    json.RawMessage `json:"-"` // the output as it came
	Usage  responses.Usage `json:"usage"`
}

func (h *harness) compact(body string) compaction {
	h.t.Helper()
	a := h.do(http.MethodPost, "/v1/responses/compact", body)
	var c compaction
	var raw struct{ Output json.RawMessage }
	if err := json.Unmarshal(a.body, &c); err != nil || a.status != http.StatusOK {
		h.t.Fatalf("%d %v: %.500s", a.status, err, a.body)
	}
	expect.NoError(h.t, json.Unmarshal(a.body, &raw))
	c.Raw = raw.Output
	for _, item := range c.Output {
		if item.ItemID() == "" {
			h.t.Errorf("an item has no id: %+v", item)
		}
	}
	if doc, err := schema.Official(); err != nil {
		h.t.Error(err)
	} else if err := doc.Object("CompactResource", a.body); err != nil {
		h.t.Error(err)
	}
	return c
}

// A stored conversation with commands and an open call is compacted, and what
// comes of it is the beginning of a new conversation, by POST and WebSocket.
func TestCompactStoredConversation(t *testing.T) {
	t.Parallel()
	h := start(t)
	ref := h.scenario("work", `
rounds:
  - calls: [{tool: ExecCommand, arguments: {cmd: echo the code word is plum}}]
  - calls: [{tool: weather, id: call_w, arguments: {city: Bern}}]
summary: {text: "SUMMARY of {{last_user}}", usage: {input_tokens: 30, output_tokens: 7}}
`)
	const tool = `"tools":[{"type":"function","name":"weather","parameters":{"type":"object"}}]`
	first := h.post(`{"model":"` + ref + `","input":"Umbrella?",` + tool + `}`).response(t)
	c := h.compact(`{"model":"` + ref + `","previous_response_id":"` + first.ID + `"}`)
	if c.Object != "response.compaction" || c.Usage.TotalTokens != 37 || len(c.Output) != 3 {
		t.Fatalf("%+v", c)
	}
	kept, ok := c.Output[0].(*responses.Message)
	if !ok || kept.Text() != "Umbrella?" || kept.Role != responses.RoleUser {
		t.Errorf("%+v", kept)
	}
	if call, ok := c.Output[2].(*responses.FunctionCall); !ok || call.CallID != "call_w" {
		t.Errorf("the open call is %+v", c.Output[2])
	}
	if strings.Contains(string(c.Raw), "plum") {
		t.Error("the summary can be read")
	}
	if h.do(http.MethodGet, "/responses/"+first.ID, "").response(t).ID != first.ID {
		t.Error("the compacted response is gone")
	}
	// The model of the next conversation sees the summary, and the summary the command.
	next := h.scenario("next", `
rounds:
  - calls: [{tool: weather, id: call_w}]
  - expect: {user: {contains: ["SUMMARY of", "the code word is plum", '"call":"weather"']}}
    text: As before.
`)
	input := strings.TrimSuffix(string(c.Raw), "]") +
		`,{"type":"function_call_output","call_id":"call_w","output":"rain"}]`
	if resp := h.post(`{"model":"` + next + `","store":false,"input":` + input +
		`}`).response(t); resp.OutputText() != "As before." {
		t.Errorf("it goes on with %q, %v", resp.OutputText(), resp.Error)
	}
	w := h.dial()
	w.create(`"model":"` + next + `","store":false,"input":` + input)
	_, resp := w.turn()
	if resp.OutputText() != "As before." {
		t.Errorf("on a WebSocket with %q, %v", resp.OutputText(), resp.Error)
	}
	// A compacted conversation can be compacted again: the old summary is part of the new one.
	again := h.compact(`{"model":"` + ref + `","input":` + input + `}`)
	if len(again.Output) != 2 {
		t.Fatalf("compacted again to %s", again.Raw)
	}
	second := h.scenario("second", "rounds: [{expect: {user: {contains: ['earlier summary', plum, rain]}}, text: "+
		"Still there.}]")
	if resp := h.post(`{"model":"` + second + `","input":` + string(again.Raw) +
		`}`).response(t); resp.OutputText() != "Still there." {
		t.Errorf("after the second compaction: %q, %v", resp.OutputText(), resp.Error)
	}
}

func TestCompactErrors(t *testing.T) {
	t.Parallel()
	h := start(t)
	ref := h.scenario("down", "rounds: [{text: x}]\nsummary: {error: {status: 503, message: try later}}")
	foreign := `[{"type":"compaction","encrypted_content":"gAAAAABpM0Yj"},{"role":"user","content":"x"}]`
	for name, c := range map[string]struct {
		body        string
		status      int
		code, param string
	}{
		"no model":      {`{"input":"x"}`, 400, responses.CodeMissingParameter, "model"},
		"null model":    {`{"model":null,"input":"x"}`, 400, responses.CodeMissingParameter, "model"},
		"unknown model": {`{"model":"acme/x","input":"x"}`, 400, responses.CodeModelNotFound, "model"},
		"nothing":       {`{"model":"` + ref + `"}`, 400, responses.CodeMissingParameter, "input"},
		"an empty list": {`{"model":"` + ref + `","input":[]}`, 400, responses.CodeMissingParameter, "input"},
		"unknown response": {`{"model":"` + ref + `","previous_response_id":"resp_x"}`, 404,
			responses.CodePreviousNotFound, "previous_response_id"},
		"an orphan": {`{"model":"` + ref +
			`","input":[{"type":"function_call_output","call_id":"c","output":"x"}]}`, 400, responses.CodeCallNotFound,
			"input[0].call_id"},
		"a foreign blob": {`{"model":"` + ref + `","input":` + foreign + `}`, 400,
			responses.CodeCompactionUnreadable, "input[0].encrypted_content"},
		"a long cache key": {`{"model":"` + ref + `","input":"x","prompt_cache_key":"` + strings.Repeat("k", 65) +
			`"}`, 400, responses.CodeInvalidValue, "prompt_cache_key"},
		"a model that fails": {`{"model":"` + ref + `","input":"x"}`, 500, responses.CodeProviderUnavailable, ""},
	} {
		a := h.do(http.MethodPost, "/responses/compact", c.body)
		a.refused(t, c.status, c.code, c.param)
		if a.header.Get("X-Should-Retry") != "false" {
			t.Errorf("%s: a client would try again", name)
		}
	}
	if e := h.post(`{"model":"` + ref + `","input":` + foreign +
		`}`).failure(t); e.Code != responses.CodeCompactionUnreadable ||
		e.Param != "input[0].encrypted_content" || e.Hint == "" {
		t.Errorf("a foreign blob as input: %+v", e)
	}
}

// A compaction waits for no turn, and ends with its server.
func TestCompactBesideATurn(t *testing.T) {
	t.Parallel()
	h := start(t, func(c *config.Config, _ *agentd.Parts) {
		c.Turns.Concurrency, c.Turns.Grace = 1, 10*time.Millisecond
	})
	ref := h.scenario("hello", hello)
	running := h.later(t.Context(), `{"input":"x"}`)
	h.gate.wait(t, 1)
	h.compact(`{"model":"` + ref + `","input":"x"}`)
	stuck := make(chan answer, 1)
	go func() {
		a, _ := h.try(t.Context(), http.MethodPost, "/responses/compact", `{"model":"gate/any","input":"x"}`)
		stuck <- a
	}()
	h.gate.wait(t, 1)
	h.server.Shutdown()
	if a := get(t, stuck); a.status != 503 || a.failure(t).Code != responses.CodeDraining {
		t.Errorf("at the end of the grace: %d %.300s", a.status, a.body)
	}
	get(t, running)
}

func TestInputTokens(t *testing.T) {
	t.Parallel()
	h := start(t)
	ref := h.scenario("hello", hello)
	count := func(body string) int {
		t.Helper()
		a := h.do(http.MethodPost, "/responses/input_tokens", body)
		var c struct {
			Object string `json:"object"`
			Tokens int    `json:"input_tokens"`
		}
		if err := json.Unmarshal(a.body, &c); err != nil || a.status != http.StatusOK ||
			c.Object != "response.input_tokens" {
			t.Fatalf("%d %v: %.300s", a.status, err, a.body)
		}
		return c.Tokens
	}
	short := count(`{"input":"hello"}`)
	if short < 200 || short != count(`{"input":"hello","model":"acme/unknown"}`) {
		t.Errorf("a short input has %d tokens", short)
	}
	text := strings.Repeat("word ", 1000) // 1250 tokens
	if n := count(`{"input":` + quote(text) + `}`); n-short < 1200 || n-short > 1300 {
		t.Errorf("a long one has %d more", n-short)
	}
	if n := count(`{"input":"hello","instructions":` + quote(text) + `}`); n-short < 1200 {
		t.Errorf("instructions have %d", n-short)
	}
	if n := count(`{"input":"hello","tools":[{"type":"function","name":"f","description":` + quote(text) +
		`}]}`); n-short < 1200 {
		t.Errorf("tools have %d", n-short)
	}
	first := h.post(`{"model":"` + ref + `","input":` + quote(text) + `}`).response(t)
	if n := count(`{"input":"hello","previous_response_id":"` + first.ID + `"}`); n-short < 1200 {
		t.Errorf("the history has %d", n-short)
	}
	for body, code := range map[string]string{`{"input":5}`: responses.CodeInvalidValue,
		`{"previous_response_id":"resp_x"}`: responses.CodePreviousNotFound,
		`{"input":" "}`:                     responses.CodeMissingParameter,
		`{"input":"x","tool_choice":{"type":"function","name":"Fly"}}`:       responses.CodeInvalidValue,
		`{"input":"x","background":true,"holon":{"on_disconnect":"cancel"}}`: responses.CodeInvalidValue,
	} {
		if e := h.do(http.MethodPost, "/responses/input_tokens", body).failure(t); e.Code != code {
			t.Errorf("%s: %v", body, e)
		}
	}
}
