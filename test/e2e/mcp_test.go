package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holon/test/expect"
	"holon/test/programs"
)

// A turn uses the host's tool, and a server that was started in the container;
// what it noted is in the run's record.
func TestMCP(t *testing.T) {
	dir := t.TempDir()
	expect.NoError(t, programs.Copy("calculator", filepath.Join(dir, "calculator")))
	config := filepath.Join(t.TempDir(), "mcp.json")
	name := filepath.Base(dir)
	if err := os.WriteFile(config, []byte(`{"servers": {
		"calc": {"command": "/holon/workspaces/`+name+`/calculator", "env": {"CALCULATOR_NAME": "Ada"}},
		"gone": {"url": "http://127.0.0.1:9/mcp", "optional": true}
	}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	r := newHome(t).play(0, dir, "mcp", "--mcp-config", config)
	checkRecord(t, r)
	var notes []string
	for _, n := range r.manifest.Notes {
		notes = append(notes, n.Kind+": "+n.Text)
	}
	expect.Equal(t, "notes", strings.Join(notes, "|"), "decision: The answer is checked.|note: Add more tests.")
	summary := r.read(t, "summary.md")
	if !strings.Contains(summary, "\n## Notes of the agent\n\n`decision`\n\n```\nThe answer is checked.\n```\n") {
		t.Errorf("summary:\n%s", summary)
	}
	expect.Contains(t, "answer", r.stdout, "the text is empty")
	facts := r.read(t, "runtime.ndjson")
	for _, want := range []string{"40 + 2 = 42, says Ada", "mcp_connection_lost", "1 + 1 = 2, says Ada",
		`"mcp_server_unavailable"`, "the MCP server gone is not there"} {
		if !strings.Contains(facts, want) {
			t.Errorf("runtime.ndjson has no %q", want)
		}
	}
	expect.Equal(t, "notes are kept", strings.Count(r.read(t, "../"+filepath.Base(r.dir)+"/notes.ndjson"), "\n"), 2)
}
