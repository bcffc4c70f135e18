package mcp

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"holon/agentd/tools"
	"holon/test/expect"
)

// What a server does not say of a tool is not known, and what it says a part of has the protocol's defaults.
func TestTraitsAreWhatTheServerSays(t *testing.T) {
	if known := traits(nil); known.ReadOnly != nil || known.Destructive != nil {
		t.Errorf("a tool without annotations has %+v, want nothing", known)
	}
	for _, tt := range []struct {
		hints             sdk.ToolAnnotations
		reads, mayDestroy bool
	}{
		{sdk.ToolAnnotations{ReadOnlyHint: true}, true, false},
		{sdk.ToolAnnotations{}, false, true},
		{sdk.ToolAnnotations{DestructiveHint: new(false)}, false, false},
	} {
		if known := traits(&tt.hints); *known.ReadOnly != tt.reads || *known.Destructive != tt.mayDestroy {
			t.Errorf("%+v: read-only %v, destructive %v, want %v, %v", tt.hints, *known.ReadOnly, *known.Destructive,
				tt.reads, tt.mayDestroy)
		}
	}
}

func TestPublicNames(t *testing.T) {
	long := strings.Repeat("long", 30)
	names := []string{"plain", "a.b", "a_b", "a b", "über", long, long + "2", "x__y", "mixed.Case-1"}
	got := publicNames("s", names)
	for i, want := range []string{"mcp__s__plain", "mcp__s__a_b_", "mcp__s__a_b", "mcp__s__a_b_", "mcp__s___ber",
		"mcp__s__longlong", "mcp__s__longlong", "mcp__s__x__y", "mcp__s__mixed_Case-1"} {
		if !strings.HasPrefix(got[i], want) || !tools.ValidName(got[i]) {
			t.Errorf("%q became %q", names[i], got[i])
		}
	}
	expect.Equal(t, "the name that needed no change became", got[2], "mcp__s__a_b")
	sorted := slices.Clone(got)
	slices.Sort(sorted)
	if len(slices.Compact(sorted)) != len(names) {
		t.Errorf("not all differ: %q", got)
	}
	slices.Reverse(names)
	again := publicNames("s", names)
	slices.Reverse(again)
	if !slices.Equal(got, again) {
		t.Errorf("another order gives other names: %q, %q", got, again)
	}
}

func TestBelow(t *testing.T) {
	for _, tc := range []struct {
		url, allowed string
		want         bool
	}{
		{"https://a.example/mcp", "https://a.example/mcp", true},
		{"https://a.example/mcp/x", "https://a.example/mcp", true},
		{"https://a.example/mcp/x", "https://a.example/mcp/", true},
		{"https://A.example/mcp", "https://a.EXAMPLE/", true},
		{"https://a.example", "https://a.example/", true},
		{"https://a.example/mcp?x=1", "https://a.example/mcp", true},
		{"https://a.example/mcpx", "https://a.example/mcp", false},
		{"https://a.example/", "https://a.example/mcp", false},
		{"http://a.example/mcp", "https://a.example/mcp", false},
		{"https://a.example:444/mcp", "https://a.example/mcp", false},
		{"https://a.example.evil/mcp", "https://a.example/mcp", false},
		{"https://a.example@evil/mcp", "https://a.example/mcp", false},
		{"https://a.example/mcp/../x", "https://a.example/mcp", false},
		{"https://a.example/mcp/%2e%2e/x", "https://a.example/mcp", false},
		{"https://a.example/mcp/..%2fx", "https://a.example/mcp", false},
		{`https://a.example/mcp\..\x`, "https://a.example/mcp", false},
		{"file:///mcp", "https://a.example/mcp", false},
		{"", "https://a.example/mcp", false},
	} {
		if got := below(tc.url, tc.allowed); got != tc.want {
			t.Errorf("%s below %s: %v", tc.url, tc.allowed, got)
		}
	}
}

func TestAddHeader(t *testing.T) {
	for header, good := range map[string]bool{"X-Key: v": true, "Authorization: Bearer x": true, "Cookie: a=b": true,
		"Host: x": false, "Mcp-Session-Id: x": false, "Content-Length: 1": false, "Bad Name: x": false,
		"X-Key: a\nb": false, "X: \x00": false, ": x": false} {
		name, value, _ := strings.Cut(header, ":")
		if err := addHeader(make(http.Header), name, strings.TrimPrefix(value, " ")); (err == nil) != good {
			t.Errorf("%q: %v", header, err)
		}
	}
}

func TestParse(t *testing.T) {
	for _, tc := range []struct{ config, field string }{
		{``, "ok"},
		{`servers: {a: {command: x, args: [y], env: {K: v}, call_timeout: 2m, allowed_tools: []}}`, "ok"},
		{`{"servers": {"a-b": {"url": "https://x.example/mcp", "allow_request": true}},` +
			` "request_urls": ["https://y.example"]}`, "ok"},
		{`servers: {a: {socket: /run/a.sock}}`, "ok"},
		{`servers: {a: {}}`, "servers.a"},
		{`servers: {a: {command: x, url: "https://x"}}`, "servers.a"},
		{`servers: {a__b: {command: x}}`, "servers.a__b"},
		{`servers: {host: {command: x}}`, "servers.host"},
		{`servers: {"a b": {command: x}}`, "servers.a b"},
		{`servers: {a: {command: x, colour: red}}`, ""},
		{`servers: {a: {command: x, call_timeout: soon}}`, ""},
		{`servers: {a: {command: x, call_timeout: -1s}}`, "servers.a.call_timeout"},
		{`servers: {a: {command: x, dir: relative}}`, "servers.a.dir"},
		{`servers: {a: {url: "ftp://x"}}`, "servers.a.url"},
		{`servers: {a: {url: "https://u:p@x"}}`, "servers.a.url"},
		{`servers: {a: {url: "https://x", headers_file: /nonexistent}}`, "servers.a.headers_file"},
		{`servers: {a: {socket: relative}}`, "servers.a.socket"},
		{`servers: {a: {url: "https://x", args: [y]}}`, "servers.a.command"},
		{`servers: {a: {command: x, headers_file: y}}`, "servers.a.url"},
		{`servers: {a: {command: x, env: {"A=B": v}}}`, "servers.a.env"},
		{`request_urls: [nothing]`, "request_urls[0]"},
		{`[]`, ""},
		{`{"mcpServers": {}}`, "ok"},
		{`{"mcpServers": {"a": {"command": "x", "args": ["y", 1], "env": {"K": "${TOKEN}"}}}}`, "ok"},
		{`{"mcpServers": {"a": {"type": "http", "url": "https://x", "headers": {"Authorization": "Bearer t"}}}}`, "ok"},
		{`{"mcpServers": {"a": {}}}`, "mcpServers.a"},
		{`{"mcpServers": {"a b": {"command": "x"}}}`, "mcpServers.a b"},
		{`{"mcpServers": {"a": {"type": "sse", "url": "https://x"}}}`, "mcpServers.a.type"},
		{`{"mcpServers": {"a": {"type": "http", "command": "x"}}}`, "mcpServers.a.type"},
		{`{"mcpServers": {"a": {"type": "stdio", "url": "https://x"}}}`, "mcpServers.a.type"},
		{`{"mcpServers": {"a": {"command": "x", "headers": {"A": "b"}}}}`, "mcpServers.a.headers"},
		{`{"mcpServers": {"a": {"url": "https://x", "headers": {"Host": "b"}}}}`, "mcpServers.a.headers"},
		{`{"mcpServers": {"a": {"url": "https://x/${SECRET}"}}}`, "mcpServers.a.${SECRET}"},
		{`{"mcpServers": {"a": {"command": 3, "args": {}}}}`, ""},
		{`{"mcpServers": {"a": {"url": "https://${TOKEN}:p@x"}}}`, "mcpServers.a.url"},
		{"servers: {}\n---\nservers: {}\n", ""},
		{"\x00", ""},
	} {
		_, err := parse([]byte(tc.config), []string{"TOKEN=secret", "EMPTY="})
		p, _ := err.(*Problem)
		switch {
		case tc.field == "ok":
			if err != nil {
				t.Errorf("%s: %v", tc.config, err)
			}
		case p == nil || p.Field != tc.field || p.What == "" || p.Remedy == "" || strings.Contains(p.What, "mcp."):
			t.Errorf("%s: %#v", tc.config, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`servers: {a: {command: x, env: {K: v}}}`))
	f.Add([]byte(`{"servers": {"a": {"url": "https://x.example/mcp"}}}`))
	f.Add([]byte(`{"mcpServers": {"a": {"command": "x", "args": ["${A:-b}"], "env": {"A": "b"}, "cwd": "/"}}}`))
	f.Add([]byte("a: &a [*a]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := parse(data, nil)
		if (c == nil) == (err == nil) {
			t.Fatalf("%v and %v", c, err)
		}
	})
}
