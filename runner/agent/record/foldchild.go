package record

import (
	"cmp"
	"strings"

	"holon/responses/agentruntime"
)

// subagent is a private child of the agent.
type subagent struct {
	SubagentID      string `json:"subagent_id"`
	ChildThreadID   string `json:"child_thread_id,omitempty"`
	TaskID          string `json:"task_id,omitempty"` // that supervises it
	TurnID          string `json:"turn_id,omitempty"` // that spawned it
	Status          string `json:"status"`            // running, completed, failed, closed
	Phase           string `json:"phase,omitempty"`   // running, blocked, waiting
	BlockedReason   string `json:"blocked_reason,omitempty"`
	WaitingReason   string `json:"waiting_reason,omitempty"`
	Role            string `json:"role,omitempty"`
	Inputs          int64  `json:"inputs,omitempty"` // messages of its parent after the first
	ResultRef       string `json:"result_ref,omitempty"`
	FailureCategory string `json:"failure_category,omitempty"`
	ClosedBy        string `json:"closed_by,omitempty"`
	UpdatedAt       string `json:"updated_at"`
}

// applyChild takes an event of a child, which is in the log of its parent.
func (f *Fold) applyChild(e fact) {
	id := e.id(agentruntime.Subagent)
	if id == "" {
		return
	}
	c := f.children.at(id)
	status, inputs := cmp.Or(c.Status, unknown), c.Inputs
	switch kind := strings.TrimPrefix(e.Type, "subagent."); kind {
	case "spawned":
		status, c.TurnID = "running", e.turn()
	case "status":
		c.BlockedReason, c.WaitingReason = "", ""
	case "input":
		inputs++
	case "completed", "failed":
		status, c.Phase, c.BlockedReason, c.WaitingReason = kind, "", "", ""
	case "closed":
		c.ClosedBy, c.Phase = e.text("by"), ""
		if status == "running" || status == unknown {
			status = "closed"
		}
	}
	e.into(c)
	c.SubagentID, c.Status, c.Inputs, c.UpdatedAt = id, status, inputs, e.at()
	c.TaskID = cmp.Or(e.id(agentruntime.Task), c.TaskID)
}

// closed reports whether nothing more comes of a child.
func (c *subagent) closed() bool { return c.Status != "running" && c.Status != unknown }
