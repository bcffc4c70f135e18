package readmodel

import (
	"cmp"
	"encoding/json"
	"strings"

	"holon/responses/agentruntime"
)

// ModelRequest is one request of a provider.
type ModelRequest struct {
	ModelRequestID  string `json:"model_request_id"`
	TurnID          string `json:"turn_id,omitempty"`
	Status          string `json:"status"`
	Provider        string `json:"provider_name"`
	Model           string `json:"model_name"`
	Attempt         int64  `json:"attempt,omitempty"`
	Round           int64  `json:"round,omitempty"`
	Usage           *Usage `json:"usage,omitempty"`
	StopReason      string `json:"stop_reason,omitempty"`
	FailureCategory string `json:"failure_category,omitempty"`
	Message         string `json:"message,omitempty"`
	HTTPStatus      int64  `json:"http_status,omitempty"`
	DurationMS      int64  `json:"duration_ms,omitempty"`
}

// ToolCall is one call of a tool.
type ToolCall struct {
	ToolCallID      string `json:"tool_call_id"`
	TurnID          string `json:"turn_id,omitempty"`
	ToolName        string `json:"tool_name"`
	Host            string `json:"host"` // server, client
	Status          string `json:"status"`
	Decision        string `json:"decision"` // of the policy
	StartedAt       string `json:"started_at,omitempty"`
	EndedAt         string `json:"ended_at,omitempty"`
	DurationMS      int64  `json:"duration_ms,omitempty"`
	FailureCategory string `json:"failure_category,omitempty"`
	Message         string `json:"message,omitempty"`
	ArgsTruncated   bool   `json:"args_truncated,omitempty"` // its event has a part of its arguments
	ArgsDigest      string `json:"args_digest,omitempty"`    // of all of them, likewise
	InputRef        string `json:"input_ref,omitempty"`      // what has all of them, likewise
	OutputRef       string `json:"output_ref,omitempty"`
	OutputExpiredAt string `json:"output_expired_at,omitempty"` // the files that the refs name are gone
}

// Process is a command that a tool or a task runs.
type Process struct {
	ProcessID       string `json:"process_id"`
	TurnID          string `json:"turn_id,omitempty"`
	TaskID          string `json:"task_id,omitempty"`
	Status          string `json:"status"`
	Command         string `json:"command,omitempty"`
	ExitCode        *int64 `json:"exit_code,omitempty"`
	FailureCategory string `json:"failure_category,omitempty"`
	StartedAt       string `json:"started_at,omitempty"`
	EndedAt         string `json:"ended_at,omitempty"`
}

// Action is a decision that someone has to take, or took.
type Action struct {
	ActionID   string          `json:"action_id"`
	Status     string          `json:"status"` // open, resolved
	ActionType string          `json:"action_type"`
	Prompt     string          `json:"prompt,omitempty"`
	Choices    json.RawMessage `json:"choices,omitempty"`
	TurnID     string          `json:"turn_id,omitempty"`
	ToolCallID string          `json:"tool_call_id,omitempty"`
	ExpiresAt  string          `json:"expires_at,omitempty"`
	Decision   string          `json:"decision,omitempty"`
	Via        string          `json:"via,omitempty"`
	RequiredAt string          `json:"required_at,omitempty"`
	ResolvedAt string          `json:"resolved_at,omitempty"`
}

func (f *Fold) applyModel(e fact) {
	if id := e.id(agentruntime.ModelRequest); id != "" && e.Type != "cost.recorded" && e.Type != "cost.estimated" {
		f.applyRequest(id, e)
	}
	if e.Type == "cost.recorded" {
		u := usageOf(e.in("usage"))
		f.usage.InputTokens += u.InputTokens
		f.usage.OutputTokens += u.OutputTokens
		f.usage.TotalTokens += u.TotalTokens
		f.usage.Estimated = f.usage.Estimated || u.Estimated
	}
}

func (f *Fold) applyRequest(id string, e fact) {
	m := f.requests.at(id)
	if m.ModelRequestID == "" {
		*m = ModelRequest{ModelRequestID: id, Status: Unknown, TurnID: e.id(agentruntime.Turn), Provider: Unknown,
			Model: Unknown}
	}
	t := f.turnOf(m.TurnID)
	switch e.Type {
	case "model.requested":
		m.Status, m.Provider, m.Model = "running", or(e.text("provider_name")), or(e.text("model_name"))
		m.Attempt, m.Round = e.number("attempt"), e.number("round")
		if t != nil {
			t.ModelRequests++
		}
	case "model.completed":
		u := usageOf(e.in("usage"))
		m.Status, m.Usage, m.StopReason, m.DurationMS = "completed", &u, e.text("stop_reason"), e.number("duration_ms")
	case "model.failed":
		m.Status, m.FailureCategory, m.Message = "failed", e.text("failure_category"), e.text("message")
		m.HTTPStatus, m.DurationMS = e.number("http_status"), e.number("duration_ms")
		if t != nil {
			t.FailedRequests++
		}
	}
}

// Inventory is the surface of tools that the last turn was given.
type Inventory struct {
	State        string          `json:"state"` // resolved, unknown
	Count        int64           `json:"tool_count,omitempty"`
	Tools        json.RawMessage `json:"tools,omitempty"`
	InventoryRef string          `json:"inventory_ref,omitempty"`
	Revision     string          `json:"revision,omitempty"`
	TurnID       string          `json:"turn_id,omitempty"`
	ResolvedAt   string          `json:"resolved_at,omitempty"`
	// The tools are not known: they are too many, or were listed before the log.
	OmittedDetail bool `json:"omitted_detail,omitempty"`
}

// applyCatalog takes a catalog. One that is as it was is not listed again.
func (f *Fold) applyCatalog(e fact) {
	before := f.inventory
	f.inventory = Inventory{State: "resolved", Count: e.number("tool_count"), InventoryRef: e.text("inventory_ref"),
		Revision: e.text("revision"), TurnID: e.id(agentruntime.Turn), ResolvedAt: clip(e.Timestamp, maxID)}
	tools, _ := json.Marshal(e.fields["tools"]) // what was decoded can be encoded
	switch {
	case e.fields["tools"] != nil && len(tools) <= agentruntime.MaxPayload:
		f.inventory.Tools = tools
	case e.fields["tools"] == nil && before.Tools != nil && before.Revision == f.inventory.Revision:
		f.inventory.Tools = before.Tools
	default:
		f.inventory.OmittedDetail = true
	}
}

func (f *Fold) applyTool(e fact) {
	if e.Type == "tool.catalog.resolved" {
		f.applyCatalog(e)
		return
	}
	id := e.id(agentruntime.ToolCall)
	if id == "" {
		return
	}
	c := f.tool(id, e)
	if ended(c.Status) {
		return // a call has one end
	}
	t := f.turnOf(c.TurnID)
	switch e.Type {
	case "tool.started":
		c.Status, c.ToolName, c.Host = "running", or(e.text("tool_name")), or(e.text("host"))
		if c.StartedAt = clip(e.Timestamp, maxID); c.Decision == Unknown {
			c.Decision = or(e.text("policy"))
		}
		c.ArgsTruncated = e.fields["args_truncated"] == true
		c.ArgsDigest, c.InputRef = e.text("args_digest"), e.text("input_ref")
		if t != nil {
			t.ToolCalls++
		}
	case "tool.result", "tool.failed":
		f.endTool(c, e)
		if t != nil && c.Status != "completed" {
			t.FailedTools++
		}
	}
}

// tool returns the call of an id, which is one of its turn.
func (f *Fold) tool(id string, e fact) *ToolCall {
	c := f.tools.at(toolKey(e.id(agentruntime.Turn), id))
	if c.ToolCallID == "" {
		*c = ToolCall{ToolCallID: id, Status: Unknown, TurnID: e.id(agentruntime.Turn), Decision: Unknown,
			Host: Unknown, ToolName: or(e.text("tool_name"))}
	}
	return c
}

func toolKey(turnID, callID string) string { return turnID + " " + callID }

func (f *Fold) endTool(c *ToolCall, e fact) {
	c.Status = "completed"
	if e.Type == "tool.failed" {
		c.Status, c.FailureCategory, c.Message = "failed", or(e.text("failure_category")), e.text("message")
		if e.Status == "cancelled" {
			c.Status = e.Status
		}
		f.failedTools++
	}
	c.EndedAt, c.DurationMS = clip(e.Timestamp, maxID), e.number("duration_ms")
	c.OutputRef = cmp.Or(e.text("output_ref"), e.text("result_ref"))
}

func (f *Fold) applyProcess(e fact) {
	id := e.id(agentruntime.Process)
	if id == "" {
		return
	}
	p := f.processes.at(id)
	if p.ProcessID == "" {
		*p = Process{ProcessID: id, Status: Unknown, TurnID: e.id(agentruntime.Turn), TaskID: e.id(agentruntime.Task)}
	}
	switch e.Type {
	case "process.started":
		p.Status, p.Command, p.StartedAt = "running", e.text("command"), clip(e.Timestamp, maxID)
	case "process.completed", "process.failed", "process.terminated":
		p.Status = map[string]string{"process.terminated": "cancelled"}[e.Type]
		p.Status = cmp.Or(p.Status, strings.TrimPrefix(e.Type, "process."))
		p.FailureCategory, p.EndedAt = e.text("failure_category"), clip(e.Timestamp, maxID)
		if _, ok := e.fields["exit_code"].(float64); ok {
			code := e.number("exit_code")
			p.ExitCode = &code
		}
	}
}

func (f *Fold) applyAction(e fact) {
	id := e.id(agentruntime.Action)
	if id == "" {
		return
	}
	a := f.actions.at(id)
	if a.ActionID == "" {
		*a = Action{ActionID: id, Status: Unknown, ActionType: Unknown, TurnID: e.id(agentruntime.Turn),
			ToolCallID: e.id(agentruntime.ToolCall)}
	}
	switch e.Type {
	case "action.required":
		a.Status, a.ActionType, a.Prompt = "open", or(e.text("action_type")), e.text("prompt")
		a.Choices, a.ExpiresAt, a.RequiredAt = e.raw("choices"), e.text("expires_at"), clip(e.Timestamp, maxID)
	case "action.resolved":
		a.Status, a.Decision, a.Via = "resolved", or(e.text("decision")), e.text("via")
		a.ResolvedAt = clip(e.Timestamp, maxID)
	}
}
