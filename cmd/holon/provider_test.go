package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/rogpeppe/go-internal/testscript"
)

// cmdProvider starts a provider for a script:
//
//	provider NAME KIND [KEY]
//
// KIND is responses, chat or anthropic, whose models answer "NAME says hello.",
// restless, whose models call a tool in every round and take 100 tokens for it to
// say 50, or down, which fails. With a KEY it takes no other. Its address is in $NAME_URL,
// and NAME.log has a line for each request: method, path, how the key came, and
// the key. NAME.body is the newest request.
func cmdProvider(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 || len(args) > 3 {
		ts.Fatalf("usage: provider NAME KIND [KEY]")
	}
	p := &fakeProvider{name: args[0], kind: args[1], log: ts.MkAbs(args[0] + ".log")}
	if len(args) > 2 {
		p.key = args[2]
	}
	ts.Check(os.WriteFile(p.log, nil, 0o600))
	server := httptest.NewServer(p)
	ts.Defer(server.Close)
	ts.Setenv(args[0]+"_URL", server.URL)
}

type fakeProvider struct {
	name, kind, key, log string
	mu                   sync.Mutex
}

func (p *fakeProvider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 8<<20))
	if err != nil {
		return
	}
	style, key := "none", ""
	if bearer, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		style, key = "bearer", bearer
	} else if k := r.Header.Get("X-Api-Key"); k != "" {
		style, key = "x-api-key", k
	}
	if account := r.Header.Get("Chatgpt-Account-Id"); account != "" {
		style += "+" + account
	}
	p.note(fmt.Sprintf("%s %s %s %s", r.Method, r.URL.Path, style, key))
	if p.key != "" && key != p.key {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprintf(w, `{"error": {"message": "wrong key %s"}}`, key)
		return
	}
	if err := os.WriteFile(strings.TrimSuffix(p.log, ".log")+".body", body, 0o600); err != nil {
		return // the script is over
	}
	p.answer(w, body)
}

func (p *fakeProvider) note(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f, err := os.OpenFile(filepath.Clean(p.log), os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return // the script is over
	}
	defer f.Close()
	fmt.Fprintln(f, line)
}

// answers are what the kinds of providers answer that say something: as one object, and as a stream.
func answers(text string) map[string]struct {
	whole  string
	events []string
} {
	response := `{"id":"r","status":"completed","output":[{"type":"message","content":[{"type":"output_text",` +
		`"text":"` + text + `"}]}],"usage":{"input_tokens":2,"output_tokens":1,"total_tokens":3}}`
	const usage = `"usage":{"prompt_tokens":2,"completion_tokens":1,"total_tokens":3}`
	return map[string]struct {
		whole  string
		events []string
	}{
		"responses": {response, []string{`{"type":"response.completed","response":` + response + `}`}},
		"chat": {`{"choices":[{"index":0,"message":{"role":"assistant","content":"` + text + `"},"finish_reason":` +
			`"stop"}],` + usage + `}`, []string{`{"choices":[{"index":0,"delta":{"content":"` + text + `"}}]}`,
			`{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],` + usage + `}`, `[DONE]`}},
		"anthropic": {`{"id":"m","type":"message","role":"assistant","content":[{"type":"text","text":"` + text + `"}],` +
			`"stop_reason":"end_turn","usage":{"input_tokens":2,"output_tokens":1}}`, []string{
			`{"type":"message_start","message":{"id":"m","type":"message","role":"assistant","model":"m",` +
				`"content":[],"stop_reason":null,"usage":{"input_tokens":2,"output_tokens":1}}}`,
			`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"` + text + `"}}`,
			`{"type":"content_block_stop","index":0}`,
			`{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":3}}`,
			`{"type":"message_stop"}`}},
	}
}

func (p *fakeProvider) answer(w http.ResponseWriter, body []byte) {
	answer, says := answers(p.name + " says hello.")[p.kind]
	w.Header().Set("Content-Type", "text/event-stream")
	switch {
	case says && !bytes.Contains(body, []byte(`"stream":true`)):
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, answer.whole)
		return
	case p.kind == "strict":
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, `{"error": {"message": "no such parameter"}}`)
	case p.kind == "html":
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<html>Log in to the network</html>")
	case p.kind == "restless":
		call := fmt.Sprintf(`{"id":"fc_%[1]d","type":"function_call","status":"completed","name":"ExecCommand",`+
			`"call_id":"call_%[1]d","arguments":"{\"cmd\":\"echo %[1]d >> rounds\"}"}`, len(body))
		answer.events = []string{`{"type":"response.completed","response":{"id":"r","status":"completed","output":[` +
			call + `],"usage":{"input_tokens":2000,"output_tokens":50,"total_tokens":2050}}}`}
	case !says:
		w.Header().Set("Retry-After-Ms", "1")
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	for _, event := range answer.events {
		fmt.Fprintf(w, "data: %s\n\n", event)
	}
}
