package agentd_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"holon/agentd/model"
	"holon/responses"
	"holon/test/expect"
)

// rememberer is a model that thinks, runs a command, asks the client, and then
// answers. It remembers what it was told.
type rememberer struct {
	mu   sync.Mutex
	told [][]byte // the conversation of each request, without ids
}

func (m *rememberer) Stream(_ context.Context, req model.Request) iter.Seq2[model.Event, error] {
	return func(yield func(model.Event, error) bool) {
		m.mu.Lock()
		m.told = append(m.told, withoutIDs(req.Input))
		m.mu.Unlock()
		say := func(events ...model.Event) {
			for _, ev := range append(events, model.Event{Kind: model.Done, Stop: model.StopEnd}) {
				if !yield(ev, nil) {
					return
				}
			}
		}
		call := func(id, name, args string) []model.Event {
			return []model.Event{{Kind: model.CallBegin, CallID: id, Name: name}, {Kind: model.CallEnd, Text: args}}
		}
		ran, asked := false, false
		for _, item := range req.Input {
			switch item.(type) {
			case *responses.ToolCall:
				ran = true
			case *responses.FunctionCallOutput:
				asked = true
			}
		}
		switch {
		case !ran:
			say(append([]model.Event{{Kind: model.ReasoningBegin}, {Kind: model.SummaryDelta, Text: "hm"},
				{Kind: model.ReasoningEnd, Text: "opaque"}, {Kind: model.MessageBegin},
				{Kind: model.TextDelta, Text: "I look."}}, append(call("c1", "ExecCommand",
				`{"cmd":"echo out; exit 3"}`), call("c2", "Nonsense", `{`)...)...)...)
		case !asked:
			say(call("c3", "ask", `{"q":1}`)...)
		default:
			say(model.Event{Kind: model.TextDelta, Text: "Done."})
		}
	}
}

func withoutIDs(items responses.Items) []byte {
	data, err := json.Marshal(items)
	if err != nil {
		return []byte(err.Error())
	}
	var list []map[string]any
	if err := json.Unmarshal(data, &list); err != nil {
		return []byte(err.Error())
	}
	rounds := make(map[any]int)
	for _, item := range list {
		delete(item, "id")                  // models do not see it
		delete(item, "artifact_dir")        // which is the turn's
		if round, ok := item["round"]; ok { // nor that, but for which calls have the same
			if rounds[round] == 0 {
				rounds[round] = len(rounds) + 1
			}
			item["round"] = rounds[round]
		}
	}
	if data, err = json.MarshalIndent(list, "", " "); err != nil {
		return []byte(err.Error())
	}
	return data
}

// A client that keeps the conversation itself, and sends the output back as it
// came, has the same conversation as one that names the previous response.
func TestOutputSentBackIsTheSameConversation(t *testing.T) {
	t.Parallel()
	m := &rememberer{}
	h := start(t, alone(t, "gate", "any", m))
	const fields = `"tools":[{"type":"function","name":"ask"}],"include":["holon:tool_calls",` +
		`"reasoning.encrypted_content"]`
	const output = `{"type":"function_call_output","call_id":"c3","output":"42"}`
	user := `{"role":"user","content":"go"}`

	h.http.Transport = h.http.Transport.(*validator).next // the protocol's schemas know no items of ours
	send := func(body string) *responses.Response {
		resp, err := responses.DecodeResponse(h.post(body).body)
		if err != nil || resp.Status != responses.StatusCompleted {
			t.Fatalf("%+v, %v", resp, err)
		}
		return resp
	}
	first := send(`{"input":[` + user + `],` + fields + `}`)
	send(`{"input":[` + output + `],"previous_response_id":"` + first.ID + `",` + fields + `}`)

	alone := send(`{"store":false,"input":[` + user + `],` + fields + `}`)
	back, err := json.Marshal(alone.Output)
	expect.NoError(t, err)
	items := strings.TrimSuffix(strings.TrimPrefix(string(back), "["), "]")
	send(`{"store":false,"input":[` + user + `,` + items + `,` + output + `],` + fields + `}`)

	if len(m.told) != 6 {
		t.Fatalf("the model was asked %d times", len(m.told))
	}
	if diff := cmp.Diff(string(m.told[2]), string(m.told[5])); diff != "" {
		t.Errorf("(-previous_response_id +sent back):\n%s", diff)
	}
	if kinds := types(first.Output); kinds != "reasoning message holon:tool_call holon:tool_call function_call" {
		t.Errorf("the output is %s", kinds)
	}
	plain := h.post(`{"input":"go","stream":true,"tools":[{"type":"function","name":"ask"}]}`)
	if plain.status != http.StatusOK || strings.Contains(string(plain.body), "holon:") ||
		strings.Contains(string(plain.body), "ExecCommand") || strings.Contains(string(plain.body), "opaque") {
		t.Errorf("%d %.300s", plain.status, plain.body)
	}
}

func types(items responses.Items) string {
	list := make([]string, len(items))
	for i, item := range items {
		list[i] = item.ItemType()
	}
	return strings.Join(list, " ")
}

// A request that no turn could answer is refused before there is one.
func TestRequestsThatNoTurnCouldServe(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.scenario("one", "rounds: [{text: hi}]")
	image := `{"type":"input_image","image_url":"https://example.com/cat.png"}`
	for body, param := range map[string]string{
		`{"input":"x","tool_choice":{"type":"function","name":"Fly"}}`:                                    "tool_choice.name",
		`{"input":"x","tool_choice":{"type":"allowed_tools","tools":[{"type":"function","name":"Fly"}]}}`: "tool_choice.tools[0].name",
		`{"input":"x","text":{"format":{"type":"json_schema","name":"n","schema":{"$ref":"#"}}}}`:         "text.format.schema.$ref",
		`{"input":[{"role":"user","content":[{"type":"input_text","text":"x"},` + image + `]}]}`:          "input[0].content[1]",
		`{"input":"\u200b\ufeff\u00ad "}`:                                                              "input",
		`{"input":[{"role":"assistant","content":[{"type":"refusal","refusal":""}]}]}`:                 "input",
		`{"model":"scripted/one","input":"x","holon":{"model_fallbacks":[null]}}`:                      "holon.model_fallbacks[0]",
		`{"model":"scripted/one","input":"x","holon":{"model_fallbacks":["scripted/one","nobody/x"]}}`: "holon.model_fallbacks[1]",
		`{"background":true,"store":false}`:                                                            "background",
	} {
		if e := h.post(body).failure(t); e.Param != param || e.Status() != http.StatusBadRequest {
			t.Errorf("%s: %+v", body, e)
		}
	}
	// A conversation with pictures does not go on with a model that cannot see them.
	seen := h.post(`{"model":"scripted/one","input":[{"role":"user","content":[` + image + `]}]}`).response(t)
	if e := h.post(fmt.Sprintf(`{"model":"gate/any","input":"x","previous_response_id":%q}`,
		seen.ID)).failure(t); e.Param != "previous_response_id" {
		t.Errorf("with a model that cannot see: %q %+v", e.Param, e)
	}
}
