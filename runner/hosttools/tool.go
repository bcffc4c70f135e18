package hosttools

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"holon/internal/mcpwire"
	"holon/internal/visible"
	"holon/responses"
)

// Bounds of tools.
const (
	maxTools    = 64
	maxCallID   = 256
	maxToolName = 64
	maxSchema   = 64 << 10 // bytes
	maxResult   = 1 << 20  // bytes of text, and of the structured form
	maxSummary  = 300      // bytes
	callTimeout = 30 * time.Second

	// LongestCall is within the time for which agentd waits for an answer.
	LongestCall = 5 * time.Minute
)

// Tool is a tool of the host. It acts for the agent whose container is served; the call names none.
type Tool struct {
	Name        string          // letters, digits, '_' and '-'; the model sees it under that name
	Description string          // for the model
	Schema      json.RawMessage // of the arguments: a JSON Schema of the type object
	Round       bool            // Call.Round is asked for
	Timeout     time.Duration   // of a call; 0: 30 seconds. At most LongestCall
	// Completes: the container's tool of that name stays, and asks this one for what it does not have.
	Completes bool

	// Call carries a call out and returns when its effect is durable. A call is made
	// again with the same ID when its answer was lost, also in another process: Call
	// then answers as it did and does nothing more. A *ToolError is shown to the
	// model; any other error is logged, and the model gets that the host failed.
	Call func(ctx context.Context, c Call) (Result, error)
}

// Call is one call of a Tool. Nothing in it is to be believed.
type Call struct {
	ID        string          // 1 to 256 bytes; the same for the same call
	Arguments json.RawMessage // a JSON object, at most maxMessage with all that surrounds it
	Round     Round
}

// Round is the text and the calls of the model in which a call was made.
type Round struct {
	Text  string      `json:"text"`  // cut at 32 KiB; "": nothing
	Calls []roundCall `json:"calls"` // of the same tool, this one included
}

// roundCall is a call of a round.
type roundCall struct {
	ID        string          `json:"call_id"` // as Call.ID
	Arguments json.RawMessage `json:"arguments"`
}

// Result is what the model is shown, and the same for programs.
type Result struct {
	Text       string          // a receipt
	Summary    string          // what happened, in one line; "": the first line of Text
	Structured json.RawMessage // a JSON object; nil for none
	// Unmasked: secrets are not taken out, since the result is to tell one.
	Unmasked bool
	// Directive is what agentd does with the rest of the turn. Its working directory is a path of the container.
	Directive responses.Directive
}

// ToolError says why a call was not made (runtime specification, "Tool Error
// Envelope Contract").
type ToolError struct {
	Kind      string         `json:"kind"` // stable, for programs
	Message   string         `json:"message"`
	Hint      string         `json:"hint,omitempty"`    // what to do about it
	Field     string         `json:"field,omitempty"`   // the argument at fault, if one is
	Retryable bool           `json:"retryable"`         // the same call may work later
	Details   map[string]any `json:"details,omitempty"` // small, and fit for the model
}

// Error returns message and hint.
func (e *ToolError) Error() string {
	return visible.WithRemedy(e.Message, e.Hint)
}

// Kinds of errors that every tool has.
const (
	KindInvalidInput = "invalid_tool_input" // as tools of the container say it
	kindUnavailable  = "host_unavailable"   // the host failed; its log says why
	kindTimeout      = "timed_out"          // the call took longer than it may
)

// checkTools refuses tools that no server can offer.
func checkTools(tools []Tool) error {
	if len(tools) > maxTools {
		return fmt.Errorf("serve the host's tools: there are %d, and may be %d", len(tools), maxTools)
	}
	seen := map[string]bool{}
	for _, t := range tools {
		var schema struct {
			Type string `json:"type"`
		}
		switch {
		case !validName(t.Name):
			return fmt.Errorf("serve the host's tools: %.100q is not a name", t.Name)
		case seen[t.Name]:
			return fmt.Errorf("serve the host's tools: there are two called %s", t.Name)
		case len(t.Schema) > maxSchema || json.Unmarshal(t.Schema, &schema) != nil || schema.Type != "object":
			return fmt.Errorf("serve the host's tools: the schema of %s does not describe an object", t.Name)
		case t.Call == nil:
			return fmt.Errorf("serve the host's tools: %s does nothing", t.Name)
		}
		seen[t.Name] = true
	}
	return nil
}

func validName(name string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"
	return name != "" && len(name) <= maxToolName && strings.Trim(name, letters) == ""
}

// offer adds a tool to the server.
func (s *Server) offer(t Tool) {
	tool := &mcp.Tool{Name: t.Name, Description: t.Description, InputSchema: t.Schema}
	switch {
	case t.Round:
		tool.Meta = mcp.Meta{mcpwire.MetaRound: true}
	case t.Completes:
		tool.Meta = mcp.Meta{mcpwire.MetaCompletes: true}
	}
	s.mcp.AddTool(tool,
		func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return s.call(ctx, t, req.Params)
		})
}

// call carries out a call of a tool.
func (s *Server) call(ctx context.Context, t Tool, p *mcp.CallToolParamsRaw) (*mcp.CallToolResult, error) {
	limit := min(cmp.Or(t.Timeout, callTimeout), LongestCall)
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	c, err := readCall(p)
	var result Result
	if err == nil {
		result, err = t.Call(ctx, c)
	}
	if err == nil && (len(result.Text) > maxResult || len(result.Structured) > maxResult) {
		err = &ToolError{Kind: "result_too_large", Message: "the result is too large to be shown; the call was made"}
	}
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		s.log.Warn("a call of a host tool took too long", "tool", t.Name, "limit", limit, "err", err)
		err = &ToolError{Kind: kindTimeout, Retryable: true,
			Message: fmt.Sprintf("the call was ended, since it took more than %s", limit),
			Hint:    "call again: what it had done already stays; if it takes too long again, ask for less at once"}
	}
	if err != nil {
		return s.failed(t.Name, err)
	}
	secrets := s.secrets
	if result.Unmasked {
		secrets = nil
	}
	out := &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: secrets.Text(result.Text)}}}
	if result.Structured != nil {
		out.StructuredContent = json.RawMessage(secrets.JSON(result.Structured, nil))
	}
	first, _, _ := strings.Cut(result.Text, "\n")
	out.Meta = mcp.Meta{mcpwire.MetaDirective: s.directive(result.Directive),
		mcpwire.MetaSummary: s.secrets.Text(visible.OneLine(cmp.Or(result.Summary, first), maxSummary))}
	return out, nil
}

// directive is a directive as agentd gets it: its reminder without secrets, and its directory where agentd sees it.
func (s *Server) directive(d responses.Directive) responses.Directive {
	if d.Reminder != nil {
		d.Reminder = new(s.secrets.Text(*d.Reminder))
	}
	if d.WorkingDirectory != "" && s.inside != nil {
		d.WorkingDirectory = s.inside(d.WorkingDirectory)
	}
	return d
}

// readCall reads what a container sent. A call without an id could not be told
// from one that is made again.
func readCall(p *mcp.CallToolParamsRaw) (Call, error) {
	id, ok := p.Meta[mcpwire.MetaCallID].(string)
	if !ok || id == "" || len(id) > maxCallID {
		return Call{}, &ToolError{Kind: KindInvalidInput, Field: "_meta." + mcpwire.MetaCallID,
			Message: "the call has no id of 1 to 256 bytes", Hint: "call the tool through agentd"}
	}
	c := Call{ID: id, Arguments: p.Arguments}
	if len(c.Arguments) == 0 {
		c.Arguments = json.RawMessage("{}")
	}
	if round, there := p.Meta[mcpwire.MetaRound]; there {
		data, err := json.Marshal(round)
		if err == nil {
			err = json.Unmarshal(data, &c.Round)
		}
		if err != nil {
			return Call{}, &ToolError{Kind: KindInvalidInput, Field: "_meta." + mcpwire.MetaRound,
				Message: "the round of the call cannot be read", Hint: "call the tool through agentd"}
		}
	}
	return c, nil
}

// receipt is the envelope of an error, as the model is shown it.
type receipt struct {
	OK       bool   `json:"ok"`
	ToolName string `json:"tool_name"`
	ToolError
}

// failed answers a call that was not made.
func (s *Server) failed(tool string, err error) (*mcp.CallToolResult, error) {
	why, ok := errors.AsType[*ToolError](err)
	if !ok {
		s.log.Error("a tool of the host failed", "tool", tool, "err", err)
		why = &ToolError{Kind: kindUnavailable, Message: "the host could not do that",
			Hint: "go on without it, and say so in your answer", Retryable: errors.Is(err, context.DeadlineExceeded)}
	}
	encoded, err := json.Marshal(receipt{ToolName: tool, ToolError: *why})
	if err != nil {
		return nil, fmt.Errorf("encode the error of a tool: %w", err)
	}
	return &mcp.CallToolResult{
		IsError:           true,
		Content:           []mcp.Content{&mcp.TextContent{Text: s.secrets.Text(why.Error())}},
		StructuredContent: json.RawMessage(s.secrets.JSON(encoded, nil)),
	}, nil
}
