package agentd_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"holon/agentd"
	"holon/agentd/config"
	"holon/agentd/mcp"
	"holon/internal/mcpwire"
	"holon/responses/turns"
	"holon/test/expect"
)

// serveMCP is a server on a Unix socket, with the given tools, each of which says
// its name.
func serveMCP(t *testing.T, names ...string) string {
	t.Helper()
	return serveCalls(t, func(name string, _ json.RawMessage) *sdk.CallToolResult {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "from the server: " + name}}}
	}, names...)
}

// serveCalls is a server on a Unix socket whose tools answer with what call returns. One with a + before its name
// completes a built-in tool.
func serveCalls(t *testing.T, call func(name string, arguments json.RawMessage) *sdk.CallToolResult,
	names ...string) string {
	t.Helper()
	s := sdk.NewServer(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	for _, name := range names {
		tool := &sdk.Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object"}`)}
		if name, completes := strings.CutPrefix(name, "+"); completes {
			tool.Name, tool.Meta = name, sdk.Meta{mcpwire.MetaCompletes: true}
		}
		if tool.Name == "TaskStatus" {
			tool.InputSchema = json.RawMessage(`{"type":"object","properties":{"task_id":{"type":"string"}}}`)
		}
		s.AddTool(tool,
			func(_ context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
				return call(name, req.Params.Arguments), nil
			})
	}
	path := filepath.Join(shortDir(t), "s.sock")
	listener, err := net.Listen("unix", path)
	expect.NoError(t, err)
	var group sync.WaitGroup
	group.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			group.Go(func() {
				defer conn.Close()
				session, err := s.Connect(context.Background(), &sdk.IOTransport{Reader: conn, Writer: conn}, nil)
				if err == nil {
					_ = session.Wait()
				}
			})
		}
	})
	t.Cleanup(func() { _ = listener.Close(); group.Wait() })
	return path
}

// withServers gives a server the host's tools, and those of the named sockets.
func withServers(host string, servers map[string]mcp.Server) func(*config.Config, *agentd.Parts) {
	return func(_ *config.Config, p *agentd.Parts) {
		p.MCP = mcp.Open(mcp.Options{HostSocket: host, Config: mcp.Config{Servers: servers},
			Log: slog.New(slog.DiscardHandler)})
		before := p.Close
		p.Close = func() error { return errors.Join(p.MCP.Close(), before()) }
	}
}

// A turn has the tools of servers in addition to its own, and says so in its record.
func TestServersOfTools(t *testing.T) {
	t.Parallel()
	h := start(t, withServers(serveMCP(t, "ViewImage", "turn_note"), map[string]mcp.Server{
		"one": {Socket: serveMCP(t, "look", "hide"), AllowRequest: true, AllowedTools: []string{"look"}},
		"off": {Socket: "/nonexistent/socket", Optional: true},
	}))
	model := h.scenario("tools", `rounds:
  - calls: [{tool: ViewImage, arguments: {any: 1}}, {tool: mcp__one__look}, {tool: mcp__one__hide}, {tool: turn_note}]
  - text: Done.
`)
	h.post(`{"model":"` + model + `","input":"go","holon":{"turn_id":"turn_tools"}}`).response(t)
	results := strings.Join(append(h.facts("turn_tools", turns.ToolResult), h.facts("turn_tools", turns.ToolFailed)...),
		"\n")
	for _, want := range []string{"from the server: ViewImage", "from the server: look", `"kind":"unknown_tool"`,
		"from the server: turn_note"} {
		if !strings.Contains(results, want) {
			t.Errorf("no %q in\n%s", want, results)
		}
	}
	warnings := strings.Join(h.facts("turn_tools", turns.RuntimeWarning), "\n")
	for _, want := range []string{`"mcp_server_unavailable","message":"the MCP server off is not there`,
		`"host_tool_replaces_builtin","message":"the host's tool ViewImage`} {
		if !strings.Contains(warnings, want) {
			t.Errorf("no %q in\n%s", want, warnings)
		}
	}
	if told := h.facts("turn_tools", turns.ContextResolved)[0]; !strings.Contains(told, `"mcp__one__look"`) ||
		strings.Contains(told, "hide") {
		t.Errorf("context %s", told)
	}
	states := ""
	for _, s := range h.health().MCP {
		states += s.Name + " " + s.State + "; "
	}
	if !strings.HasPrefix(states, "host ready; off ") || !strings.HasSuffix(states, "one ready; ") {
		t.Errorf("health: %s", states)
	}
}

// A tool of the host that completes a built-in one is asked for tasks that are not of the container, and for what a list
// lacks; a task of the container is as if there were no such tool.
func TestCompletedTools(t *testing.T) {
	t.Parallel()
	host := serveCalls(t, func(name string, arguments json.RawMessage) *sdk.CallToolResult {
		answer := func(text string) *sdk.CallToolResult {
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "of the host"}},
				StructuredContent: json.RawMessage(text)}
		}
		switch {
		case name == "+TaskList":
			return answer(`{"tasks":[{"id":"task_child","kind":"child_agent_task","status":"running","command":"count"}]}`)
		case strings.Contains(string(arguments), "task_child"):
			return answer(`{"task":{"task_id":"task_child","kind":"child_agent_task","status":"running","summary":"at work"}}`)
		}
		r := answer(`{"kind":"not_found","message":"there is none"}`)
		r.IsError = true
		return r
	}, "+TaskStatus", "+TaskList", "+NoSuchTool")
	play := func(servers func(*config.Config, *agentd.Parts)) (results []string, warnings string) {
		h := start(t, servers)
		model := h.scenario("tasks", `rounds:
  - calls: [{tool: ExecCommand, arguments: {cmd: "sleep 60", yield_time_ms: 1}}]
  - calls:
      - {tool: TaskStatus, arguments: {task_id: "{{last_output:task_[0-9a-z]+}}"}}
      - {tool: TaskList}
      - {tool: TaskStatus, arguments: {task_id: task_child}}
      - {tool: TaskStatus, arguments: {task_id: task_none}}
  - text: Done.
`)
		h.post(`{"model":"` + model + `","input":"go","holon":{"turn_id":"turn_tasks"}}`).response(t)
		return append(h.facts("turn_tasks", turns.ToolResult), h.facts("turn_tasks", turns.ToolFailed)...),
			strings.Join(h.facts("turn_tasks", turns.RuntimeWarning), "\n")
	}
	with, warnings := play(withServers(host, nil))
	without, _ := play(withServers("", nil))
	expect.Equal(t, "results with the host", len(with), 5)
	expect.Equal(t, "results without it", len(without), 5)
	for i, want := range []string{"", `"command_task"`, `"task_child"`, `"summary":"at work"`, `"task_not_found"`} {
		if !strings.Contains(with[i], want) {
			t.Errorf("no %q in %s", want, with[i])
		}
	}
	if strings.Contains(without[2], "task_child") || !strings.Contains(with[2], `"command_task"`) {
		t.Errorf("lists: with the host %s\nwithout %s", with[2], without[2])
	}
	if strings.Contains(warnings, "host_tool_replaces_builtin") {
		t.Errorf("a tool that completes another one replaces it: %s", warnings)
	}
}

// The request's tool of type mcp works for servers that the operator allowed and
// is refused for all others, by the field's name.
func TestRequestNamesServer(t *testing.T) {
	t.Parallel()
	h := start(t, withServers("", map[string]mcp.Server{"one": {Socket: serveMCP(t, "look", "hide"),
		AllowRequest: true}, "own": {Socket: serveMCP(t, "x")}}))
	model := h.scenario("named", "rounds:\n  - calls: [{tool: mcp__one__look}]\n  - text: '{{last_output}}'\n")
	post := func(tool, more string) answer {
		return h.post(`{"model":"` + model + `","input":"go","tools":[` + tool + `]` + more + `}`)
	}
	got := post(`{"type":"mcp","server_label":"one","allowed_tools":["look"],"require_approval":"never"}`,
		`,"tool_choice":{"type":"function","name":"mcp__one__look"}`).response(t)
	expect.Equal(t, "answer", got.OutputText(), "from the server: look")
	for tool, param := range map[string]string{
		`{"type":"mcp","server_label":"one"}`:                                                               "tools[0].require_approval",
		`{"type":"mcp","server_label":"own","require_approval":"never"}`:                                    "tools[0].server_label",
		`{"type":"mcp","server_label":"x","server_url":"https://x.example/mcp","require_approval":"never"}`: "tools[0].server_url",
		`{"type":"mcp","server_label":"one","allowed_tools":["other"],"require_approval":"never"}`:          "tools[0].allowed_tools[0]",
	} {
		a := post(tool, "")
		if e := a.failure(t); a.status != http.StatusBadRequest || e.Param != param {
			t.Errorf("%s: %d %+v", tool, a.status, e)
		}
	}
	// What is not offered cannot be demanded.
	a := post(`{"type":"mcp","server_label":"one","allowed_tools":["look"],"require_approval":"never"}`,
		`,"tool_choice":{"type":"function","name":"mcp__one__hide"}`)
	if e := a.failure(t); e.Param != "tool_choice.name" {
		t.Errorf("%d %+v", a.status, e)
	}
	count := func(tools string) (n struct {
		InputTokens int `json:"input_tokens"`
	}) {
		if err := json.Unmarshal(h.do(http.MethodPost, "/responses/input_tokens",
			`{"input":"go","tools":[`+tools+`]}`).body, &n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if all, few := count(""), count(`{"type":"mcp","server_label":"one","allowed_tools":["look"],`+
		`"require_approval":"never"}`); few.InputTokens >= all.InputTokens || few.InputTokens == 0 {
		t.Errorf("%d tokens with all tools, %d with fewer", all.InputTokens, few.InputTokens)
	}
}
