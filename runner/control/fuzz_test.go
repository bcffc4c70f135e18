package control_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"holon/runner/control"
	"holon/runner/control/wire"
)

// Every request is answered: with JSON that fits its status, and never by
// failing. A capability in the path is not in the log.
func FuzzRequest(f *testing.F) {
	r := newRig(f, control.Limits{}, control.Access{})
	for _, seed := range [][3]string{
		{"GET", "/agents/main/events?after_seq=1&limit=2&order=desc&max_level=3", ""},
		{"GET", "/agents/%00/state", ""},
		{"GET", "/agents/main/messages/..%2f", ""},
		{"POST", "/enqueue", `{"text":"x","origin":{"kind":"channel","channelId":"c"}}`},
		{"POST", "/control/agents/main/prompt", `{"text":"x","priority":"next"}`},
		{"POST", "/control/agents/main/timers", `{"duration_ms":1,"interval_ms":2}`},
		{"POST", "/control/agents/a-b_c/create", `{"template":"x"}`},
		{"POST", "/callbacks/wake/TOKEN?source=a&resource=b", "body"},
		{"POST", "/webhooks/generic/main?source=x&event_type=y", `[{}]`},
		{"POST", "/control/agents/main/model", `{"model":"a/b","reasoningEffort":"low"}`},
		{"POST", "/control/agents/main/current-run/abort", `{"run_id":"turn_1"}`},
		{"DELETE", "/control/agents/main/timers/timer_1", ""},
		{"POST", "/control/sessions", `{"name":"a","workspace":"/src"}`},
		{"POST", "/v1/holon/sessions/first/checkout", `{"branch":"b","allowExecuted":true}`},
		{"GET", "/sessions/ses_1/diff", ""},
		{"POST", "/control/agents/main/wake", `{"reason":"x","description":"y"}`},
	} {
		f.Add(seed[0], seed[1], seed[2])
	}
	local, open := r.server.Handler(true), r.server.Handler(false)
	f.Fuzz(func(t *testing.T, method, target, body string) {
		if u, err := url.ParseRequestURI(target); err != nil || u.Host != "" || !strings.HasPrefix(target, "/") ||
			strings.Contains(u.Path, "/stream") || strings.ContainsAny(target, " \t\r\n") {
			return
		}
		for _, h := range []http.Handler{local, open} {
			req, err := http.NewRequestWithContext(t.Context(), method, "http://127.0.0.1", strings.NewReader(body))
			if err != nil {
				return
			}
			if req.URL, err = url.ParseRequestURI(target); err != nil {
				return
			}
			req.URL.Host = "127.0.0.1"
			w := httptest.NewRecorder()
			h.ServeHTTP(w, req)
			if w.Code >= 500 || w.Code < 200 {
				t.Fatalf("%s %q %q: %d %s", method, target, body, w.Code, w.Body)
			}
			if strings.HasPrefix(w.Header().Get("Content-Type"), "application/json") && !json.Valid(w.Body.Bytes()) {
				t.Fatalf("%s %q: no JSON: %s", method, target, w.Body)
			}
			if e := wire.DecodeFailure(w.Code, w.Body.Bytes()); w.Code >= 400 && wire.Status(e.Code) != w.Code {
				t.Fatalf("%s %q: %d with %s", method, target, w.Code, e.Code)
			}
		}
	})
}
