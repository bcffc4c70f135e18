package prompt

import (
	"fmt"
	"strings"

	"holon/responses"
	"holon/runner/agent/view"
	"holon/state/ledger"
)

// Reminding says when, and in how many tokens, a model is reminded of the current work item of its agent (runtime
// specification, "WorkItem progress reminder"). The zero value is never.
type Reminding struct {
	Rounds         int // of the model without a call that changed a work item
	CooldownRounds int // until the next reminder
	MaxTokens      int // of a reminder
}

// bytesPerToken is the estimate by which MaxTokens becomes bytes.
const bytesPerToken = 4

// Of is the reminder of a turn, nil for none. current may be nil: a turn whose agent picks an item later is reminded of
// that.
func (r Reminding) Of(current *view.WorkRecord) *responses.Reminder {
	if r.Rounds < 1 || r.CooldownRounds < 1 || r.MaxTokens < 1 {
		return nil
	}
	return &responses.Reminder{Text: r.Text(current), Rounds: r.Rounds, CooldownRounds: r.CooldownRounds}
}

const remindedOf = "[work] A notice of the runtime, not of your operator: you changed no work item for many rounds. " +
	"If there was real progress, if the scope changed, if something blocks you or entries of the checklist are done, " +
	"say so with UpdateWorkItem, or complete the item. If not, go on; this asks for nothing else."

// Text is what a reminder says of the current item, "" for none. Entries of the checklist that are completed are left
// out.
func (r Reminding) Text(current *view.WorkRecord) string {
	if current == nil {
		return ""
	}
	var b strings.Builder
	b.WriteString(remindedOf)
	fmt.Fprintf(&b, "\ncurrent: %s %s; plan: %s", current.ID, quotedUpTo(current.Objective, 4<<10), current.PlanStatus)
	if p := current.PlanArtifact; p != nil {
		fmt.Fprintf(&b, ", in %s", p.RelativePath)
	}
	if current.BlockedBy != "" {
		fmt.Fprintf(&b, "; blocked by: %s", quotedUpTo(current.BlockedBy, 1000))
	}
	for _, t := range current.Todo {
		if t.State != ledger.TodoCompleted {
			fmt.Fprintf(&b, "\n- %s: %s", t.State, quotedUpTo(t.Text, 500))
		}
	}
	text, limit := b.String(), min(bytesPerToken*r.MaxTokens, responses.MaxReminder)
	if len(text) > limit {
		text = strings.ToValidUTF8(text[:limit], "")
	}
	return text
}
