package responses

import (
	"bytes"
	"fmt"
	"slices"
	"unicode/utf8"

	"holon/internal/visible"

	"github.com/go-json-experiment/json/jsontext"
)

// Bounds of the tools of type mcp in a request.
const (
	maxMCPTools   = 16 // of one request
	maxMCPHeaders = 32
	maxMCPText    = 8 << 10 // characters of an address, a header or an authorization
)

// Codes of errors about tools of type mcp.
const (
	CodeMCPNotAllowed  = "mcp_server_not_allowed"
	CodeMCPUnavailable = "mcp_server_unavailable"
)

// requireNever is the only require_approval that is taken.
var requireNever = jsontext.Value(`"never"`)

// MCPTool is a tool of type mcp: the client names an MCP server whose tools the
// model may call. The server calls them; it does so for servers that its operator
// allows. Headers and Authorization are secrets: nothing keeps or shows them.
type MCPTool struct {
	Param         string // where it stands in the request, tools[2]
	Label         string
	URL           string            // "" when the label alone names the server
	AllowedTools  []string          // by the server's own names; nil: all
	Headers       map[string]string // nil without any
	Authorization string            // an access token, "" for none
}

// wireMCPTool is a tool of type mcp as it stands on the wire.
type wireMCPTool struct {
	Type            string            `json:"type"`
	Label           string            `json:"server_label"`
	URL             *string           `json:"server_url,omitzero"`
	Connector       *string           `json:"connector_id,omitzero"`
	Allowed         jsontext.Value    `json:"allowed_tools,omitzero"`
	RequireApproval jsontext.Value    `json:"require_approval"`
	Headers         map[string]string `json:"headers,omitzero"`
	Authorization   *string           `json:"authorization,omitzero"`
}

// MarshalJSON writes the tool with its secrets, as a client sends it.
func (t MCPTool) MarshalJSON() ([]byte, error) {
	w := wireMCPTool{Type: "mcp", Label: t.Label, URL: nullable(t.URL), RequireApproval: requireNever,
		Headers: t.Headers, Authorization: nullable(t.Authorization)}
	if t.AllowedTools != nil {
		var err error
		if w.Allowed, err = encode(t.AllowedTools); err != nil {
			return nil, err
		}
	}
	return encode(w)
}

// addMCPTool takes in a tool of type mcp.
func (r *Request) addMCPTool(path string, raw []byte) error {
	if len(r.MCP) >= maxMCPTools {
		return Invalid(path, CodeInvalidValue, fmt.Sprintf("there may be %d tools of type mcp", maxMCPTools))
	}
	tool, err := decodeMCPTool(path, raw)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(r.MCP, func(t MCPTool) bool { return t.Label == tool.Label }) {
		return Invalid(path+".server_label", CodeInvalidValue,
			fmt.Sprintf("the server %q is named twice", visible.Clip(tool.Label, 64)))
	}
	r.MCP = append(r.MCP, tool)
	return nil
}

// decodeMCPTool reads a tool of type mcp at path. It refuses keys that this server
// does not implement and that would not be harmless to ignore.
func decodeMCPTool(path string, raw []byte) (MCPTool, error) {
	var w wireMCPTool
	t := MCPTool{Param: path}
	if err := Unmarshal(raw, &w); err != nil {
		return t, within(path, err)
	}
	t.Label, t.URL, t.Headers, t.Authorization = w.Label, orDefault(w.URL, ""), w.Headers,
		orDefault(w.Authorization, "")
	if t.Label == "" {
		return t, Invalid(path+".server_label", CodeMissingParameter, "a tool of type mcp needs a server_label")
	}
	if w.Connector != nil {
		return t, Invalid(path+".connector_id", CodeUnsupportedParameter,
			"connectors are not offered by this server; name a server by server_label or server_url")
	}
	for _, text := range []struct {
		param, value string
		limit        int
	}{{".server_label", t.Label, maxShortName}, {".server_url", t.URL, maxMCPText},
		{".authorization", t.Authorization, maxMCPText}} {
		if err := checkChars(path+text.param, text.value, text.limit); err != nil {
			return t, err
		}
	}
	if err := checkCount(path+".headers", "headers", len(t.Headers), maxMCPHeaders); err != nil {
		return t, err
	}
	for name, value := range t.Headers {
		if len(name) > maxShortName || utf8.RuneCountInString(value) > maxMCPText {
			return t, Invalid(path+".headers", CodeInvalidValue, "a header is too long")
		}
	}
	if !bytes.Equal(w.RequireApproval, requireNever) {
		e := Invalid(path+".require_approval", CodeUnsupportedParameter,
			"this server does not wait for approval of calls, which is the default of require_approval")
		e.Hint = `send "require_approval": "never", and allowed_tools for those that are harmless`
		return t, e
	}
	var err error
	t.AllowedTools, err = decodeAllowed(path+".allowed_tools", w.Allowed)
	return t, err
}

// decodeAllowed reads a list of names, or an object with one.
func decodeAllowed(param string, raw []byte) ([]string, error) {
	if isNull(raw) {
		return nil, nil
	}
	var names []string
	if raw[0] == '{' {
		var filter struct {
			Names    []string `json:"tool_names"`
			ReadOnly *bool    `json:"read_only"`
		}
		if err := Unmarshal(raw, &filter); err != nil {
			return nil, within(param, err)
		}
		if filter.ReadOnly != nil {
			return nil, Invalid(param+".read_only", CodeUnsupportedParameter,
				"a server's description of its own tools cannot be a filter; list the names in tool_names")
		}
		names = filter.Names
	} else if err := Unmarshal(raw, &names); err != nil {
		return nil, within(param, err)
	}
	return nonNil(names), checkCount(param, "tools", len(names), maxTools)
}

// MCPUnavailable is the error for a server that the request needs and that does
// not answer.
func MCPUnavailable(param, message string) *Error {
	return &Error{Type: TypeInvalidRequest, Code: CodeMCPUnavailable, Param: param, Message: message,
		Hint: "check the server, or send the request without it"}
}
