package answers_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"holon/responses"
	"holon/runner/agent"
	"holon/runner/agent/view"
	"holon/state/ledger"
	"holon/test/expect"
)

// calling is a scenario whose first turn calls a function of the client, and whose second one goes on.
const calling = `
turns:
  - rounds: [{calls: [{id: call_w, tool: weather, arguments: {city: Bern}}]}]
  - rounds: [{text: "second"}]
after_last_turn: diverge
`

const tools = `,"tools":[{"type":"function","name":"weather"}]`

// calls begins a turn that ends with a call of a function, and returns its response.
func (l *lab) calls() *responses.Response {
	l.t.Helper()
	first := l.ask("app", "POST", "", input("weather?", tools))
	c, _ := first.Output[len(first.Output)-1].(*responses.FunctionCall)
	if c == nil || c.CallID != "call_w" {
		l.t.Fatalf("the output is %+v", first.Output)
	}
	turn, err := ledger.Read(l.t.Context(), l.store, func(v ledger.View) ([]ledger.Turn, error) {
		return v.Turns("main", 1)
	})
	expect.NoError(l.t, err)
	expect.Equal(l.t, "waiting reason", turn[0].Closure.WaitingReason, ledger.AwaitingOperator)
	return first
}

// kept checks that the conversation that agentd keeps has an item or part of a type with a text.
func (l *lab) kept(kind, text string) {
	l.t.Helper()
	found := false
	err := filepath.WalkDir(l.home.Dir(), func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || !strings.Contains(path, "/state/") {
			return err
		}
		data, err := os.ReadFile(path)
		at := bytes.Index(data, []byte(kind))
		found = found || at >= 0 && bytes.Contains(data[at:], []byte(text))
		return err
	})
	expect.NoError(l.t, err)
	if !found {
		l.t.Errorf("the conversation has no %s with %q", kind, text)
	}
}

func output(callID, previous string) string {
	return fmt.Sprintf(`{"model":"agent/main","previous_response_id":%q,"input":[{"type":"function_call_output",`+
		`"call_id":%q,"output":"sunny"}]}`, previous, callID)
}

// A client answers the call of its function by going on from the response, once.
func TestClientAnswersACall(t *testing.T) {
	l := start(t, calling)
	first := l.calls()
	l.refused("app", "POST", "", output("call_x", first.ID), http.StatusBadRequest, responses.CodeCallNotFound,
		"input[0].call_id")
	second := l.ask("app", "POST", "", output("call_w", first.ID))
	expect.Equal(t, "text", second.OutputText(), "second")
	l.kept(`"function_call_output"`, "sunny")
	l.refused("app", "POST", "", output("call_w", first.ID), http.StatusConflict, responses.CodePreviousNotLast,
		"previous_response_id")
}

// Outputs of a client that another message overtook in the queue reach the agent as what they are.
func TestLateOutput(t *testing.T) {
	l := start(t, `rounds: [{text: here}]`)
	a, err := l.runtime.Scheduler().Admit(t.Context(), ledger.Message{AgentID: "main", Kind: ledger.KindOperatorPrompt,
		Origin: ledger.Origin{Kind: ledger.OriginOperator, ActorID: "app"}, Body: ledger.Body{Type: "text", Text: "x"},
		Surface: ledger.SurfaceOpenResponses, AdmissionContext: ledger.ControlAuthenticated,
		Request: []byte(`{"input":[{"type":"function_call_output","call_id":"call_w","output":"sunny"}]}`)})
	expect.NoError(t, err)
	id := responses.PrefixResponse + strings.TrimPrefix(a.MessageID, responses.PrefixMessage)
	l.call("app", "GET", "/"+id+"?stream=true", "")
	l.kept("[late output of call call_w]", "sunny")
	shown, err := ledger.Read(t.Context(), l.store, func(v ledger.View) (view.MessageState, error) {
		return view.New(v, view.Facts{}).Message("main", a.MessageID)
	})
	expect.NoError(t, err)
	expect.Equal(t, "request in an answer of the control plane", string(shown.Message.Request), "")
}

// Another message answers the call with an error, and so does the end of the time that a client has. A restart in
// between changes nothing.
func TestACallIsAnsweredInAnyCase(t *testing.T) {
	l := start(t, calling)
	l.calls()
	l.close()
	l.open()
	expect.Equal(t, "text", l.ask("operator", "POST", "", input("never mind", "")).OutputText(), "second")
	l.kept(`"function_call_output"`, "error: the client sent no output")
}

func TestACallHasADeadline(t *testing.T) {
	l := start(t, calling, func(c *agent.Config) { c.ClientCallTimeout = time.Millisecond })
	l.ask("app", "POST", "", input("weather?", tools))
	l.until("the turn of the deadline", func(v ledger.View) (bool, error) {
		made, err := v.Turns("main", 10)
		return len(made) == 2 && made[1].Last == "second", err
	})
	l.kept(`"function_call_output"`, "error: the client sent no output")
}

// Images reach the model with the message, and a form of the answer is asked of it.
func TestImagesAndForm(t *testing.T) {
	l := start(t, `rounds: [{text: '{"n": 1}'}]`)
	const image = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kg" +
		"AAAABJRU5ErkJggg=="
	resp := l.ask("app", "POST", "", `{"model":"agent/main","input":[{"role":"user","content":[{"type":"input_image",`+
		`"image_url":"`+image+`"}]}],"text":{"format":{"type":"json_schema","name":"n","schema":{"type":"object"}}}}`)
	expect.Equal(t, "format", resp.Text.Format.Type, "json_schema")
	_, items := l.call("app", "GET", "/"+resp.ID+"/input_items", "")
	if !bytes.Contains(items, []byte(image)) {
		t.Errorf("the input items are %s", items)
	}
	l.kept(`"input_image"`, image)
}

// A picture of the operator's prompt reaches the model without a client.
func TestPictureOfAPrompt(t *testing.T) {
	l := start(t, `rounds: [{text: here}]`)
	const image = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kg" +
		"AAAABJRU5ErkJggg=="
	_, err := l.runtime.Scheduler().Admit(t.Context(), ledger.Message{AgentID: "main", Kind: ledger.KindOperatorPrompt,
		Origin: ledger.Origin{Kind: ledger.OriginOperator}, Body: ledger.Body{Type: "text", Text: "x"},
		Surface: ledger.SurfaceControlPrompt, AdmissionContext: ledger.LocalProcess, Request: []byte(
			`{"input":[{"role":"user","content":[{"type":"input_image","image_url":"` + image + `"}]}]}`)})
	expect.NoError(t, err)
	l.until("the turn of the prompt", func(v ledger.View) (bool, error) {
		made, err := v.Turns("main", 10)
		return len(made) == 1 && made[0].Last == "here", err
	})
	l.kept(`"input_image"`, image)
}

// What only agentd can judge of a request ends its response at once, and is not tried again.
func TestRefusedByAgentd(t *testing.T) {
	l := start(t, `rounds: [{text: here}]`)
	const shadow = `,"tools":[{"type":"function","name":"ExecCommand"}]`
	e := l.refused("app", "POST", "", input("x", shadow), http.StatusBadRequest, responses.CodeInvalidValue,
		"tools[0].name")
	expect.Contains(t, "the message", e.Message, "ExecCommand")
	_, live := l.call("app", "POST", "", input("x", shadow+`,"stream":true`))
	expect.Equal(t, "code", responseOf(t, live).Error.Code, responses.CodeInvalidValue)
	expect.Equal(t, "text", l.ask("app", "POST", "", input("y", "")).OutputText(), "here")
}
