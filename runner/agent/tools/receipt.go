package tools

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"holon/internal/visible"
	"holon/responses/turns"
	"holon/runner/agent/rules"
	"holon/runner/agent/scheduler"
	"holon/runner/agent/view"
	"holon/runner/hosttools"
	"holon/state/ledger"
)

// Bounds of a list.
const (
	defaultListed = 50
	maxListed     = 200
	maxPage       = 16 << 10 // bytes of its items, well within what a model is shown of a result
	maxLine       = 200      // bytes of a text of an item of a list
)

// listed is a work item in a list.
type listed struct {
	ID              string            `json:"id"`
	Objective       string            `json:"objective"` // its beginning
	State           ledger.WorkState  `json:"state"`
	PlanStatus      ledger.PlanStatus `json:"plan_status"`
	SchedulingState rules.WorkState   `json:"scheduling_state,omitempty"`
	Current         bool              `json:"current"`
	Todos           int               `json:"todos"`
	TodosCompleted  int               `json:"todos_completed"`
	BlockedBy       string            `json:"blocked_by,omitempty"`
	RecheckAt       turns.Time        `json:"recheck_at,omitzero"`
}

// page is the result of a tool that lists. What is left begins after the last of the items.
type page struct {
	Items []listed `json:"work_items"`
	Left  int      `json:"left"`
	After string   `json:"after,omitempty"` // to continue with; "": nothing is left
}

// pageOf is as many of the items after one as fit as a whole, at most limit.
func pageOf(items []view.WorkRecord, limit int, after string) (page, []string, error) {
	at := slices.IndexFunc(items, func(w view.WorkRecord) bool { return w.ID == after })
	if after != "" && at < 0 {
		return page{}, nil, invalid("after", fmt.Sprintf("the list has no item %.80q", after), "begin the list anew")
	}
	items = items[at+1:]
	p, lines, size := page{Items: []listed{}}, []string(nil), 0
	for _, w := range items[:min(len(items), limit)] {
		data, err := json.Marshal(listedOf(w))
		if size += len(data); err != nil || size > maxPage {
			break
		}
		p.Items, lines = append(p.Items, listedOf(w)), append(lines, standing(w)+": "+line(w.Objective)+blocker(w))
	}
	if p.Left = len(items) - len(p.Items); p.Left > 0 {
		p.After = p.Items[len(p.Items)-1].ID
	}
	return p, lines, nil
}

func listedOf(w view.WorkRecord) listed {
	return listed{ID: w.ID, Objective: line(w.Objective), State: w.State, PlanStatus: w.PlanStatus,
		SchedulingState: w.SchedulingState, Current: w.Current, Todos: len(w.Todo), TodosCompleted: completed(w.Todo),
		BlockedBy: line(w.BlockedBy), RecheckAt: w.RecheckAt}
}

// showPage is the result of a call that lists.
func showPage(p page, lines []string) (hosttools.Result, error) {
	summary := fmt.Sprintf("%s listed, %d left", count(len(p.Items), "work item"), p.Left)
	if p.Left > 0 {
		lines = append(lines, fmt.Sprintf("%d more: list again with after %s", p.Left, p.After))
	}
	return show(strings.Join(append([]string{summary}, lines...), "\n"), p)
}

// showWork is the result of a call that changed an item: its summary and the warnings.
func showWork(did string, w view.WorkRecord, warnings []scheduler.Warning) (hosttools.Result, error) {
	text := "work item " + standing(w)
	if did != "" {
		text = fmt.Sprintf("work item %s %s%s%s", w.ID, did, strings.TrimPrefix(standing(w), w.ID), blocker(w))
	} else {
		text += "\n" + wholeWork(w)
	}
	for _, warning := range warnings {
		text += fmt.Sprintf("\nwarning %s: %s", warning.Code, warning.Message)
	}
	return show(text, struct {
		Item     view.WorkRecord     `json:"work_item"`
		Warnings []scheduler.Warning `json:"warnings,omitempty"`
	}{w, warnings})
}

// wholeWork is an item as a model reads it.
func wholeWork(w view.WorkRecord) string {
	lines := []string{"objective: " + w.Objective}
	if w.BlockedBy != "" {
		lines = append(lines, "blocked by: "+w.BlockedBy)
	}
	if at := w.RecheckAt.Time(); !at.IsZero() {
		lines = append(lines, "rechecked at: "+at.UTC().Format(time.RFC3339))
	}
	for _, t := range w.Todo {
		lines = append(lines, fmt.Sprintf("- %s: %s", t.State, t.Text))
	}
	if w.CompletionReport != "" {
		lines = append(lines, "report: "+w.CompletionReport)
	}
	if p := w.PlanArtifact; p != nil {
		lines = append(lines, fmt.Sprintf("plan: %s, %d bytes", p.Path, p.Bytes))
		switch {
		case p.Refused != "":
			lines = append(lines, "not read: "+p.Refused)
		case p.Preview != "":
			lines = append(lines, p.Preview)
		}
	}
	return strings.Join(lines, "\n")
}

// standing is an item's id and state, in a few words.
func standing(w view.WorkRecord) string {
	words := []string{w.ID, count(len(w.Todo), "todo")}
	if n := completed(w.Todo); n > 0 {
		words[1] += fmt.Sprintf(" (%d completed)", n)
	}
	if w.State == ledger.WorkCompleted {
		words = append(words, string(w.State))
	} else {
		words = append(words, string(w.PlanStatus))
	}
	if w.Current {
		words = append(words, "current")
	}
	return strings.Join(words, ", ")
}

func blocker(w view.WorkRecord) string {
	if w.BlockedBy == "" {
		return ""
	}
	return "; blocked by " + line(w.BlockedBy)
}

func completed(todos []ledger.Todo) (n int) {
	for _, t := range todos {
		if t.State == ledger.TodoCompleted {
			n++
		}
	}
	return n
}

func line(s string) string { return visible.OneLine(s, maxLine) }

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// ownState is what AgentGet found as a model reads it.
func ownState(s view.AgentSummary) string {
	a := s.Agent
	lines := []string{
		fmt.Sprintf("agent %s: %s, %s queued, %s open", a.ID, a.Status, count(a.Pending, "message"),
			count(a.OpenWorkItems, "work item")),
		"next: " + line(s.SchedulingPosture.Posture+", "+s.SchedulingPosture.Reason),
		fmt.Sprintf("model: %s; %d turns, %s%d tokens", s.Model.EffectiveModel, a.TurnIndex, s.TokenUsage.Total.Mark(),
			s.TokenUsage.Total.TotalTokens),
	}
	if a.CurrentWorkItemID != "" {
		lines = append(lines, "current work item: "+a.CurrentWorkItemID)
	}
	for _, w := range s.ActiveWaits {
		lines = append(lines, line(fmt.Sprintf("waits (%s): %s", w.Kind, w.WaitingFor)))
	}
	if n := s.ActiveTimerCount; n > 0 {
		lines = append(lines, count(n, "active timer"))
	}
	for _, t := range s.ActiveTriggers {
		lines = append(lines, fmt.Sprintf("trigger %s: %d deliveries", t.ID, t.DeliveryCount))
	}
	for _, c := range s.ActiveChildren {
		lines = append(lines, line(fmt.Sprintf("child %s: %s, %s", c.Identity.AgentID, c.TaskStatus, c.Label)))
	}
	if c := s.Closure; c != nil {
		lines = append(lines, line(fmt.Sprintf("the last turn: %s; %s", c.Outcome, strings.Join(c.Evidence, "; "))))
	}
	return strings.Join(lines, "\n")
}
