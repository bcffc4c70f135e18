package responses_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"holon/responses"
	"holon/test/expect"
)

func TestDecodeMCPTools(t *testing.T) {
	r, err := responses.DecodeRequest([]byte(`{"tools":[{"type":"function","name":"f"},
		{"type":"mcp","server_label":"a","require_approval":"never"},
		{"type":"web_search"},
		{"type":"mcp","server_label":"b","server_url":"https://x/mcp","allowed_tools":["t"],"headers":{"X":"y"},` +
		`"authorization":"z","require_approval":"never","server_description":"d"},
		{"type":"mcp","server_label":"c","allowed_tools":{"tool_names":["u"]},"require_approval":"never"}]}`))
	expect.NoError(t, err)
	want := []responses.MCPTool{{Param: "tools[1]", Label: "a"},
		{Param: "tools[3]", Label: "b", URL: "https://x/mcp", AllowedTools: []string{"t"},
			Headers: map[string]string{"X": "y"}, Authorization: "z"},
		{Param: "tools[4]", Label: "c", AllowedTools: []string{"u"}}}
	if diff := cmp.Diff(want, r.MCP); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// The parts of a request that a response repeats hold no secret.
	echo, err := responses.NewResponse("resp_1", "m", 0, r).MarshalJSON()
	if err != nil || strings.Contains(string(echo), `"z"`) || strings.Contains(string(echo), "https://x") {
		t.Errorf("%s, %v", echo, err)
	}
}
