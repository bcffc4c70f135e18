package ledger

import "time"

// WorkState is whether a work item goes on. Whether it may run now is derived (runner/agent/rules).
type WorkState string

const (
	WorkOpen      WorkState = "open"
	WorkCompleted WorkState = "completed"
)

// PlanStatus says whether the plan of a work item can be carried out.
type PlanStatus string

const (
	PlanDraft      PlanStatus = "draft"
	PlanReady      PlanStatus = "ready"
	PlanNeedsInput PlanStatus = "needs_input"
)

// TodoState is how far an item of a checklist is.
type TodoState string

const (
	TodoPending    TodoState = "pending"
	TodoInProgress TodoState = "in_progress"
	TodoCompleted  TodoState = "completed"
)

// Todo is an item of the checklist of a work item.
type Todo struct {
	Text  string    `json:"text"`
	State TodoState `json:"state"`
}

// WorkItem is one objective that an agent pursues until it says that it is done (runtime specification, "Work-Item
// Persistence Foundation"). Its plan is the file work-items/<id>/plan.md in the agent's home. Which item the agent
// works on is AgentState.CurrentWork.
type WorkItem struct {
	ID          string     `json:"id"`
	AgentID     string     `json:"agent_id"`
	WorkspaceID string     `json:"workspace_id,omitempty"`
	Revision    int64      `json:"revision"` // number of its changes
	Objective   string     `json:"objective"`
	State       WorkState  `json:"state"`
	PlanStatus  PlanStatus `json:"plan_status"`
	Todo        []Todo     `json:"todo_list"`
	BlockedBy   string     `json:"blocked_by,omitempty"` // for a person; "": nothing
	// RecheckAt is when a blocked item is looked at again, and RecheckConsumedAt when that was done.
	RecheckAt         *time.Time `json:"recheck_at,omitempty"`
	RecheckConsumedAt *time.Time `json:"recheck_consumed_at,omitempty"`
	ResultSummary     string     `json:"result_summary,omitempty"`
	PlanHash          string     `json:"plan_hash,omitempty"` // of plan.md after the newest turn for the item
	PickedAt          *time.Time `json:"picked_at,omitempty"` // the first time
	CreatedAt         time.Time  `json:"created_at"`
	UpdatedAt         time.Time  `json:"updated_at"`
	CompletedAt       *time.Time `json:"completed_at,omitempty"`

	// Made is a digest of what it was made of, to tell a repeated call from another one under the same key.
	Made string `json:"made,omitempty"`
	// Event is the event with which it was made; "": it is older than causes.
	Event string `json:"event_id,omitempty"`
	// Step is the revision of its agent's state with which it changed last.
	Step int64 `json:"-"`
	// Calls are the newest calls that changed it, the newest last, so that a repeated one changes nothing.
	Calls []string `json:"calls,omitempty"`
}

// DeliverySummary is what an agent reported when it completed a work item: the text of the round that completed it.
type DeliverySummary struct {
	ID         string    `json:"id"`
	AgentID    string    `json:"agent_id"`
	WorkItemID string    `json:"work_item_id"`
	CreatedAt  time.Time `json:"created_at"`
	Text       string    `json:"text"`
	TurnID     string    `json:"turn_id,omitempty"`
	TurnIndex  int64     `json:"source_turn_index,omitempty"`
}

// Row implements Record. Records of work are never pruned.
func (w *WorkItem) Row() Row {
	due := w.RecheckAt
	if w.State != WorkOpen || w.RecheckConsumedAt != nil {
		due = nil
	}
	return Row{"work_items", "work_item", 1, []Column{{"id", &w.ID}, {"agent_id", &w.AgentID}, {"state", w.State},
		{"ended_at", millisOrNil(w.CompletedAt)}, {"due_at", millisOrNil(due)}, {"step", &w.Step}}}
}

func (d *DeliverySummary) Row() Row {
	return Row{"delivery_summaries", "delivery_summary", 1, []Column{{"work_item_id", &d.WorkItemID}}}
}

// WorkItem returns a work item.
func (v View) WorkItem(id string) (WorkItem, error) { return get[WorkItem](v, id) }

// OpenWork returns the open items of an agent, the oldest first.
func (v View) OpenWork(agentID string) ([]WorkItem, error) {
	return list[WorkItem](v, "open work", agentID)
}

// CompletedWork returns those of an agent that were completed last, the oldest first.
func (v View) CompletedWork(agentID string, limit int) ([]WorkItem, error) {
	return newest[WorkItem](v, "completed work", agentID, limit)
}

// WorkAfter returns the items of an agent that changed after a step, in the order of their changes: limit of them, and
// those that changed together with the last one.
func (v View) WorkAfter(agentID string, step int64, limit int) ([]WorkItem, error) {
	return list[WorkItem](v, "work after", agentID, step, agentID, step, limited(limit)-1)
}

// DeliverySummary returns the report of an item; ok is false when there is none.
func (v View) DeliverySummary(workItemID string) (d DeliverySummary, ok bool, err error) {
	return ifAny[DeliverySummary](v, workItemID)
}

// DueWork returns the items of all agents that are not stopped whose recheck has come, the earliest first.
// Of one whose record is damaged it returns ID and AgentID.
func (v View) DueWork(now time.Time) ([]WorkItem, error) {
	return salvaged[WorkItem](v, "due work", millis(now))
}
