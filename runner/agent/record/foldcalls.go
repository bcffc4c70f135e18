package record

import (
	"cmp"
	"encoding/json"
	"strings"

	"holon/responses/agentruntime"
)

// modelRequest is one request of a provider.
type modelRequest struct {
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

// toolCall is one call of a tool.
type toolCall struct {
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

// process is a command that a tool or a task runs.
type process struct {
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

// action is a decision that someone has to take, or took.
type action struct {
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

// Usage counts tokens.
type Usage struct {
	InputTokens  int64 `json:"input_tokens"`
	OutputTokens int64 `json:"output_tokens"`
	TotalTokens  int64 `json:"total_tokens"`
	Estimated    bool  `json:"estimated,omitempty"` // a provider did not count all of it
}

func (f *Fold) applyModel(e fact) {
	if e.Type == "cost.recorded" {
		f.applyBudget(e)
		var cost struct{ Usage Usage }
		e.into(&cost)
		f.usage.InputTokens += cost.Usage.InputTokens
		f.usage.OutputTokens += cost.Usage.OutputTokens
		f.usage.TotalTokens += cost.Usage.total()
		f.usage.Estimated = f.usage.Estimated || cost.Usage.Estimated
	}
	id := e.id(agentruntime.ModelRequest)
	if id == "" || !strings.HasPrefix(e.Type, "model.") || e.Type == ModelDelta {
		return
	}
	m := f.requests.at(id)
	if m.ModelRequestID == "" {
		*m = modelRequest{ModelRequestID: id, TurnID: e.turn(), Provider: unknown, Model: unknown}
	}
	e.into(m)
	if m.Usage != nil {
		m.Usage.TotalTokens = m.Usage.total()
	}
	t := f.turnOf(m.TurnID)
	m.Status = cmp.Or(map[string]string{"model.requested": "running"}[e.Type], strings.TrimPrefix(e.Type, "model."))
	switch {
	case t == nil:
	case e.Type == "model.requested":
		t.ModelRequests++
	case e.Type == "model.failed":
		t.FailedRequests++
	}
}

func (u Usage) total() int64 { return cmp.Or(u.TotalTokens, u.InputTokens+u.OutputTokens) }

// inventory is the surface of tools that the last turn was given.
type inventory struct {
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
	before, now := f.inventory, inventory{}
	e.into(&now)
	now.State, now.TurnID, now.ResolvedAt = "resolved", e.turn(), e.at()
	if now.Tools == nil && before.Revision == now.Revision {
		now.Tools = before.Tools
	}
	now.OmittedDetail = now.Tools == nil
	f.inventory = now
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
	c := f.tools.at(toolKey(e.turn(), id))
	if c.ToolCallID == "" {
		*c = toolCall{ToolCallID: id, Status: unknown, TurnID: e.turn(), Decision: unknown, Host: unknown, ToolName: unknown}
	}
	if ended(c.Status) {
		return // a call has one end
	}
	t := f.turnOf(c.TurnID)
	switch e.Type {
	case "tool.started":
		e.into(c)
		if c.Status, c.StartedAt = "running", e.at(); c.Decision == unknown {
			c.Decision = or(e.text("policy"))
		}
		if t != nil {
			t.ToolCalls++
		}
	case "tool.result":
		e.into(c)
		c.Status, c.EndedAt = "completed", e.at()
	case "tool.failed":
		e.into(c)
		c.FailureCategory = or(c.FailureCategory)
		if c.Status, c.EndedAt = "failed", e.at(); e.Status == "cancelled" {
			c.Status = e.Status
		}
		if f.failedTools++; t != nil {
			t.FailedTools++
		}
	}
}

func toolKey(turnID, callID string) string { return turnID + " " + callID }

func (f *Fold) applyProcess(e fact) {
	id := e.id(agentruntime.Process)
	if id == "" {
		return
	}
	p := f.processes.at(id)
	if p.ProcessID == "" {
		*p = process{ProcessID: id, Status: unknown, TurnID: e.turn(), TaskID: e.id(agentruntime.Task)}
	}
	switch e.Type {
	case "process.started":
		e.into(p)
		p.Status, p.StartedAt = "running", e.at()
	case "process.completed", "process.failed", "process.terminated":
		e.into(p)
		p.Status, p.EndedAt = strings.TrimPrefix(e.Type, "process."), e.at()
		if e.Type == "process.terminated" {
			p.Status = "cancelled"
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
		*a = action{ActionID: id, ActionType: unknown, TurnID: e.turn(), ToolCallID: e.id(agentruntime.ToolCall)}
	}
	if e.fields["choices"] != nil {
		a.Choices = nil
	}
	e.into(a)
	if a.Status, a.RequiredAt = "open", cmp.Or(a.RequiredAt, e.at()); e.Type == "action.resolved" {
		a.Status, a.Decision, a.ResolvedAt = "resolved", or(a.Decision), e.at()
	}
}
