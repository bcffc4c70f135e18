package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"holon/agentd/tools"
	"holon/internal/mcpwire"
	"holon/internal/visible"
	"holon/responses/turns"
)

// maxHidden bounds the hidden texts of a result.
const maxHidden = 8

// Bounds of a round in a call, in bytes: of its text, and of the arguments of one of its calls.
const (
	maxRoundText = 32 << 10
	maxRoundCall = 1 << 10
)

// roundOf is the round of a call for the host: its text, and its calls of the same tool.
func roundOf(turnID string, c tools.Call) map[string]any {
	calls := []map[string]any{}
	for _, other := range c.Round.Calls {
		if other.Name == c.Name && len(other.Arguments) <= maxRoundCall && json.Valid(other.Arguments) {
			calls = append(calls, map[string]any{"call_id": turnID + "/" + other.ID, "arguments": other.Arguments})
		}
	}
	return map[string]any{"text": visible.Clip(c.Round.Text, maxRoundText), "calls": calls}
}

// Kinds of errors of calls, in addition to those of package tools.
const (
	kindUnavailable = "mcp_server_unavailable"
	kindGone        = "mcp_tool_not_found"    // it was offered when the turn began, and is not now
	kindTimeout     = "mcp_timeout"           // the call took too long
	kindLost        = "mcp_connection_lost"   // before the answer; the call may have been made
	kindTool        = "mcp_tool_error"        // the tool reported a failure
	kindProtocol    = "mcp_server_error"      // the server refused the call
	kindTooLarge    = "mcp_result_too_large"  // the answer exceeds the limit
	kindBadResult   = "mcp_result_unreadable" // the answer is malformed
)

var errCallTimeout = errors.New("the call took too long")

// tool is a server's tool for one turn.
type tool struct {
	server *server
	listed listed
}

func (t *tool) Definition() tools.Definition {
	d := tools.Definition{Name: t.listed.name, Description: t.listed.description, Parameters: t.listed.schema,
		Foreign: true, Owner: turns.OwnerMCP, Traits: t.listed.traits}
	if t.server.host {
		d.Owner = turns.OwnerHost
	}
	d.Traits.Interrupt = turns.InterruptCancel // the call is cancelled at the server, and given up
	return d
}

func (t *tool) Run(ctx context.Context, env tools.Env, c tools.Call) tools.Output {
	result, bad := t.ask(ctx, env, c)
	if bad != nil {
		return tools.Fail(bad)
	}
	return t.output(result, env)
}

// ask makes a call, within the time that its server has for one.
func (t *tool) ask(ctx context.Context, env tools.Env, c tools.Call) (*sdk.CallToolResult, *tools.Error) {
	limit := t.server.cfg.CallTimeout.or(defaultCallTimeout)
	calling, cancel := context.WithTimeoutCause(ctx, limit, errCallTimeout)
	defer cancel()
	if len(c.Arguments) == 0 {
		c.Arguments = []byte("{}")
	}
	meta := sdk.Meta{mcpwire.MetaCallID: env.TurnID + "/" + c.ID}
	if t.listed.round {
		meta[mcpwire.MetaRound] = roundOf(env.TurnID, c)
	}
	result, bad := t.call(calling, meta, c)
	switch {
	case bad == nil:
		return result, nil
	case ctx.Err() != nil:
		bad = &tools.Error{Kind: tools.KindCanceled,
			Message: "the turn was ended; the call was cancelled but may have taken effect"}
	case errors.Is(context.Cause(calling), errCallTimeout):
		bad = &tools.Error{Kind: kindTimeout,
			Message: fmt.Sprintf("%s did not answer within %s; the call was cancelled but may have taken effect",
				t.server.name, limit.Round(time.Second)),
			RecoveryHint: "find out what happened before you call it again"}
	}
	bad.Details = t.details(bad.Details)
	return nil, bad
}

// call makes the call once. A call to the host is repeated when the connection broke,
// since the host identifies it by its id.
func (t *tool) call(ctx context.Context, meta sdk.Meta, c tools.Call) (*sdk.CallToolResult, *tools.Error) {
	var broken *sdk.ClientSession
	for {
		session, why := t.server.awaitSession(ctx, broken)
		switch {
		case session == nil && broken != nil:
			return nil, lost(t.server.name, why)
		case session == nil:
			return nil, &tools.Error{Kind: kindUnavailable,
				Message:      tools.Clip(fmt.Sprintf("the server %s is not there: %s", t.server.name, why), 500),
				RecoveryHint: "go on without it, or try again later", Retryable: true}
		case !t.server.offers(t.listed.tool):
			return nil, &tools.Error{Kind: kindGone,
				Message:      fmt.Sprintf("the server %s does not offer this tool any more", t.server.name),
				RecoveryHint: "go on without it"}
		}
		result, err := t.server.invoke(ctx, session, t.listed.tool, c.Arguments, meta)
		if err == nil {
			return result, nil
		}
		if refusal, ok := refused(err); ok {
			return nil, refusal
		}
		if ctx.Err() != nil {
			return nil, lost(t.server.name, t.server.discreet(err.Error()))
		}
		t.server.drop(session)
		if !t.server.host {
			return nil, lost(t.server.name, t.server.discreet(err.Error()))
		}
		broken = session
	}
}

func lost(server, why string) *tools.Error {
	return &tools.Error{Kind: kindLost,
		Message: tools.Clip(fmt.Sprintf(
			"the connection to %s broke before it answered; the call may have been made: %s", server,
			visible.OneLine(why, 300)), 500),
		RecoveryHint: "find out what happened before you call it again"}
}

// refused returns the error that the server answered; ok is false if there was no
// answer.
func refused(err error) (*tools.Error, bool) {
	wire, ok := errors.AsType[*jsonrpc.Error](err)
	if !ok || errors.Is(err, sdk.ErrConnectionClosed) {
		return nil, false
	}
	switch wire.Code {
	case -32003, -32004: // the SDK's own, for a connection that closes
		return nil, false
	case mcpwire.CodeTooLarge:
		return &tools.Error{Kind: kindTooLarge,
			Message:      fmt.Sprintf("the result is larger than %d MiB; the call was made", maxMessage>>20),
			RecoveryHint: "ask for less at once"}, true
	case mcpwire.CodeMalformed:
		return &tools.Error{Kind: kindBadResult,
			Message:      tools.Clip("the answer is malformed; the call was made: "+visible.OneLine(wire.Message, 1000), 1000),
			RecoveryHint: "find out what happened before you call it again"}, true
	case jsonrpc.CodeInvalidParams:
		return &tools.Error{Kind: tools.KindInvalidInput, Message: tools.Clip(visible.OneLine(wire.Message, 1000), 1000),
			RecoveryHint: "send arguments that match the published schema"}, true
	}
	return &tools.Error{Kind: kindProtocol,
		Message: tools.Clip("the server refused the call: "+visible.OneLine(wire.Message, 1000), 1000),
		Details: map[string]any{"code": wire.Code}, RecoveryHint: "change the arguments, or go on without it"}, true
}

// details name the server in every error.
func (t *tool) details(more map[string]any) map[string]any {
	all := map[string]any{"server": t.server.name, "tool": visible.OneLine(t.listed.tool, 128)}
	for key, value := range more {
		if _, taken := all[key]; !taken {
			all[key] = value
		}
	}
	return all
}

// within reports whether list has name; nil contains every name.
func within(list []string, name string) bool { return list == nil || slices.Contains(list, name) }
