package record

import (
	"cmp"
	"encoding/json"
	"time"

	"holon/internal/visible"
	"holon/responses/agentruntime"
	"holon/responses/turns"
	"holon/runner/activity"
	"holon/state/ledger"
)

// execution is a call of a tool that has ended (runtime specification, "Tool Execution Record").
type execution struct {
	ID         string           `json:"tool_call_id"`
	Tool       string           `json:"tool_name"`
	Call       string           `json:"call,omitempty"` // what was done, for a person
	Files      []activity.File  `json:"files,omitempty"`
	Arguments  string           `json:"arguments"`            // cut
	Output     string           `json:"output"`               // what the model was shown, cut
	OutputRef  string           `json:"output_ref,omitempty"` // file with the whole output, below the turn's directory
	Summary    string           `json:"summary,omitempty"`
	Error      *turns.ToolError `json:"error,omitempty"`
	Status     string           `json:"status"` // success, error
	ExitCode   *int             `json:"exit_code"`
	DurationMS int64            `json:"duration_ms"`
	Expired    *Expired         `json:"output_expired,omitempty"`

	TurnID     string    `json:"-"`
	Workspace  string    `json:"workspace_id,omitempty"` // where the agent worked when the call began
	WorkItemID string    `json:"-"`                      // the agent's current one when the call began
	StartedAt  time.Time `json:"-"`
	EndedAt    time.Time `json:"-"`
}

// Expired says that the files of a turn are gone, since when, and why.
type Expired struct {
	At     turns.Time          `json:"at"`
	Reason ledger.OutputReason `json:"reason"` // exported, retention, limit
}

// Bounds of texts of an execution, in bytes.
const (
	maxPreview = 2 << 10
	maxLine    = 300
)

// executions folds the beginnings and ends of calls.
type executions map[string]ledger.Event // the beginning of each call that has not ended, by turn and id

// apply takes an event of a call, and returns the call when it ends; nil for other events. The host tells of the end of
// a call that was cut off.
func (x executions) apply(e ledger.Event) *execution {
	key := e.TurnID + " " + e.IDs[agentruntime.ToolCall]
	switch e.Class {
	case turns.ToolStarted:
		x[key] = e
		return nil
	case turns.ToolResult, turns.ToolFailed:
	default:
		return nil
	}
	begun, known := x[key]
	delete(x, key)
	if !known {
		begun = e
	}
	var args turns.Begun
	var end struct {
		turns.ToolFailure
		Call     string          `json:"call"`
		Files    []activity.File `json:"files"`
		Summary  string          `json:"summary"`
		ExitCode *int            `json:"exit_code"`
	}
	_ = json.Unmarshal(begun.Data, &args) // what is wrong with a payload is left out
	_ = json.Unmarshal(e.Data, &end)
	ran := execution{ID: e.IDs[agentruntime.ToolCall], TurnID: e.TurnID, WorkItemID: begun.Ref, Workspace: begun.Workspace,
		Tool: end.ToolName,
		Call: end.Call, Files: end.Files, Arguments: visible.Clip(args.Arguments, maxPreview),
		Output: visible.Clip(end.Preview, maxPreview), OutputRef: end.OutputRef,
		Summary: visible.OneLine(cmp.Or(end.Summary, end.Message), maxLine), Status: "success", ExitCode: end.ExitCode,
		DurationMS: end.DurationMS, StartedAt: begun.CreatedAt, EndedAt: e.CreatedAt}
	if e.Class == turns.ToolFailed {
		ran.Status, ran.Error = "error", new(end.Envelope())
	}
	return &ran
}

// Executions returns the newest calls of tools of an agent, at most limit, the oldest first.
func Executions(v ledger.View, agentID string, limit int) (list []execution, err error) {
	events, err := newestTurns(v, agentID, limit, func(e ledger.Event) bool {
		return e.Class == turns.ToolResult || e.Class == turns.ToolFailed
	})
	calls := executions{}
	for _, e := range events {
		if ran := calls.apply(e); ran != nil {
			list = append(list, *ran)
		}
	}
	return list[max(0, len(list)-limit):], err
}
