package agentd_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"holon/agentd"
	"holon/agentd/config"
	"holon/internal/redact"
	"holon/responses"
	"holon/responses/turns"
	"holon/test/expect"
)

// A secret that is, or is in, the name of a tool or a word of a tool's result does not change where a reader needs the
// name or the word; as text it is hidden. A part of the mask is no different.
func TestSecretEqualsNameOfTool(t *testing.T) {
	t.Parallel()
	secrets := &redact.Set{}
	for _, value := range []string{"password", "ExecCommand", "completed", "command_timeout", "nonzero_exit",
		"disposition", "unknown_tool", "redacted]", "made_up_secret"} {
		if !secrets.Add("A_"+value, value) {
			t.Fatalf("%q is not known", value)
		}
	}
	known := func(_ *config.Config, p *agentd.Parts) { p.Secrets = secrets }
	h := start(t, known)
	h.http.Transport = h.http.Transport.(*validator).next // the protocol's schemas know no items of ours
	ref := h.scenario("names", `
rounds:
  - text: "a password, [redacted] and redacted] of ExecCommand"
    calls:
      - {tool: ExecCommand, arguments: {cmd: "echo completed ExecCommand"}}
      - {tool: get_made_up_secret, arguments: {}}
  - calls: [{tool: reset_password, arguments: {user: "password"}}]
  - text: "done"
`)
	body := `{"model":"` + ref + `",%s"tools":[{"type":"function","name":"reset_password",` +
		`"parameters":{"type":"object"}}],"include":["holon:tool_calls"],"stream":true,"holon":{"turn_id":"%s"}}`
	first := lastResponse(t, h.post(fmt.Sprintf(body, `"input":"go",`, "turn_names")).body)
	var names, words []string
	callID := ""
	for _, item := range first.Output {
		switch item := item.(type) {
		case *responses.ToolCall:
			names = append(names, item.Name)
			var result struct {
				ToolName string `json:"tool_name"`
				Result   struct {
					Disposition   string
					StdoutPreview string `json:"stdout_preview"`
				}
				Error struct{ Kind string }
			}
			if err := json.Unmarshal(item.Result, &result); err != nil {
				t.Fatalf("%s: %v", item.Result, err)
			}
			words = append(words, result.ToolName, result.Result.Disposition, result.Result.StdoutPreview,
				result.Error.Kind)
		case *responses.FunctionCall:
			names, callID = append(names, item.Name), item.CallID
			expect.Equal(t, "the call's arguments", item.Arguments, `{"user":"[redacted]"}`)
		case *responses.Message:
			expect.Equal(t, "the message", item.Text(), "a [redacted], [redacted] and [redacted] of [redacted]")
		}
	}
	if want := []string{"ExecCommand", "get__redacted_", "reset_password"}; !slices.Equal(names, want) {
		t.Errorf("the tools called are %q, want %q", names, want)
	}
	if want := []string{"ExecCommand", "completed", "[redacted] [redacted]\n", "", "get__redacted_", "", "",
		"unknown_tool"}; !slices.Equal(words, want) {
		t.Errorf("the results have %q, want %q", words, want)
	}
	for _, name := range []string{turns.EventsFile, turns.RuntimeFile} {
		data := h.read("turn_names", name)
		if bytes.Contains(data, []byte(`name":"[redacted]`)) {
			t.Errorf("%s hides a name:\n%s", name, data)
		}
		if !bytes.Contains(data, []byte(`name":"ExecCommand"`)) {
			t.Errorf("%s does not name ExecCommand:\n%s", name, data)
		}
		if bytes.Contains(data, []byte("made_up_secret")) {
			t.Errorf("%s has a name that the model made up:\n%s", name, data)
		}
	}
	h.stop()
	again := startIn(t, h.dir, known)
	again.http.Transport = again.http.Transport.(*validator).next
	input := fmt.Sprintf(`"input":[{"type":"function_call_output","call_id":%q,"output":"ok"}],`+
		`"previous_response_id":%q,`, callID, first.ID)
	next := lastResponse(t, again.post(fmt.Sprintf(body, input, "turn_next")).body)
	if next.Status != responses.StatusCompleted {
		t.Errorf("the next turn has the status %q, want %q: %+v", next.Status, responses.StatusCompleted, next.Error)
	}
}

// A secret that is a word of the protocol, or a part of ids, times, paths or names of models does not break what is stored: it can be read, also
// after a restart, and names what it did. An id that a client chooses may not hold it.
func TestSecretIsPartOfStructure(t *testing.T) {
	t.Parallel()
	for _, secret := range []string{time.Now().UTC().Format("2006-01-"), responses.NewID(responses.PrefixResponse)[:8],
		responses.NewID(responses.PrefixTurn)[:8], responses.NewID("_")[:8], "turns/tu", "scripted", "sequence",
		responses.EventItemDone, "completed"} {
		t.Run(strings.ReplaceAll(secret, "/", "_"), func(t *testing.T) {
			secrets := &redact.Set{}
			if !secrets.Add("MY_TOKEN", secret) {
				t.Fatalf("%q is not known", secret)
			}
			known := func(_ *config.Config, p *agentd.Parts) { p.Secrets = secrets }
			h := start(t, known)
			ref := h.scenario("plain", `rounds: [{text: "done with `+secret+`"}]`)
			body := `{"model":"` + ref + `","input":"say ` + secret + `","holon":{"turn_id":"mine"}}`
			first := h.post(body).response(t)
			mustRead := func(h *harness) {
				t.Helper()
				got := h.do("GET", "/responses/"+first.ID, "").response(t)
				if got.ID != first.ID || got.Model != ref || got.OutputText() != "done with "+redact.Mask {
					t.Errorf("the stored response is %s of %s, says %q; want %s of %s", got.ID, got.Model, got.OutputText(),
						first.ID, ref)
				}
				for _, path := range []string{"/turns/mine", "/turns/mine/events", "/responses/" + first.ID + "?stream=true",
					"/responses/" + first.ID + "/input_items"} {
					if answer := h.do("GET", path, ""); answer.status != 200 {
						t.Errorf("GET %s: %d %s", path, answer.status, answer.body)
					}
				}
			}
			mustRead(h)
			h.stop()
			h = startIn(t, h.dir, known)
			mustRead(h)
			next := h.post(`{"model":"` + ref + `","input":"on","previous_response_id":"` + first.ID + `"}`).response(t)
			if next.Status != responses.StatusCompleted {
				t.Errorf("the next turn is %s: %+v", next.Status, next.Error)
			}
			for _, field := range []string{"turn_id", "session_id"} {
				id := strings.ReplaceAll(secret, "/", "_")
				answer := h.post(`{"model":"` + ref + `","input":"x","holon":{"` + field + `":"x` + id + `"}}`)
				if id == secret {
					mustRefuse(t, answer, "holon."+field)
				}
			}
		})
	}
}

func mustRefuse(t *testing.T, answer answer, param string) {
	t.Helper()
	if e := answer.failure(t); answer.status != 400 || e.Param != param {
		t.Errorf("%d, param %q: %s; want 400, param %q", answer.status, e.Param, e.Message, param)
	}
}

// lastResponse returns the response that a stream ends with.
func lastResponse(t *testing.T, stream []byte) *responses.Response {
	t.Helper()
	var last responses.Event
	for line := range bytes.Lines(lines(stream)) {
		var err error
		if last, err = responses.DecodeEvent(bytes.TrimSpace(line)); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
	}
	if last.Response == nil {
		t.Fatalf("the stream ends without a response:\n%s", stream)
	}
	return last.Response
}
