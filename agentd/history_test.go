package agentd_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"strings"
	"testing"

	"holon/agentd"
	"holon/agentd/config"
	"holon/agentd/model"
	"holon/responses"
	"holon/test/expect"
)

// attentive is a model that thinks, answers with a number, and remembers what
// it was told.
type attentive struct {
	takes model.Capabilities
	asked int
	blank int              // the request that it answers with blanks
	told  []responses.Item // the last time
}

// Stream implements model.Transport.
func (a *attentive) Stream(_ context.Context, req model.Request) iter.Seq2[model.Event, error] {
	a.asked++
	a.told = req.Input
	text := fmt.Sprint("answer ", a.asked)
	if a.asked == a.blank {
		text = " "
	}
	return func(yield func(model.Event, error) bool) {
		for _, ev := range []model.Event{
			{Kind: model.ReasoningBegin}, {Kind: model.SummaryDelta, Text: "hm"},
			{Kind: model.ReasoningEnd, Text: "sealed"},
			{Kind: model.MessageBegin}, {Kind: model.TextDelta, Text: text},
			{Kind: model.Done, Stop: model.StopEnd,
				Usage: responses.Usage{InputTokens: 1, OutputTokens: 1, TotalTokens: 2}},
		} {
			if !yield(ev, nil) {
				return
			}
		}
	}
}

// Capabilities says what models take.
func (a *attentive) Capabilities(string) model.Capabilities { return a.takes }

// Resolve implements agentd.Models: there is only this one.
func (a *attentive) Resolve(string, ...string) (model.Choice, error) {
	return model.Choice{Transport: a, Name: "attentive", Ref: "test/attentive"}, nil
}

// Models implements agentd.Models.
func (a *attentive) Models() []string { return []string{"test/attentive"} }

// heard describes what the model was told, item by item.
func (a *attentive) heard() string {
	var list []string
	for _, item := range a.told {
		switch item := item.(type) {
		case *responses.Message:
			list = append(list, string(item.Role)+": "+item.Text())
		case *responses.Reasoning:
			list = append(list, "reasoning "+item.EncryptedContent)
		default:
			list = append(list, item.ItemType())
		}
	}
	return strings.Join(list, " | ")
}

func startAttentive(t *testing.T, dir string) (*harness, *attentive) {
	a := &attentive{}
	return startIn(t, dir, func(_ *config.Config, p *agentd.Parts) { p.Models = a }), a
}

// A client may send the last answer as references and no previous_response_id,
// as the AI SDK does. They are found after a restart as well.
func TestReferencesWithoutPreviousResponse(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	h, model := startAttentive(t, dir)
	first := h.post(`{"input":[{"role":"user","content":"one"}]}`).response(t)
	if len(first.Output) != 2 {
		t.Fatalf("output %v", first.Output)
	}
	body := fmt.Sprintf(`{"input":[{"role":"user","content":"one"},{"type":"item_reference","id":%q},`+
		`{"type":"item_reference","id":%q},{"role":"user","content":"two"}]}`,
		first.Output[0].ItemID(), first.Output[1].ItemID())
	const want = "user: one | reasoning sealed | assistant: answer 1 | user: two"
	second := h.post(body).response(t)
	expect.Equal(t, "the model was told", model.heard(), want)
	expect.NoError(t, h.stop())
	h, model = startAttentive(t, dir)
	h.post(body).response(t)
	expect.Equal(t, "after a restart the model was told", model.heard(), want)
	// Within a chain nothing is repeated.
	third := h.post(fmt.Sprintf(`{"previous_response_id":%q,"input":[{"type":"item_reference","id":%q},`+
		`{"role":"user","content":"three"}]}`, second.ID, second.Output[1].ItemID()))
	if third.status != http.StatusOK ||
		model.heard() != want+" | reasoning sealed | assistant: answer 2 | user: three" {
		t.Errorf("status %d, the model was told %s", third.status, model.heard())
	}
}

// A client that sends the output back as it came does not bring back an empty answer, which no later request has.
func TestEmptyAnswerSentBack(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	h, model := startAttentive(t, dir)
	model.blank = 1
	first := h.post(`{"input":[{"role":"user","content":"one"}],"include":["reasoning.encrypted_content"]}`).response(t)
	expect.Equal(t, "output", types(first.Output), "reasoning message reasoning message")
	output, err := json.Marshal(first.Output)
	expect.NoError(t, err)
	body := fmt.Sprintf(`{"input":[{"role":"user","content":"one"},%s,{"role":"user","content":"two"}]}`,
		strings.Trim(string(output), "[]"))
	const want = "user: one | reasoning sealed | assistant: answer 2 | user: two"
	h.post(fmt.Sprintf(`{"previous_response_id":%q,"input":[{"role":"user","content":"two"}]}`, first.ID)).response(t)
	expect.Equal(t, "request through previous_response_id", model.heard(), want)
	h.post(body).response(t)
	expect.Equal(t, "request", model.heard(), want)
	expect.NoError(t, h.stop())
	h, model = startAttentive(t, dir)
	h.post(body).response(t)
	expect.Equal(t, "request after a restart", model.heard(), want)
}

func TestReferencesToNothing(t *testing.T) {
	t.Parallel()
	h, model := startAttentive(t, shortDir(t))
	unstored := h.post(`{"input":"secret","store":false}`).response(t)
	for _, id := range []string{"msg_nobody", unstored.Output[1].ItemID()} {
		err := h.post(fmt.Sprintf(`{"input":[{"role":"user","content":"x"},{"type":"item_reference","id":%q}]}`,
			id)).failure(t)
		if err.Code != responses.CodeItemNotFound || err.Param != "input[1].id" ||
			err.Status() != http.StatusNotFound {
			t.Errorf("%s: %+v", id, err)
		}
	}
	if model.asked != 1 {
		t.Errorf("the model was asked %d times", model.asked)
	}
}

// Items that come without an id get one, and keep it.
func TestInputItemsGetIDs(t *testing.T) {
	t.Parallel()
	h, _ := startAttentive(t, shortDir(t))
	resp := h.post(`{"input":[{"role":"user","content":"a"},{"id":"msg_mine","role":"user","content":"b"},` +
		`{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},{"type":"function_call_output",` +
		`"call_id":"c","output":"r"}]}`).response(t)
	first := h.do(http.MethodGet, "/responses/"+resp.ID+"/input_items?order=asc", "").body
	second := h.do(http.MethodGet, "/responses/"+resp.ID+"/input_items?order=asc", "").body
	if string(first) != string(second) {
		t.Errorf("the items changed:\n%s\n%s", first, second)
	}
	for _, want := range []string{`"id":"msg_mine"`, `"id":"` + responses.PrefixMessage,
		`"id":"` + responses.PrefixCall, `"id":"` + responses.PrefixCallOutput} {
		if !strings.Contains(string(first), want) {
			t.Errorf("there is no %s in %s", want, first)
		}
	}
}

// An item that a reference brings is checked like those in the input itself.
func TestReferencesToMedia(t *testing.T) {
	t.Parallel()
	h, model := startAttentive(t, shortDir(t))
	model.takes.Images = true
	const picture = `{"type":"input_image","image_url":"https://example.com/cat.png"}`
	h.post(`{"input":[{"id":"msg_pic","role":"user","content":[` + picture + `]}]}`).response(t)
	h.post(`{"input":[{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},{"id":"fco_pic",` +
		`"type":"function_call_output","call_id":"c","output":[` + picture + `]}]}`).response(t)
	model.takes.Images = false
	asked := model.asked
	for input, param := range map[string]string{
		`{"role":"user","content":"x"},{"type":"item_reference","id":"msg_pic"}`:                                      "input[1].id",
		`{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},{"type":"item_reference","id":"fco_pic"}`: "input[1].id",
	} {
		if err := h.post(`{"input":[` + input + `]}`).failure(t); err.Code != responses.CodeInvalidValue ||
			err.Param != param || err.Hint == "" {
			t.Errorf("%s: %+v, %+v", input, err, param)
		}
	}
	if model.asked != asked {
		t.Error("the model was asked")
	}
	model.takes.Images = true
	h.post(`{"input":[{"type":"item_reference","id":"msg_pic"}]}`).response(t)
	if len(model.told) != 1 {
		t.Errorf("the model was told %d items", len(model.told))
	}
}

// A call_id stays one call's over a stored chain, also when a reference brings
// the second.
func TestCallIDsOverAChain(t *testing.T) {
	t.Parallel()
	h, _ := startAttentive(t, shortDir(t))
	const pair = `{"id":"fc_%[1]s","type":"function_call","call_id":"c","name":"f","arguments":"{}"},` +
		`{"id":"fco_%[1]s","type":"function_call_output","call_id":"c","output":"r"}`
	first := h.post(`{"input":[` + fmt.Sprintf(pair, "one") + `]}`).response(t)
	h.post(`{"input":[` + fmt.Sprintf(pair, "two") + `]}`).response(t) // another conversation
	for input, param := range map[string]string{
		fmt.Sprintf(pair, "three"):                                                         "input[0].call_id",
		`{"type":"function_call_output","call_id":"c","output":"again"}`:                   "input[0].call_id",
		`{"role":"user","content":"x"},{"type":"item_reference","id":"fc_two"}`:            "input[1].id",
		`{"type":"holon:tool_call","call_id":"c","name":"f","arguments":"{}","output":""}`: "",
	} {
		err := h.post(fmt.Sprintf(`{"previous_response_id":%q,"input":[%s]}`, first.ID, input)).failure(t)
		if param != "" && (err.Code != responses.CodeInvalidValue || err.Param != param || err.Hint == "") {
			t.Errorf("%s: %+v", input, err)
		}
	}
	again := h.post(fmt.Sprintf(`{"previous_response_id":%q,"input":[{"type":"item_reference","id":"fc_one"},`+
		`{"role":"user","content":"x"}]}`, first.ID))
	if again.status != http.StatusOK {
		t.Errorf("what the chain holds may be referred to: %d %s", again.status, again.body)
	}
}
