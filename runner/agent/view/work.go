package view

import (
	"fmt"
	"path"

	"holon/responses/turns"
	"holon/runner/agent/rules"
	"holon/state"
	"holon/state/ledger"
)

// WorkRecord is a work item as it is shown (runtime specification, "Work-Item Mutation Tools").
type WorkRecord struct {
	ID                string            `json:"id"`
	AgentID           string            `json:"agent_id"`
	WorkspaceID       string            `json:"workspace_id,omitempty"`
	Revision          int64             `json:"revision"`
	Objective         string            `json:"objective"`
	State             ledger.WorkState  `json:"state"`
	PlanStatus        ledger.PlanStatus `json:"plan_status"`
	PlanArtifact      *PlanArtifact     `json:"plan_artifact,omitempty"`
	Todo              []ledger.Todo     `json:"todo_list"`
	BlockedBy         string            `json:"blocked_by,omitempty"`
	RecheckAt         turns.Time        `json:"recheck_at,omitzero"`
	RecheckConsumedAt turns.Time        `json:"recheck_consumed_at,omitzero"`
	ResultSummary     string            `json:"result_summary,omitempty"`
	CreatedAt         turns.Time        `json:"created_at"`
	UpdatedAt         turns.Time        `json:"updated_at"`
	CompletedAt       turns.Time        `json:"completed_at,omitzero"`

	Current          bool            `json:"current"`
	SchedulingState  rules.WorkState `json:"scheduling_state,omitempty"`
	Readiness        string          `json:"readiness,omitempty"` // runnable, waiting_for_operator, blocked, completed
	CompletionReport string          `json:"completion_report,omitempty"`
	CompletionTurnID string          `json:"completion_turn_id,omitempty"` // in which that was reported
}

// PlanArtifact is the plan of a work item: a file in the agent's home.
type PlanArtifact struct {
	OwnerAgentID    string     `json:"owner_agent_id"`
	RelativePath    string     `json:"relative_path"`  // in the home
	Path            string     `json:"path"`           // where the agent finds it
	Hash            string     `json:"hash,omitempty"` // SHA-256, hex; "" of a file that is not there, or not read
	Bytes           int64      `json:"bytes"`
	UpdatedAt       turns.Time `json:"updated_at,omitzero"`
	Preview         string     `json:"preview"`
	PreviewComplete bool       `json:"preview_complete"`
	// Refused says why the file is not read: it is a link, no file, or too large; "": it is.
	Refused string `json:"refused,omitempty"`
}

// ofWork is an item as it is shown, less what needs its agent.
func ofWork(w ledger.WorkItem) WorkRecord {
	return WorkRecord{ID: w.ID, AgentID: w.AgentID, WorkspaceID: w.WorkspaceID, Revision: w.Revision,
		Objective: w.Objective, State: w.State, PlanStatus: w.PlanStatus, Todo: w.Todo, BlockedBy: w.BlockedBy,
		RecheckAt: turns.AtOptional(w.RecheckAt), RecheckConsumedAt: turns.AtOptional(w.RecheckConsumedAt),
		ResultSummary: w.ResultSummary, CreatedAt: turns.At(w.CreatedAt), UpdatedAt: turns.At(w.UpdatedAt),
		CompletedAt: turns.AtOptional(w.CompletedAt)}
}

// Work returns an item of an agent. One of another agent is not found.
func (s Snapshot) Work(agentID, itemID string) (WorkRecord, error) {
	w, err := s.ledger.WorkItem(itemID)
	if isNotFound(err) {
		return WorkRecord{}, noWork(agentID, itemID)
	}
	if err != nil {
		return WorkRecord{}, err
	}
	if w.AgentID != agentID {
		return WorkRecord{}, noWork(agentID, itemID)
	}
	list, err := s.derived(agentID, []ledger.WorkItem{w})
	if err != nil {
		return WorkRecord{}, err
	}
	return list[0], nil
}

// WorkItems returns those of an agent's work items that were completed last, at most limit, and then all open ones,
// each the oldest first.
func (s Snapshot) WorkItems(agentID string, limit int) ([]WorkRecord, error) {
	if _, err := s.shown(agentID); err != nil {
		return nil, err
	}
	open, completed, err := s.WorkList(agentID, clamp(limit))
	return append(completed, open...), err
}

// WorkList returns the open items of an agent and so many of those completed last, each the oldest first.
func (s Snapshot) WorkList(agentID string, ended int) (open, completed []WorkRecord, err error) {
	if _, err = s.ledger.AgentState(agentID); err != nil {
		return nil, nil, err
	}
	items, err := s.ledger.OpenWork(agentID)
	if err == nil {
		open, err = s.derived(agentID, items)
	}
	if err != nil || ended == 0 {
		return open, nil, err
	}
	if items, err = s.ledger.CompletedWork(agentID, ended); err == nil {
		completed, err = s.derived(agentID, items)
	}
	return open, completed, err
}

// derived adds what follows from the agent's state, its waits, its home and the report.
func (s Snapshot) derived(agentID string, items []ledger.WorkItem) ([]WorkRecord, error) {
	list := make([]WorkRecord, 0, len(items))
	if len(items) == 0 {
		return list, nil
	}
	agent, err := s.ledger.AgentState(agentID)
	if err != nil {
		return nil, err
	}
	waits, err := s.ledger.UnresolvedWaits(agentID)
	if err != nil {
		return nil, err
	}
	for _, w := range items {
		r := ofWork(w)
		r.Current = agent.CurrentWork == w.ID
		r.SchedulingState = rules.Scheduling(w, waits)
		r.Readiness = rules.Readiness(r.SchedulingState)
		if w.State == ledger.WorkCompleted {
			d, _, err := s.ledger.DeliverySummary(w.ID)
			if err != nil {
				return nil, err
			}
			r.CompletionReport, r.CompletionTurnID = d.Text, d.TurnID
		}
		r.PlanArtifact = s.plan(agentID, w.ID)
		list = append(list, r)
	}
	return list, nil
}

// plan describes the plan of a work item as its agent finds it; of one that is not written, where it belongs.
func (s Snapshot) plan(agentID, itemID string) *PlanArtifact {
	if s.facts.Plan == nil {
		return nil
	}
	plan := s.facts.Plan(agentID, itemID)
	if plan == nil {
		plan = &PlanArtifact{OwnerAgentID: agentID, RelativePath: PlanFile(itemID), PreviewComplete: true}
	}
	plan.Path = path.Join(s.mount(agentID), plan.RelativePath)
	return plan
}

// PlanFile is the plan of a work item in its agent's home.
func PlanFile(itemID string) string { return path.Join("work-items", itemID, "plan.md") }

func noWork(agentID, itemID string) error {
	return &state.Error{Code: ledger.CodeNotFound, Param: "work_item_id",
		Message: fmt.Sprintf("agent %s has no work item %.80q", agentID, itemID),
		Hint:    "holon work list --all --agent " + agentID + " shows the work items"}
}
