package responses_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"holon/responses"
)

func TestDecodeMCPTools(t *testing.T) {
	r, err := responses.DecodeRequest([]byte(`{"tools":[{"type":"function","name":"f"},
		{"type":"mcp","server_label":"a","require_approval":"never"},
		{"type":"web_search"},
		{"type":"mcp","server_label":"b","server_url":"https://x/mcp","allowed_tools":["t"],"headers":{"X":"y"},` +
		`"authorization":"z","require_approval":"never","server_description":"d"},
		{"type":"mcp","server_label":"c","allowed_tools":{"tool_names":["u"]},"require_approval":"never"}]}`))
	if err != nil {
		t.Fatal(err)
	}
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

func TestDecodeMCPToolsRefuses(t *testing.T) {
	for _, tc := range []struct{ tool, code, param string }{
		{`{"type":"mcp","require_approval":"never"}`, responses.CodeMissingParameter, "tools[0].server_label"},
		{`{"type":"mcp","server_label":"a"}`, responses.CodeUnsupportedParameter, "tools[0].require_approval"},
		{`{"type":"mcp","server_label":"a","require_approval":"always"}`, responses.CodeUnsupportedParameter,
			"tools[0].require_approval"},
		{`{"type":"mcp","server_label":"a","require_approval":{"never":{"tool_names":["x"]}}}`,
			responses.CodeUnsupportedParameter, "tools[0].require_approval"},
		{`{"type":"mcp","server_label":"a","connector_id":"connector_x","require_approval":"never"}`,
			responses.CodeUnsupportedParameter, "tools[0].connector_id"},
		{`{"type":"mcp","server_label":5}`, responses.CodeInvalidValue, "tools[0].server_label"},
		{`{"type":"mcp","server_label":"a","headers":{"x":1},"require_approval":"never"}`, responses.CodeInvalidValue,
			"tools[0].headers"},
		{`{"type":"mcp","server_label":"a","allowed_tools":"x","require_approval":"never"}`, responses.CodeInvalidValue,
			"tools[0].allowed_tools"},
		{`{"type":"mcp","server_label":"a","allowed_tools":{"read_only":true},"require_approval":"never"}`,
			responses.CodeUnsupportedParameter, "tools[0].allowed_tools.read_only"},
		{`{"type":"mcp","server_label":"` + strings.Repeat("a", 100) + `","require_approval":"never"}`,
			responses.CodeInvalidValue, "tools[0].server_label"},
		{`{"type":"mcp","server_label":"a","require_approval":"never"},{"type":"mcp","server_label":"a",` +
			`"require_approval":"never"}`, responses.CodeInvalidValue, "tools[1].server_label"},
	} {
		_, err := responses.DecodeRequest([]byte(`{"tools":[` + tc.tool + `]}`))
		e, ok := errors.AsType[*responses.Error](err)
		switch {
		case !ok:
			t.Errorf("%.100s: %#v", tc.tool, err)
		case e.Code != tc.code:
			t.Errorf("%+v: e.Code = %q, want %q", tc, e.Code, tc.code)
		case !strings.HasPrefix(e.Param, tc.param):
			t.Errorf("%+v: e.Param = %q, want it to begin with %q", tc, e.Param, tc.param)
		case e.Status() != 400:
			t.Errorf("%+v: e.Status() = %d, want 400", tc, e.Status())
		}
	}
}
