package ledger

import "time"

// ToolExecution is a call of a tool in a turn that has ended, for what asks which work was done (runtime specification,
// "Tool Execution Record").
type ToolExecution struct {
	ID          string    `json:"id"` // the tool_call_id of the turn, which is unique with the turn
	AgentID     string    `json:"agent_id"`
	TurnID      string    `json:"turn_id"`
	WorkItemID  string    `json:"work_item_id,omitempty"` // the agent's current one when the call was made
	TurnIndex   int64     `json:"turn_index"`
	Tool        string    `json:"tool_name"`
	CreatedAt   time.Time `json:"created_at"`
	CompletedAt time.Time `json:"completed_at"`
	DurationMS  int64     `json:"duration_ms"`
	Status      string    `json:"status"` // success, error
	Input       string    `json:"input"`  // its arguments, cut
	Output      string    `json:"output"` // what the model was shown, cut
	Summary     string    `json:"summary,omitempty"`
	OutputRef   string    `json:"output_ref,omitempty"` // file with the whole output, relative to the turn's directory
}

// Row implements Record.
func (e *ToolExecution) Row() Row {
	return Row{"tool_executions", "tool execution", 2, []Column{{"turn_id", &e.TurnID}, {"id", &e.ID},
		{"agent_id", &e.AgentID}, {"created_at", millis(e.CreatedAt)}}}
}

// ToolExecutions returns the newest calls of an agent.
func (v View) ToolExecutions(agentID string, limit int) ([]ToolExecution, error) {
	return newest[ToolExecution](v, "tool executions", agentID, limit)
}
