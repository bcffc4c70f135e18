package turn

import (
	"holon/agentd/tools"
	"holon/responses/turns"
)

// follow does what the result of a call directs for the rest of the turn, which begins behind the call, and returns the
// facts of it. A call whose working directory cannot be used has failed, and nothing changes.
func (r *runner) follow(callID string, o tools.Outcome) (tools.Outcome, []turns.RuntimeEvent, error) {
	if len(o.Directive.Hidden) > 0 {
		if err := r.Journal.Hide(o.Directive.Hidden); err != nil {
			return o, nil, err
		}
	}
	dir := o.Directive.WorkingDirectory
	if dir == "" {
		return o, nil, nil
	}
	real, bad := r.FindDir(dir)
	if bad != nil {
		failed := tools.Refuse(o.Canonical.ToolName, bad)
		failed.Artifacts, failed.KeptBytes, failed.Duration = o.Artifacts, o.KeptBytes, o.Duration
		return failed, nil, nil
	}
	if real == r.env.WorkDir {
		return o, nil, nil
	}
	r.env.WorkDir = real
	changed := turns.WorkDirChange{WorkDir: real}
	return o, []turns.RuntimeEvent{r.Scope.OfCall(turns.WorkDirChanged, callID, changed)}, nil
}
