package conform_test

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"holon/responses"
	"holon/responses/stream"
	"holon/test/conform"
)

// server is a small server of the protocol: it answers every request with the
// same message. It shows that the suite can be passed by package responses
// alone; agentd's own tests run it against the real thing.
type server struct {
	mu     sync.Mutex
	stored map[string]bool
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := s.serve(w, r); err != nil {
		e := responses.AsError(err)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(e.Status())
		_, _ = w.Write(e.Envelope())
	}
}

func (s *server) serve(w http.ResponseWriter, r *http.Request) error {
	if r.URL.Path != "/v1/responses" {
		return responses.NotFound("", responses.CodeNotFound, "there is nothing here")
	}
	if r.Header.Get("Content-Type") != "application/json" {
		return responses.Invalid("", responses.CodeUnsupportedMediaType, "the body must be application/json")
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	req, err := responses.DecodeRequest(body)
	if err != nil {
		return err
	}
	if err := s.check(req); err != nil {
		return err
	}
	framing := stream.Accepted(r.Header.Get("Accept"))
	var wire []byte
	e, err := responses.NewEmitter(responses.NewResponse(responses.NewID(responses.PrefixResponse), req.Model, 1, req),
		func(_ string, data []byte) error {
			wire = framing.Append(wire, data)
			return nil
		})
	if err != nil {
		return err
	}
	if err := e.Text("hello"); err != nil {
		return err
	}
	if err := e.Complete(responses.Usage{}, 2); err != nil {
		return err
	}
	s.mu.Lock()
	s.stored[e.Response().ID] = true
	s.mu.Unlock()
	if req.Stream {
		w.Header().Set("Content-Type", framing.ContentType())
		_, err = w.Write(framing.AppendEnd(wire))
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	return json.NewEncoder(w).Encode(e.Response())
}

func (s *server) check(req *responses.Request) error {
	calls := make(map[string]bool)
	for _, item := range req.Input {
		switch item := item.(type) {
		case *responses.FunctionCall:
			calls[item.CallID] = true
		case *responses.FunctionCallOutput:
			if !calls[item.CallID] {
				return responses.Invalid("input", responses.CodeCallNotFound, "the call is unknown")
			}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if id := req.PreviousResponseID; id != "" && !s.stored[id] {
		return responses.PreviousNotFound(id)
	}
	return nil
}

// alone are the cases that need no model that calls functions, and no path but
// POST /responses.
func alone(t *testing.T) []conform.Case {
	t.Helper()
	later := []string{"tool-calling", "tool-calling-streaming", "compact-response", "compact-missing-model",
		"streams/call", "streams/limit", "streams/headers", "item reference",
		"continuation/not stored", "continuation/open call", "compact/input",
		"errors/choice of a tool that is not there", "errors/background without store", "errors/unknown item reference"}
	cases := slices.DeleteFunc(conform.Cases(), func(c conform.Case) bool {
		return c.Kind == conform.Service || c.Kind == conform.Extension && c.ID != "streams/ndjson" ||
			strings.HasPrefix(c.ID, "websocket-") || strings.HasPrefix(c.ID, "sockets/") ||
			strings.HasPrefix(c.ID, "tools/") || slices.Contains(later, c.ID)
	})
	if len(cases) < 30 {
		t.Fatalf("only %d cases", len(cases))
	}
	return cases
}

func TestSuite(t *testing.T) {
	srv := httptest.NewServer(&server{stored: make(map[string]bool)})
	defer srv.Close()
	suite := conform.New(conform.Target{BaseURL: srv.URL + "/v1/", Model: "any"})
	defer suite.Close()
	for _, r := range suite.All(t.Context(), alone(t)) {
		if r.Err != nil {
			t.Errorf("%s: %s: %v", r.Case.ID, r.Case.About, r.Err)
		}
	}
}

func TestCasesHaveTheirOfficialNames(t *testing.T) {
	var ids []string
	seen := make(map[string]bool)
	for _, c := range conform.Cases() {
		if seen[c.ID] || c.About == "" {
			t.Errorf("%q: used twice, or it does not say what must hold", c.ID)
		}
		seen[c.ID] = true
		if c.Kind == conform.Official {
			ids = append(ids, c.ID)
		}
	}
	want := "basic-response assistant-phase streaming-response system-prompt tool-calling tool-calling-streaming " +
		"image-input multi-turn compact-response compact-missing-model " +
		"response-output-phase-schema websocket-response websocket-sequential-responses websocket-continuation " +
		"websocket-reconnect-store-false-recovery " +
		"websocket-previous-response-not-found websocket-failed-continuation-evicts-cache websocket-warm-up " +
		"websocket-compact-new-chain"
	if got := strings.Join(ids, " "); got != want {
		t.Errorf("the official cases are\n%s\nwant\n%s", got, want)
	}
}

// A server that breaks one thing must fail the cases that are about it.
func TestSuiteFindsBrokenServers(t *testing.T) {
	for _, test := range []struct {
		name, old, new string
		fails          []string // among others
	}{
		{"line ends", "\n", "\r\n", []string{"streaming-response", "streams/sse", "continuation/streamed"}},
		{"null logprobs", `"logprobs":[]`, `"logprobs":null`, []string{"basic-response", "multi-turn", "streams/sse"}},
		{"no phase key but null", `"role":"assistant"`, `"role":"assistant","phase":null`,
			[]string{"basic-response", "image-input"}},
		{"no usage", `"usage":{`, `"usage":null,"x":{`, []string{"basic-response", "accepts/string"}},
		{"failed", `"status":"completed"`, `"status":"failed"`, []string{"basic-response", "streaming-response"}},
		{"foreign event", `"response.output_text.done"`, `"acme:trace"`, []string{"streams/sse", "streams/ndjson"}},
		{"no end mark", "data: [DONE]\n", "", []string{"streams/sse"}},
		{"schema echoed", `"schema":null`, `"schema":{"type":"object"}`, []string{"echo/schema"}},
		{"errors without a param", `"param":`, `"parameter":`, []string{"errors/no object", "errors/unknown path"}},
		{"other code", `previous_response_not_found`, `not_found`, []string{"errors/hostile previous response"}},
		{"nothing echoed", `"instructions":"Be brief."`, `"instructions":null`, []string{"echo"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			good := &server{stored: make(map[string]bool)}
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				rec := httptest.NewRecorder()
				good.ServeHTTP(rec, r)
				maps.Copy(w.Header(), rec.Header())
				w.WriteHeader(rec.Code)
				_, _ = io.WriteString(w, strings.ReplaceAll(rec.Body.String(), test.old, test.new))
			}))
			defer srv.Close()
			suite := conform.New(conform.Target{BaseURL: srv.URL + "/v1", Model: "any"})
			defer suite.Close()
			failed := make(map[string]bool)
			for _, r := range suite.All(t.Context(), alone(t)) {
				failed[r.Case.ID] = r.Err != nil
			}
			for _, id := range test.fails {
				if !failed[id] {
					t.Errorf("%s passed", id)
				}
			}
		})
	}
}
