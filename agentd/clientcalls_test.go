package agentd_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"holon/responses"
	"holon/responses/turns"
	"holon/test/expect"
)

// factsOf returns the facts of a turn that are of the given classes, in order.
func (h *harness) factsOf(turnID string, classes ...string) (list []turns.RuntimeEvent) {
	h.t.Helper()
	data := h.read(turnID, turns.RuntimeFile)
	for line := range strings.Lines(string(data)) {
		ev, err := turns.DecodeRuntimeEvent([]byte(line))
		expect.NoError(h.t, err)
		if slices.Contains(classes, ev.Type) {
			list = append(list, ev)
		}
	}
	return list
}

// payloadOf returns the payload of a fact.
func payloadOf(t *testing.T, ev turns.RuntimeEvent) (p map[string]any) {
	t.Helper()
	expect.NoError(t, json.Unmarshal(ev.Payload, &p))
	return p
}

// A call of the client's function is a fact from when it is made to when its output comes. The end of the test holds
// the logs of all its turns to the rules of the standard.
func TestACallOfTheClientIsAFact(t *testing.T) {
	t.Parallel()
	h := start(t)
	ref := h.scenario("weather", "rounds: [{calls: [{id: call_w, tool: weather, arguments: {city: Bern}}]}, "+
		"{text: It is sunny.}]")
	send := func(turn, fields string) *responses.Response {
		return h.post(fmt.Sprintf(`{"model":%q,"tools":[{"type":"function","name":"weather"}],"holon":{"turn_id":%q},%s}`,
			ref, turn, fields)).response(t)
	}
	first := send("turn_1", `"input":"Weather?"`)
	answer := `"previous_response_id":"` + first.ID + `","input":[{"type":"function_call_output","call_id":"call_w",` +
		`"output":"sunny"}]`
	send("turn_2", answer)
	send("turn_3", answer) // a fork
	send("turn_4", `"store":false,`+answer)

	made := h.factsOf("turn_1", turns.ModelCompleted, turns.ToolStarted, turns.ActionRequired, turns.TurnCompleted)
	if len(made) != 3 {
		t.Fatalf("the call gave %d facts, want model.completed, action.required and turn.completed", len(made))
	}
	action, p := made[1], payloadOf(t, made[1])
	if !strings.HasPrefix(action.ToolCallID, responses.PrefixToolCall) || p["tool_name"] != "weather" ||
		p["call_id"] != "call_w" || p["host"] != "client" || p["policy"] != "allow" ||
		p["safe_args"] != `{"city":"Bern"}` || p["action_type"] != "client_tool_output" {
		t.Errorf("the action is %s of %s", action.Payload, action.ToolCallID)
	}
	if got := payloadOf(t, made[0])["tool_call_ids"]; !slices.Equal(got.([]any), []any{action.ToolCallID}) {
		t.Errorf("the answer of the model names the calls %v", got)
	}
	if action.Correlation.CausationID != made[0].EventID {
		t.Error("the action is not caused by the answer of the model")
	}
	if got := payloadOf(t, made[2])["open_action_ids"]; !slices.Equal(got.([]any), []any{action.ActionID}) {
		t.Errorf("the turn ends with the open actions %v", got)
	}

	given := h.factsOf("turn_2", turns.TurnSubmitted, turns.ActionResolved, turns.ToolStarted, turns.ToolResult)
	if len(given) != 4 || given[1].ActionID != action.ActionID || given[3].ToolCallID != action.ToolCallID ||
		payloadOf(t, given[3])["preview"] != "sunny" {
		t.Fatalf("the output gave %+v", given)
	}
	for i, ev := range given[1:] {
		expect.Equal(t, ev.Type+": is caused by", ev.Correlation.CausationID, given[i].EventID)
	}
	for _, turn := range []string{"turn_3", "turn_4"} {
		given := h.factsOf(turn, turns.ActionResolved, turns.ToolStarted, turns.ToolResult)
		if len(given) != 2 || given[0].ToolCallID == action.ToolCallID {
			t.Errorf("the output gave %+v in %s, which is a fork", given, turn)
		}
	}
}

// A turn that ends in another way after it made a call leaves the call open too.
func TestACallOfTheClientOutlivesAFailure(t *testing.T) {
	t.Parallel()
	h := start(t)
	ref := h.scenario("weather", "rounds: [{calls: [{id: call_w, tool: weather, arguments: {}}], "+
		"error: {kind: overloaded}}, {text: It is sunny.}]")
	body := fmt.Sprintf(`{"model":%q,"tools":[{"type":"function","name":"weather"}],`, ref)
	h.post(body + `"holon":{"turn_id":"turn_1"},"input":"Weather?"}`)
	end := h.factsOf("turn_1", turns.ActionRequired, turns.TurnFailed)
	if len(end) != 2 || !strings.Contains(string(end[1].Payload), end[0].ActionID) {
		t.Fatalf("the facts are %+v", end)
	}
	h.post(body + `"holon":{"turn_id":"turn_2"},"previous_response_id":"` + h.record("turn_1").ResponseID +
		`","input":[{"type":"function_call_output","call_id":"call_w","output":"sunny"}]}`).response(t)
	if got := h.factsOf("turn_2", turns.ActionResolved); len(got) != 1 || got[0].ActionID != end[0].ActionID {
		t.Errorf("the answer resolved %+v", got)
	}
}
