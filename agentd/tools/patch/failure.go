package patch

import (
	"fmt"
	"slices"

	"holon/agentd/tools"
)

// maxFailures is how many failures an error lists in its details.
const maxFailures = 8

func mismatched(path string, failed []mismatch) *tools.Error {
	first := failed[0]
	e := &tools.Error{
		Kind:         kindMismatch,
		Message:      fmt.Sprintf("%s: hunk %d (patch line %d) %s", path, first.hunk, first.line, first.reason),
		RecoveryHint: "read the file again and repeat its lines exactly as context; nothing was changed",
	}
	if len(first.candidates) > 0 {
		e.Kind = kindAmbiguous
		e.RecoveryHint = "give more unchanged lines around the change, or the line numbers, so that it fits in one " +
			"place; nothing was changed"
	}
	if !slices.ContainsFunc(failed, func(m mismatch) bool { return m.applied == 0 }) {
		e.Kind = kindApplied
	}
	if first.applied > 0 {
		e.Message += fmt.Sprintf("; its result already stands at line %d", first.applied)
		e.RecoveryHint = "the change seems to be made already; leave this hunk out; nothing was changed"
	}
	hunks := make([]map[string]any, 0, len(failed))
	for _, m := range failed[:min(len(failed), maxFailures)] {
		d := map[string]any{"hunk": m.hunk, "patch_line": m.line, "reason": m.reason}
		if len(m.candidates) > 0 {
			d["candidate_lines"] = m.candidates
		}
		if len(m.nearest) > 0 {
			d["file_has"] = m.nearest
		}
		if m.applied > 0 {
			d["already_applied_at_line"] = m.applied
		}
		hunks = append(hunks, d)
	}
	e.Details = map[string]any{"path": path, "failed_hunks": len(failed), "hunks": hunks}
	return e
}

// failure joins the errors of several files, so that a model can correct all of them at once.
func (s *stage) failure() *tools.Error {
	first := *s.failures[0]
	if len(s.failures) == 1 {
		return &first
	}
	more := make([]map[string]any, 0, maxFailures)
	for _, e := range s.failures[1:min(len(s.failures), maxFailures)] {
		more = append(more, map[string]any{"kind": e.Kind, "message": e.Message, "details": e.Details})
	}
	details := map[string]any{"failed_files": len(s.failures), "other_failures": more}
	for k, v := range first.Details {
		details[k] = v
	}
	first.Details = details
	first.Message += fmt.Sprintf(" (and %d more files have problems)", len(s.failures)-1)
	return &first
}
