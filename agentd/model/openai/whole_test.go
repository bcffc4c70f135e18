package openai_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"holon/agentd/model"
	"holon/agentd/model/openai"
	"holon/responses"
	"holon/test/expect"
	"holon/test/modeltest"
)

func asJSON(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // a handler of a test that looks at nothing
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, body) // a client that has enough hangs up
	}
}

func whole(o *openai.Options) { o.Whole = true }

// Answers that come as one object are read as streams are.
func TestWholeFiles(t *testing.T) {
	for _, name := range []string{"reasoning", "raw-reasoning"} {
		data := modeltest.File(t, "responses/"+name+".json")
		a, e := ask(t.Context(), t, serve(t, false, asJSON(data), whole), model.Request{})
		if e != nil {
			t.Errorf("%s: %v", name, e)
			continue
		}
		checkAgainst(t, `{"response":`+data+`}`, a)
	}
	a, e := ask(t.Context(), t, serve(t, false, asJSON(modeltest.File(t, "responses/error.json")), whole),
		model.Request{})
	if e == nil || e.Message == "" {
		t.Errorf("an error object is read as %+v, want an error with a message", a)
	}
}

func TestWholeAnswers(t *testing.T) {
	call := `{"type":"function_call","call_id":"c","name":"f","arguments":"{}"}`
	message := `{"type":"message","content":[{"type":"output_text","text":"hello"}]}`
	tests := []struct {
		name, body string
		text       string
		calls      int
		stop       model.Stop
		kind       model.ErrorKind
	}{
		{"complete", `{"id":"r","status":"completed","output":[` + message + `,` + call + `]}`, "hello", 1,
			model.StopEnd, ""},
		{"cut short in a call", `{"id":"r","status":"incomplete","output":[` + message + `,` + call +
			`],"incomplete_details":{"reason":"max_output_tokens"}}`, "hello", 0, model.StopMaxTokens, ""},
		{"cut short in the text", `{"id":"r","status":"incomplete","output":[` + call + `,` + message +
			`],"incomplete_details":{"reason":"content_filter"}}`, "hello", 1, model.StopContentFilter, ""},
		{"failed", `{"id":"r","status":"failed","output":[],"error":{"code":"server_error","message":"oops"}}`, "", 0,
			"", model.KindOverloaded},
		{"without a status", `{"id":"r","output":[` + message + `]}`, "hello", 0, model.StopEnd, ""},
		{"still at it", `{"id":"r","status":"in_progress","output":[]}`, "", 0, "", model.KindProtocol},
		{"garbage", `{"id":`, "", 0, "", model.KindProtocol},
	}
	for _, tt := range tests {
		a, e := ask(t.Context(), t, serve(t, true, asJSON(tt.body), whole), model.Request{})
		expect.Equal(t, tt.name+": a.Text", a.Text, tt.text)
		expect.Equal(t, tt.name+": len(a.Calls)", len(a.Calls), tt.calls)
		expect.Equal(t, tt.name+": a.Stop", a.Stop, tt.stop)
		if (e == nil) != (tt.kind == "") {
			t.Fatalf("%s: (e == nil) = %v, want %v", tt.name, (e == nil), (tt.kind == ""))
		}
		if e != nil && e.Kind != tt.kind {
			t.Errorf("%s: e != nil && e.Kind != tt.kind, want the contrary", tt.name)
		}
	}
	body, h, _ := sentWhole(t)
	if h.Get("Accept") != "application/json" || !strings.Contains(body, `"stream":false`) {
		t.Errorf("asked with %s %s", h.Get("Accept"), body)
	}
}

func sentWhole(t *testing.T) (body string, header http.Header, target string) {
	tr := serve(t, false, func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		body, header = string(b), r.Header
		asJSON(`{"status":"completed","output":[]}`)(w, r)
	}, whole)
	if _, e := ask(t.Context(), t, tr, model.Request{}); e != nil {
		t.Fatal(e)
	}
	return body, header, target
}

// The Codex backend gets the keys that it wants and none that it refuses, and is
// told which account a ChatGPT token is for.
func TestCodex(t *testing.T) {
	limit := 100
	// {"https://api.openai.com/auth":{"chatgpt_account_id":"acct-1"}}
	const token = "e30.eyJodHRwczovL2FwaS5vcGVuYWkuY29tL2F1dGgiOnsiY2hhdGdwdF9hY2NvdW50X2lkIjoiYWNjdC0xIn19.c2ln"
	codex := func(o *openai.Options) { o.Provider, o.Codex, o.APIKey = "openai-codex", true, token }
	body, h, _ := sentFor(t, false, model.Request{Model: "gpt-4.1", Instructions: "i", MaxOutputTokens: &limit,
		Metadata: map[string]string{"a": "b"}, SafetyIdentifier: "s"}, codex)
	want := `{"model":"gpt-4.1","instructions":"i","input":[],"tools":[],"tool_choice":"auto",` +
		`"parallel_tool_calls":false,"reasoning":null,"store":false,"stream":true,"include":[]}`
	expect.Equal(t, "sent", canon(t, body), canon(t, want))
	if h.Get("Chatgpt-Account-Id") != "acct-1" || h.Get("Authorization") != "Bearer "+token {
		t.Errorf("headers %v", h)
	}
	if _, err := openai.New(openai.Options{Codex: true, Whole: true}); err == nil {
		t.Error("it does not only stream")
	}
	// Its terminal event may say nothing of the output.
	events := []string{added, hello, `{"type":"response.output_item.done","output_index":1,` +
		`"item":{"type":"function_call","call_id":"c","name":"f","arguments":"{}"}}`, completed}
	a, e := ask(t.Context(), t, serve(t, false, replay(events, true), codex), model.Request{})
	expect.Equal(t, "e", e, nil)
	expect.Equal(t, "a.Text", a.Text, "hello")
	expect.Equal(t, "len(a.Calls)", len(a.Calls), 1)
}

// Opaque reasoning goes back to the provider that made it alone.
func TestReasoningIsMarked(t *testing.T) {
	item := func(content string) model.Request {
		return model.Request{Input: []responses.Item{&responses.Reasoning{ID: "rs_1", EncryptedContent: content,
			Summary: []responses.Part{{Type: responses.PartSummaryText, Text: "hm"}}}}}
	}
	lab := func(o *openai.Options) { o.Provider = "lab" }
	for _, tt := range []struct {
		content string
		change  func(*openai.Options)
		sent    bool
	}{
		{"raw", func(*openai.Options) {}, true}, {model.Seal("lab", "raw"), func(*openai.Options) {}, false},
		{"raw", lab, false}, {model.Seal("lab", "raw"), lab, true}, {model.Seal("other", "raw"), lab, false},
	} {
		body, _, _ := sentFor(t, false, item(tt.content), tt.change)
		if strings.Contains(body, `"encrypted_content":"raw"`) != tt.sent {
			t.Errorf("%s: %s", tt.content, body)
		}
	}
	body, _, _ := sentFor(t, false, item(model.Seal("lab", "reasoning_text")), lab)
	expect.Contains(t, "a raw thought", canon(t, body), `{"content":[{"text":"hm","type":"reasoning_text"}],"id":"rs_1",`+
		`"summary":[],"type":"reasoning"}`)
}
