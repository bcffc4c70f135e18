package mcp

import (
	"reflect"
	"testing"

	"holon/test/expect"
)

// The list of other tools is read with the variables of commands, and what is not understood is named.
func TestMCPJSON(t *testing.T) {
	c, err := parse([]byte(`{
		"mcpServers": {
			"files": {"command": "${BIN:-/usr/bin}/files", "args": ["--root", "${ROOT}", "$ROOT", "${EMPTY:-none}"],
				"env": {"TOKEN": "${TOKEN}"}, "disabled": true, "cwd": "/", "optional": true},
			"docs": {"type": "http", "url": "https://docs.example/mcp", "headers": {"Authorization": "Bearer ${TOKEN}"}}
		},
		"inputs": []
	}`), []string{"ROOT=/w", "TOKEN=one", "EMPTY=", "TOKEN=two"})
	expect.NoError(t, err)
	files, docs := c.Servers["files"], c.Servers["docs"]
	if want := []string{"--root", "/w", "$ROOT", "none"}; files.Command != "/usr/bin/files" ||
		!reflect.DeepEqual(files.Args, want) || files.Env["TOKEN"] != "two" || !files.Optional || docs.Optional {
		t.Errorf("files: %+v", files)
	}
	if docs.URL != "https://docs.example/mcp" || docs.headers.Get("Authorization") != "Bearer two" {
		t.Errorf("docs: %+v", docs)
	}
	var said []string
	for _, note := range c.notes {
		said = append(said, note.Message)
	}
	want := []string{"inputs in the list of MCP servers has no effect",
		"mcpServers.files.cwd in the list of MCP servers has no effect",
		"mcpServers.files.disabled in the list of MCP servers has no effect"}
	if !reflect.DeepEqual(said, want) {
		t.Errorf("notes: %q, want %q", said, want)
	}
}
