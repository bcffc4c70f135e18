package mcp_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"holon/agentd/mcp"
	"holon/responses"
	"holon/test/expect"
)

// web is a server over HTTP that counts what it was asked with which headers.
type web struct {
	*httptest.Server
	mu   sync.Mutex
	seen map[string]int // by value of Authorization and X-Key
}

func serveWeb(t *testing.T) *web {
	t.Helper()
	s := sdk.NewServer(&sdk.Implementation{Name: "web", Version: "1"}, nil)
	s.AddTool(one("echo", "It echoes."), func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return text(string(r.Params.Arguments)), nil
	})
	s.AddTool(one("huge", "It is large."), func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return text(inflated), nil
	})
	w := &web{seen: make(map[string]int)}
	handler := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, nil)
	w.Server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.mu.Lock()
		w.seen[r.Header.Get("Authorization")+"/"+r.Header.Get("X-Key")]++
		w.mu.Unlock()
		handler.ServeHTTP(inflatingResponse{rw}, r)
	}))
	t.Cleanup(w.Close)
	return w
}

type inflatingResponse struct{ http.ResponseWriter }

func (w inflatingResponse) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w inflatingResponse) Write(p []byte) (int, error) {
	if _, err := w.ResponseWriter.Write(inflate(p)); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (w *web) count(key string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seen[key]
}

func TestHTTP(t *testing.T) {
	t.Parallel()
	w := serveWeb(t)
	secrets := filepath.Join(t.TempDir(), "headers")
	expect.NoError(t, os.WriteFile(secrets, []byte("# of the operator\nAuthorization: Bearer op\nX-Key: k\n"),
		0o600))
	file := filepath.Join(t.TempDir(), "mcp.yaml")
	if err := os.WriteFile(file, []byte(fmt.Sprintf("servers: {web: {url: %s, headers_file: %s}}", w.URL, secrets)),
		0o600); err != nil {
		t.Fatal(err)
	}
	config, err := mcp.LoadConfig(file, nil)
	expect.NoError(t, err)
	r := open(t, func(o *mcp.Options) { o.Config = *config })
	r.turn()
	if o := r.call(t.Context(), "mcp__web__echo", `{"n":3}`); o.Rendered != `{"n":3}` {
		t.Errorf("rendered %q", o.Rendered)
	}
	if w.count("Bearer op/k") == 0 || len(w.seen) != 1 {
		t.Errorf("headers %v", w.seen)
	}
	if o := r.call(t.Context(), "mcp__web__huge", ""); kind(o) != "mcp_connection_lost" {
		t.Errorf("a huge result gives the error %+v, want mcp_connection_lost", o.Canonical.Error)
	}
	if o := r.call(t.Context(), "mcp__web__echo", `{"n":4}`); o.Rendered != `{"n":4}` {
		t.Errorf("afterwards: %q", o.Rendered)
	}
}

// A request brings a server of its own, for its turn alone.
func TestRequestBringsServer(t *testing.T) {
	t.Parallel()
	w := serveWeb(t)
	r := open(t, func(o *mcp.Options) { o.Config.RequestURLs = []string{w.URL + "/"} })
	want := responses.MCPTool{Param: "tools[0]", Label: "mine", URL: w.URL + "/mcp",
		Headers: map[string]string{"X-Key": "k"}, Authorization: "token", AllowedTools: []string{"echo"}}
	r.turn(want)
	expect.Equal(t, "tools", r.names(), "mcp__mine__echo")
	if o := r.call(t.Context(), "mcp__mine__echo", `{"n":3}`); o.Rendered != `{"n":3}` {
		t.Errorf("rendered %q", o.Rendered)
	}
	if w.count("Bearer token/k") == 0 || len(w.seen) != 1 {
		t.Errorf("headers %v", w.seen)
	}
	if len(r.m.Health()) != 0 {
		t.Errorf("health shows it: %v", r.m.Health())
	}
	r.turn()
	expect.Equal(t, "the next turn has", r.names(), "")
	w.Close()
	want.URL += "?key=secret"
	_, err := r.m.Offer(t.Context(), []responses.MCPTool{want})
	switch e, ok := errors.AsType[*responses.Error](err); {
	case !ok:
		t.Errorf("a server that is gone: %v", err)
	case e.Code != responses.CodeMCPUnavailable:
		t.Errorf("a server that is gone: e.Code = %q, want %q", e.Code, responses.CodeMCPUnavailable)
	case e.Status() != http.StatusFailedDependency:
		t.Errorf("a server that is gone: e.Status() = %d, want %d", e.Status(), http.StatusFailedDependency)
	case strings.Contains(e.Error(), "token"):
		t.Errorf(`a server that is gone: e.Error() = %q, want it without "token"`, e.Error())
	case strings.Contains(e.Error(), "secret"):
		t.Errorf(`a server that is gone: e.Error() = %q, want it without "secret"`, e.Error())
	}
}

// Headers and content for one host are not sent to another.
func TestRedirect(t *testing.T) {
	other := serveWeb(t)
	first := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	defer first.Close()
	r := open(t, func(o *mcp.Options) { o.Config.Servers["s"] = mcp.Server{URL: first.URL, Optional: true} })
	if notes := r.turn().Notes; len(notes) != 1 || !strings.Contains(notes[0].Message, "redirect to another host") {
		t.Errorf("notes %v", notes)
	}
	if len(other.seen) != 0 {
		t.Errorf("the other host was asked: %v", other.seen)
	}
}

// Tools that no model can be told of are left out one by one, with a fact each
// up to a bound.
func TestStrangeTools(t *testing.T) {
	t.Parallel()
	r := openOne(t, "strange")
	offer := r.turn()
	said := ""
	for _, note := range offer.Notes {
		said += note.Message + "\n"
	}
	for _, want := range []string{`"deep" of s is left out: its schema nests deeper`,
		`"big" of s is left out: its schema has more than`,
		`"typo" of s is offered with its schema as text: schema.properties.a.type must be`} {
		if !strings.Contains(said, want) {
			t.Errorf("no %q in\n%s", want, said)
		}
	}
	names := r.names()
	switch {
	case !strings.Contains(names, "mcp__s__a_b_"):
		t.Errorf(`names = %q, want it to contain "mcp__s__a_b_"`, names)
	case !strings.Contains(names+" ", "mcp__s__a_b "):
		t.Errorf(`names + " " = %q, want it to contain "mcp__s__a_b "`, names+" ")
	case !strings.Contains(names, "mcp__s__longlong"):
		t.Errorf(`names = %q, want it to contain "mcp__s__longlong"`, names)
	}
	for _, def := range r.offered.Definitions() {
		if def.Name == "mcp__s__typo" && (!strings.Contains(def.Description, `"type":"zzz"`) ||
			strings.Contains(string(def.Parameters), "zzz")) {
			t.Errorf("a schema that cannot work: description %q, parameters %s", def.Description, def.Parameters)
		}
		if def.Name == "mcp__s__hidden" && (!strings.HasPrefix(def.Description, "harmlessyyy") ||
			len(def.Description) > 4<<10) {
			t.Errorf("description of %d bytes: %.40q", len(def.Description), def.Description)
		}
	}
}

func TestManyTools(t *testing.T) {
	t.Parallel()
	r := openOne(t, "many")
	offer := r.turn()
	expect.Equal(t, "tools", len(r.offered.Definitions()), 128)
	if n := len(offer.Notes); n != 17 || !strings.Contains(offer.Notes[16].Message, "more tools of s are left out") {
		t.Errorf("%d notes: %+v", n, offer.Notes)
	}
}
