package agentd_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"holon/agentd"
	"holon/agentd/config"
	"holon/internal/redact"
	"holon/test/expect"
)

const answered = "sk-verysecretvalue"

// secretive is the fields of a request that says a secret wherever it may.
const secretive = `"instructions":"i ` + answered + `","metadata":{"m":"` + answered + `"},` +
	`"input":[{"role":"user","content":"u ` + answered + `"}],"prompt_cache_key":"` + answered + `",` +
	`"safety_identifier":"` + answered + `","tools":[{"type":"function","name":"rotate_` + answered + `",` +
	`"description":"d ` + answered + `","parameters":{"type":"object"}}]`

// startKnowing starts a server that knows a secret.
func startKnowing(t *testing.T) *harness {
	t.Helper()
	secrets := &redact.Set{}
	if !secrets.Add("OPENAI_API_KEY", answered) {
		t.Fatal("the secret is not known")
	}
	return start(t, func(_ *config.Config, p *agentd.Parts) { p.Secrets = secrets })
}

// mustHide checks that an answer says nothing of the secret but the name of a function, and hides a text.
func mustHide(t *testing.T, what string, body []byte) {
	t.Helper()
	rest := bytes.ReplaceAll(body, []byte(`"name":"rotate_`+answered+`"`), nil)
	if bytes.Contains(rest, []byte(answered)) {
		t.Errorf("%s says the secret: %s", what, rest)
	}
	if !bytes.Contains(body, []byte(redact.Mask)) {
		t.Errorf("%s hides nothing, want %s in it: %s", what, redact.Mask, body)
	}
}

// A secret of a request is in no answer, whatever the answer is made from, and an answer says what the stream ends
// with.
func TestAnswersHideSecrets(t *testing.T) {
	t.Parallel()
	h := startKnowing(t)
	ref := h.scenario("plain", "rounds: [{text: done}]")
	whole := h.post(`{"model":"` + ref + `",` + secretive + `}`)
	mustHide(t, "POST /responses", whole.body)
	id := whole.response(t).ID
	mustHide(t, "a stored response", h.do("GET", "/responses/"+id, "").body)
	mustHide(t, "its input items", h.do("GET", "/responses/"+id+"/input_items", "").body)
	stream := lines(h.do("GET", "/responses/"+id+"?stream=true", "").body)
	mustHide(t, "its stream", stream)
	var last struct{ Response any }
	expect.NoError(t, json.Unmarshal(stream[bytes.LastIndexByte(bytes.TrimSpace(stream), '\n')+1:], &last))
	var got any
	expect.NoError(t, json.Unmarshal(whole.body, &got))
	if !reflect.DeepEqual(got, last.Response) {
		t.Errorf("the answer is\n%v\nwant what the stream ends with\n%v", got, last.Response)
	}
	mustHide(t, "a compaction", h.do("POST", "/responses/compact", `{"model":"`+ref+`","input":[`+
		`{"role":"user","content":"u `+answered+`"}]}`).body)
}

func TestAnswersOfRunningTurnHideSecrets(t *testing.T) {
	t.Parallel()
	h := startKnowing(t)
	first := h.post(`{"model":"gate/any","background":true,` + secretive + `}`)
	mustHide(t, "the first answer", first.body)
	h.gate.wait(t, 1)
	path := "/responses/" + first.response(t).ID
	mustHide(t, "the running response", h.do("GET", path, "").body)
	mustHide(t, "its input items", h.do("GET", path+"/input_items", "").body)
	mustHide(t, "the cancelled response", h.do("POST", path+"/cancel", "").body)
}

func TestErrorsHideSecrets(t *testing.T) {
	t.Parallel()
	h := startKnowing(t)
	for _, c := range []struct{ method, path, body string }{
		{"POST", "/responses", `{"model":"` + answered + `/x","input":"x"}`},
		{"POST", "/responses", `{"input":"x","previous_response_id":"` + answered + `"}`},
		{"POST", "/responses/compact", `{"model":"` + answered + `/x","input":"x"}`},
		{"GET", "/responses/" + answered, ""},
		{"GET", "/turns/" + answered, ""},
		{"GET", "/models/" + answered, ""},
		{"GET", "/" + answered, ""},
		{"POST", "/responses/resp_x/" + answered, "{}"},
	} {
		mustHide(t, strings.ReplaceAll(c.method+" "+c.path+" "+c.body, answered, "SECRET"),
			h.do(c.method, c.path, c.body).body)
	}
	w := h.dial()
	w.create(`"model":"` + answered + `/x","input":"x"`)
	mustHide(t, "the error on a WebSocket", w.frame())
}
