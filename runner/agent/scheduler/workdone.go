package scheduler

import (
	"context"
	"slices"
	"strings"

	"holon/responses"
	"holon/runner/agent/record"
	"holon/runner/agent/rules"
	"holon/state/ledger"
)

// Round is what the model wrote in the round of a call.
type Round struct {
	Text      string     // for the operator; "": nothing
	Completes []WorkCall // by the calls of the round, this one included
}

// WorkCall is a call that completes an item.
type WorkCall struct{ Key, ItemID string }

// Completion is a completed work item.
type Completion struct {
	Item     ledger.WorkItem
	Report   string // the text that became its report; "": none
	Warnings []Warning
}

// Warning says what a call did not do that its caller may have meant.
type Warning struct {
	Code    string `json:"code"` // no_report, not_focused, several_completions, plan_not_written
	Message string `json:"message"`
}

// CompleteWork ends an item of the agent. The text of the round becomes its report when the item is the current one and
// the only one that the round completes (runtime specification, "Work-Item Persistence Foundation"); nothing is written
// in its place. A nil round is a completion by the operator, which has no report. Errors: CodeWorkCompleted,
// ledger.CodeNotFound.
func (m *Scheduler) CompleteWork(ctx context.Context, agentID, itemID, key string, r *Round) (Completion, error) {
	var c Completion
	w, err := m.workStep(ctx, agentID, itemID, key, func(s *step, w *ledger.WorkItem) bool {
		c = s.complete(w, r)
		return true
	})
	if err != nil {
		return Completion{}, err
	}
	if c.Item = w; c.Report == "" {
		c.Report = w.ResultSummary // of a call that is repeated
	}
	return c, nil
}

func (s *step) complete(w *ledger.WorkItem, r *Round) (c Completion) {
	focused := s.state.CurrentWork == w.ID
	s.start(w)
	s.endItemWait(w.ID, "its work item is completed")
	if held := heldAs(*w, nil); held != "" {
		s.block(w, "", 0)
		op, via := "update", ""
		if r == nil {
			op, via = "complete", viaInput
		}
		s.emitHold(op, via, held, "", w, nil)
	}
	w.State, w.CompletedAt = ledger.WorkCompleted, &s.now
	if r != nil {
		c.Warnings = s.unreported(*w, *r, focused)
	}
	if r != nil && len(c.Warnings) == 0 {
		c.Report, w.ResultSummary = r.Text, rules.Summary(r.Text)
	}
	s.emitWork(record.WorkItemCompleted, "task.completed", *w, nil)
	if focused {
		s.state.CurrentWork = ""
		s.emitWork(record.WorkItemReleased, "", *w, fields{"reason": "it is completed"})
	}
	for _, warning := range c.Warnings {
		s.emitWork(record.WorkCompletionWarned, "", *w, fields{"code": warning.Code})
	}
	if c.Report != "" {
		s.report(*w, c.Report)
	}
	return c
}

// unreported says why the text of a round is not the report of the item that it completes.
func (s *step) unreported(w ledger.WorkItem, r Round, focused bool) []Warning {
	others := 0
	seen := []string{w.ID}
	for _, c := range r.Completes {
		if slices.Contains(seen, c.ItemID) {
			continue
		}
		seen = append(seen, c.ItemID)
		other, err := s.ownWork(c.ItemID) // with an error, that call fails
		if err == nil && (other.State == ledger.WorkOpen || slices.Contains(other.Calls, c.Key)) {
			others++
		}
	}
	switch {
	case others > 0:
		return []Warning{{"several_completions",
			"this round completes several work items, so its text is the report of none; complete one in each round"}}
	case !focused:
		return []Warning{{"not_focused",
			"the work item was not the current one, so there is no report; pick an item before you complete it"}}
	case strings.TrimSpace(r.Text) == "":
		return []Warning{{"no_report",
			"there is no text next to this call, so there is no report; write it in the message that completes an item"}}
	}
	return nil
}

// report keeps what the agent reported of an item and briefs the operator.
func (s *step) report(w ledger.WorkItem, text string) {
	d := ledger.DeliverySummary{ID: responses.NewID(prefixDelivery), AgentID: w.AgentID, WorkItemID: w.ID,
		CreatedAt: s.now, Text: text}
	b := ledger.Brief{WorkItemID: w.ID, Kind: ledger.BriefResult, Text: text}
	if a, open := s.openAttempt(); open {
		d.TurnID, d.TurnIndex, b.TurnID, b.MessageID = a.TurnID, a.TurnIndex, a.TurnID, a.MessageID
	}
	s.insert(&d)
	s.emitWork(record.WorkReportPromoted, "", w, fields{"delivery_summary_id": d.ID, "chars": len(text)})
	s.brief(b, record.LevelWorkDone, "")
}
