package turn

import (
	"encoding/json"

	"holon/agentd/tools"
	"holon/responses/turns"
)

// toolEnded is the runtime event of a finished tool call.
func (r *runner) toolEnded(id string, o tools.Outcome) turns.RuntimeEvent {
	ref := ""
	if len(o.Artifacts) > 0 {
		ref = o.Artifacts[0].Path
	}
	c := o.Canonical
	if c.Error != nil {
		return r.Scope.ToolFailed(id, turns.ToolFailure{
			ToolName: c.ToolName, FailureCategory: c.Error.Kind, Message: c.Error.Message, Retryable: c.Error.Retryable,
			RecoveryHint: c.Error.RecoveryHint, OutputRef: ref, DurationMS: o.Duration.Milliseconds(),
		})
	}
	// Of a family's result only what every host wants to show is looked at.
	var known struct {
		ExitStatus *int `json:"exit_status"`
		Truncated  bool `json:"truncated"`
	}
	_ = json.Unmarshal(c.Result, &known) // another shape just has neither
	return r.Scope.ToolResult(id, turns.Result{
		ToolName: c.ToolName, Summary: c.SummaryText, Preview: o.Rendered, OutputRef: ref,
		DurationMS: o.Duration.Milliseconds(), ExitCode: known.ExitStatus, Truncated: known.Truncated,
	})
}
