package mcp_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holon/agentd/mcp"
	"holon/agentd/tools"
	"holon/agentd/turntoken"
	"holon/responses"
	"holon/responses/turns"
	"holon/test/expect"
)

func TestCall(t *testing.T) {
	r := openOne(t, "good")
	if notes := r.turn().Notes; len(notes) != 0 {
		t.Errorf("notes %v", notes)
	}
	if names := r.names(); !strings.HasPrefix(names, "mcp__s__ask mcp__s__die mcp__s__echo ") {
		t.Errorf("tools %s", names)
	}
	o := r.call(t.Context(), "mcp__s__echo", `{"n":1}`)
	if kind(o) != "" || o.Rendered != `{"n":1}` {
		t.Errorf("rendered %q, %+v", o.Rendered, o.Canonical.Error)
	}
	want := `{"tool_name":"mcp__s__echo","status":"success","summary_text":"s answered","result":{"family":"mcp",` +
		`"server":"s","tool":"echo","content":[{"type":"text","text_preview":"{\"n\":1}","bytes":7}],` +
		`"truncated":false,"artifacts":[]},"error":null}`
	if canonical, err := o.Canonical.Encode(); err != nil || string(canonical) != want {
		t.Errorf("canonical\n%s\nwant\n%s", canonical, want)
	}
	if o := r.call(turntoken.With(t.Context(), "hmt_1"), "mcp__s__meta", ""); o.Rendered != "turn_1/call_1" {
		t.Errorf("call id %q", o.Rendered)
	}
	env := r.call(t.Context(), "mcp__s__env", "").Rendered
	switch {
	case strings.Contains(env, "sk-secret"):
		t.Errorf(`env = %q, want it without "sk-secret"`, env)
	case !strings.Contains(env, asServer+"=good"):
		t.Errorf("env = %q, want it to contain %q", env, asServer+"=good")
	case !strings.Contains(env, "PAGER=cat"):
		t.Errorf(`env = %q, want it to contain "PAGER=cat"`, env)
	}
	if s := r.state(); s.State != turns.MCPReady || s.Name != "s" || s.Tools < 10 || s.Error != "" {
		t.Errorf("the server is %+v, want s, %s, with at least 10 tools", s, turns.MCPReady)
	}
}

// Every kind of answer of a tool has a kind of error and a text for the model.
func TestResults(t *testing.T) {
	t.Parallel()
	r := openOne(t, "chatty")
	r.turn()
	for name, want := range map[string]struct{ kind, text string }{
		"fail":       {"mcp_tool_error", `"message":"the table is locked"`},
		"refuse":     {"mcp_server_error", "not today"},
		"huge":       {"mcp_result_too_large", "the call was made"},
		"structured": {"", `{"rows":[1,2]}`},
		"flood":      {"", "flooded"},
		"ask":        {"", "elicitation: "},
	} {
		o := r.call(t.Context(), "mcp__s__"+name, "")
		if kind(o) != want.kind || !strings.Contains(o.Rendered, want.text) {
			t.Errorf("%s: kind %q, rendered %.500q", name, kind(o), o.Rendered)
		}
	}
	if o := r.call(t.Context(), "mcp__s__ask", ""); strings.Contains(o.Rendered, "<nil>") {
		t.Errorf("a server was let ask: %s", o.Rendered)
	}
	if o := r.call(t.Context(), "mcp__s__echo", `{"n":2}`); o.Rendered != `{"n":2}` {
		t.Errorf("after all that: %q, %+v", o.Rendered, o.Canonical.Error)
	}
}

func TestLargeResult(t *testing.T) {
	t.Parallel()
	r := openOne(t, "good")
	r.turn()
	o := r.call(t.Context(), "mcp__s__large", "")
	switch {
	case kind(o) != "":
		t.Fatalf(`kind(o) = %q, want ""`, kind(o))
	case len(o.Rendered) > 40_000:
		t.Fatalf("len(o.Rendered) = %d (%q), want at most 40_000", len(o.Rendered), o.Rendered)
	case !strings.HasPrefix(o.Rendered, "begin line"):
		t.Fatalf(`o.Rendered = %q, want it to begin with "begin line"`, o.Rendered)
	case !strings.Contains(o.Rendered, "output truncated"):
		t.Fatalf(`o.Rendered = %q, want it to contain "output truncated"`, o.Rendered)
	case !strings.Contains(o.Rendered, "\nend\n[all of it: "+r.dir):
		t.Fatalf("o.Rendered = %q, want it to contain %q", o.Rendered, "\nend\n[all of it: "+r.dir)
	}
	if len(o.Artifacts) != 1 {
		t.Fatalf("artifacts %v", o.Artifacts)
	}
	data, err := os.ReadFile(filepath.Join(r.dir, o.Artifacts[0].Path))
	if err != nil || len(data) != 1_300_009 {
		t.Errorf("kept %d bytes, %v", len(data), err)
	}
	full := r.call(t.Context(), "mcp__s__large", "", func(e *tools.Env) { e.Disk = none{} })
	if kind(full) != "" || !strings.Contains(full.Rendered, "content-0.txt was not kept") {
		t.Errorf("without room: %q", full.Rendered[max(0, len(full.Rendered)-300):])
	}
}

// none is a disk without room.
type none struct{}

func (none) Take(int64) int64 { return 0 }
func (none) Give(int64)       {}

func TestContent(t *testing.T) {
	t.Parallel()
	r := openOne(t, "good")
	r.turn()
	for _, images := range []bool{true, false} {
		o := r.call(t.Context(), "mcp__s__mixed", "", func(e *tools.Env) { e.Images = images })
		shown := map[bool]string{true: ", shown", false: ", not shown"}[images]
		for _, want := range []string{"see\n", "[image image/jpeg, 70 bytes" + shown + ", kept as ",
			"[audio audio/wav, 4 bytes, kept as ", "[resource_link a file:///a]",
			"[resource file:///b, 12 bytes]\ncontent of b"} {
			if !strings.Contains(o.Rendered, want) {
				t.Errorf("images %v: no %q in\n%s", images, want, o.Rendered)
			}
		}
		if (len(o.Images) == 1) != images || images && o.Images[0].MediaType != "image/png" {
			t.Errorf("images %v: %d shown", images, len(o.Images))
		}
	}
}

// A call that hangs ends with its turn at once, and with its own time limit; the
// server is told.
func TestHang(t *testing.T) {
	t.Parallel()
	r := openOne(t, "good")
	r.turn()
	ctx, cancel := context.WithCancel(t.Context())
	log := filepath.Join(r.logs, "s.log")
	logged := func(text string) func() bool {
		return func() bool { data, _ := os.ReadFile(log); return strings.Contains(string(data), text) }
	}
	go func() {
		await(t, "the call", logged("hanging"))
		cancel()
	}()
	if o := r.call(ctx, "mcp__s__hang", ""); kind(o) != tools.KindCanceled {
		t.Errorf("cancelled: %+v", o.Canonical.Error)
	}
	await(t, "the server to be told", logged("told to stop"))
	if o := r.call(t.Context(), "mcp__s__echo", `{}`); o.Rendered != "{}" {
		t.Errorf("afterwards: %q", o.Rendered)
	}

	short := open(t, func(o *mcp.Options) {
		s := program(t, "good")
		s.CallTimeout = mcp.Duration(50e6)
		o.Config.Servers["s"] = s
	})
	short.turn()
	if o := short.call(t.Context(), "mcp__s__hang", ""); kind(o) != "mcp_timeout" {
		t.Errorf("timed out: %+v", o.Canonical.Error)
	}
}

// A server that crashes is started again; the call that it died of is not made
// again.
func TestCrash(t *testing.T) {
	t.Parallel()
	r := openOne(t, "good")
	r.turn()
	o := r.call(t.Context(), "mcp__s__die", "")
	if kind(o) != "mcp_connection_lost" {
		t.Errorf("the call: %+v", o.Canonical.Error)
	}
	if o := r.call(t.Context(), "mcp__s__echo", `{}`); o.Rendered != "{}" {
		t.Errorf("afterwards: %q", o.Rendered)
	}
	before, err := os.ReadFile(filepath.Join(r.logs, "s.log.1"))
	if err != nil || string(before) != "dying\n" {
		t.Errorf("log of the first: %q, %v", before, err)
	}
}

// A turn keeps its tools; the next has the new ones.
func TestListChanges(t *testing.T) {
	t.Parallel()
	r := openOne(t, "good")
	r.turn()
	before := r.names()
	if o := r.call(t.Context(), "mcp__s__grow", ""); o.Rendered != "grown" {
		t.Fatalf("grow: %q", o.Rendered)
	}
	await(t, "the tool to go", func() bool {
		return kind(r.call(t.Context(), "mcp__s__echo", "")) == "mcp_tool_not_found"
	})
	expect.Equal(t, "tools", r.names(), before)
	r.turn()
	if names := r.names(); strings.Contains(names, "__echo") || !strings.Contains(names, "__later") {
		t.Errorf("tools %s", names)
	}
	if o := r.call(t.Context(), "mcp__s__later", ""); o.Rendered != "now" {
		t.Errorf("later: %q", o.Rendered)
	}
}

// Servers that do not work cost a turn nothing but a note.
func TestBrokenServers(t *testing.T) {
	t.Parallel()
	r := open(t, func(o *mcp.Options) {
		for _, kind := range []string{"silent", "deaf", "garbage", "dies", "good"} {
			s := program(t, kind)
			if kind == "silent" || kind == "deaf" || kind == "garbage" { // garbage is taken for a log
				s.ConnectTimeout = mcp.Duration(300e6)
			}
			s.Optional = true
			o.Config.Servers[kind] = s
		}
		o.Config.Servers["nothing"] = mcp.Server{Command: "no-such-program", Optional: true}
		o.Config.Servers["closed"] = mcp.Server{Socket: "/nonexistent/socket", Optional: true}
		o.Config.Servers["nowhere"] = mcp.Server{URL: "http://127.0.0.1:1/mcp", Optional: true}
	})
	offer := r.turn()
	said := ""
	for _, note := range offer.Notes {
		if note.Code != "mcp_server_unavailable" {
			t.Errorf("note %+v", note)
		}
		said += note.Message + "\n"
	}
	for _, want := range []string{"server silent is not there", "server deaf is not", "server garbage is not",
		"server dies is not there", "status 7: no database here", "server nothing is not there",
		"server closed is not there", "server nowhere is not there"} {
		if !strings.Contains(said, want) {
			t.Errorf("no %q in\n%s", want, said)
		}
	}
	if strings.Contains(said, "good") || !strings.Contains(r.names(), "mcp__good__echo") {
		t.Errorf("notes %s, tools %s", said, r.names())
	}
	for _, s := range r.m.Health() {
		if (s.State == turns.MCPReady) != (s.Name == "good") || (s.Error == "") != (s.Name == "good") {
			t.Errorf("health %+v", s)
		}
	}
}

// A turn does not begin without a server, unless it is optional.
func TestRequired(t *testing.T) {
	r := open(t, func(o *mcp.Options) { o.Config.Servers["gone"] = program(t, "dies") })
	_, err := r.m.Offer(t.Context(), nil)
	if e, ok := errors.AsType[*responses.Error](err); !ok || e.Code != responses.CodeMCPUnavailable ||
		e.Param != "servers.gone" || !strings.Contains(e.Hint, "optional") {
		t.Errorf("Offer() = %v, want %s about servers.gone", err, responses.CodeMCPUnavailable)
	}
}

// A request that names a server wants its tools.
func TestRequested(t *testing.T) {
	t.Parallel()
	r := open(t, func(o *mcp.Options) {
		open, gone := program(t, "good"), program(t, "dies")
		open.AllowRequest, open.AllowedTools, gone.AllowRequest = true, []string{"echo", "meta", "fail"}, true
		gone.Optional = true
		o.Config.Servers["open"], o.Config.Servers["gone"], o.Config.Servers["closed"] = open, gone, program(t, "good")
		o.Config.RequestURLs = []string{"https://mcp.example.com/v1"}
	})
	r.turn(responses.MCPTool{Param: "tools[0]", Label: "open", AllowedTools: []string{"echo"}})
	switch names := r.names(); {
	case strings.Contains(names, "mcp__open__meta"):
		t.Errorf(`names = %q, want it without "mcp__open__meta"`, names)
	case !strings.Contains(names, "mcp__open__echo"):
		t.Errorf(`names = %q, want it to contain "mcp__open__echo"`, names)
	case !strings.Contains(names, "mcp__closed__meta"):
		t.Errorf(`names = %q, want it to contain "mcp__closed__meta"`, names)
	}
	r.turn()
	if names := r.names(); !strings.Contains(names, "mcp__open__meta") || strings.Contains(names, "mcp__open__env") {
		t.Errorf("tools %s", names)
	}
	for _, tc := range []struct {
		tool        responses.MCPTool
		code, param string
	}{
		{responses.MCPTool{Label: "closed"}, responses.CodeMCPNotAllowed, "tools[0].server_label"},
		{responses.MCPTool{Label: "other"}, responses.CodeMCPNotAllowed, "tools[0].server_label"},
		{responses.MCPTool{Label: "open", URL: "https://elsewhere.example.com"}, responses.CodeMCPNotAllowed,
			"tools[0].server_url"},
		{responses.MCPTool{Label: "open", Authorization: "x"}, responses.CodeMCPNotAllowed, "tools[0].headers"},
		{responses.MCPTool{Label: "open", AllowedTools: []string{"echo", "env"}}, responses.CodeInvalidValue,
			"tools[0].allowed_tools[1]"},
		{responses.MCPTool{Label: "gone"}, responses.CodeMCPUnavailable, "tools[0]"},
		{responses.MCPTool{Label: "other", URL: "https://mcp.example.com/v2"}, responses.CodeMCPNotAllowed,
			"tools[0].server_url"},
		{responses.MCPTool{Label: "a__b", URL: "https://mcp.example.com/v1"}, responses.CodeMCPNotAllowed,
			"tools[0].server_label"},
		{responses.MCPTool{Label: "other", URL: "https://mcp.example.com/v1", Headers: map[string]string{"Host": "x"}},
			responses.CodeInvalidValue, "tools[0].headers"},
		{responses.MCPTool{Label: "other", URL: "https://mcp.example.com/v1", Authorization: "x\ny"},
			responses.CodeInvalidValue, "tools[0].authorization"},
	} {
		tc.tool.Param = "tools[0]"
		_, err := r.m.Offer(t.Context(), []responses.MCPTool{tc.tool})
		e, ok := errors.AsType[*responses.Error](err)
		if !ok || e.Code != tc.code || e.Param != tc.param || e.Hint == "" && tc.code == responses.CodeMCPNotAllowed {
			t.Errorf("%+v: %+v, want %s about %s", tc.tool, err, tc.code, tc.param)
		}
	}
}
