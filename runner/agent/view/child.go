package view

import (
	"cmp"
	"fmt"

	"holon/internal/visible"
	"holon/responses/tasks"
	"holon/responses/turns"
	"holon/runner/agent/rules"
	"holon/state"
	"holon/state/ledger"
)

// ChildSupervision says who supervises a private child, and through what (runtime specification, "child supervision").
type ChildSupervision struct {
	ParentAgentID     string    `json:"parent_agent_id"`
	ChildAgentID      string    `json:"child_agent_id"`
	SupervisionTaskID string    `json:"supervision_task_id"`
	ParentWorkItemID  string    `json:"parent_work_item_id,omitempty"`
	ChildWorkItemID   string    `json:"child_work_item_id,omitempty"`
	DelegationID      string    `json:"delegation_id,omitempty"` // where a work item of the parent delegates
	WorkspaceMode     string    `json:"workspace_mode"`
	Worktree          *Worktree `json:"worktree,omitempty"`
	CleanupOwner      string    `json:"cleanup_owner"`
	CleanupStatus     string    `json:"cleanup_status,omitempty"`
	FollowupTarget    string    `json:"followup_target"`

	Check *state.Check `json:"check,omitempty"` // of its tree, once that has ended
}

// Worktree is the tree of a task.
type Worktree struct {
	Path          string   `json:"path"`
	Branch        string   `json:"branch"`
	ChangedFiles  []string `json:"changed_files"`
	ChangedCount  int      `json:"changed_count"`
	CleanupStatus string   `json:"cleanup_status"` // active, removed, retained, failed
	Reason        string   `json:"reason,omitempty"`
}

// Merged is what a merge of the tree of a task changed in the tree of its agent.
type Merged struct {
	ChangedFiles []string `json:"changed_files"`
	Conflicts    []string `json:"conflicts,omitempty"` // files; then nothing was changed
}

// ChildPatch is what a child has changed, as far as it is shown.
type ChildPatch struct {
	Patch   string `json:"patch"`
	Bytes   int64  `json:"patch_bytes"`
	LeftOut int64  `json:"left_out_bytes,omitempty"`
}

// ChildObservability is what a private child does, in short.
type ChildObservability struct {
	Phase             string      `json:"phase"` // running, blocked, waiting, terminal
	BlockedReason     string      `json:"blocked_reason,omitempty"`
	WaitingReason     string      `json:"waiting_reason,omitempty"`
	ActiveWorkItemID  string      `json:"active_work_item_id,omitempty"`
	WorkSummary       string      `json:"work_summary,omitempty"`
	LastProgressBrief *childBrief `json:"last_progress_brief,omitempty"`
	LastResultBrief   *childBrief `json:"last_result_brief,omitempty"`
}

// childBrief is a brief of a child as its parent sees it: one line.
type childBrief struct {
	ID        string           `json:"id"`
	Kind      ledger.BriefKind `json:"kind"`
	Summary   string           `json:"summary"`
	CreatedAt turns.Time       `json:"created_at"`
}

// ChildTask is a task that a private child carries out.
type ChildTask struct {
	WorkspaceMode      string              `json:"workspace_mode,omitempty"`
	ChildAgentID       string              `json:"child_agent_id,omitempty"`
	ChildObservability *ChildObservability `json:"child_observability,omitempty"`
	ChildSupervision   *ChildSupervision   `json:"child_supervision,omitempty"`
}

// ActiveChild is a child that has not ended.
type ActiveChild struct {
	Identity    identity         `json:"identity"`
	Status      rules.Status     `json:"status"`
	TaskStatus  tasks.Status     `json:"task_status"`
	Label       string           `json:"label"`
	Lifecycle   rules.Lifecycle  `json:"lifecycle"`
	Supervision ChildSupervision `json:"child_supervision"`
	TokensUsed  int64            `json:"tokens_used"`
	ChildObservability
}

// Supervision says who supervises the child that carries a task out, nil for another task.
func Supervision(t ledger.Task) *ChildSupervision {
	c := t.Child()
	if c == nil {
		return nil
	}
	s := &ChildSupervision{ParentAgentID: t.AgentID, ChildAgentID: c.AgentID, SupervisionTaskID: t.ID,
		ParentWorkItemID: t.Owner.WorkItemID, WorkspaceMode: c.Mode, CleanupOwner: "supervision_task",
		FollowupTarget: "parent_supervisor", Check: c.Verdict()}
	if s.ParentWorkItemID != "" {
		s.DelegationID = "delegation_" + t.ID
	}
	if w := c.Worktree; w != nil {
		s.Worktree = &Worktree{Path: w.Path, Branch: w.Branch, ChangedFiles: list(w.ChangedFiles),
			ChangedCount: w.Changed, CleanupStatus: w.Cleanup, Reason: w.Reason}
		s.CleanupStatus = w.Cleanup
	}
	return s
}

// Child is what is shown of the child that carries a task out; the zero value for another task.
func (s Snapshot) Child(t ledger.Task) (ChildTask, error) {
	c := t.Child()
	if c == nil {
		return ChildTask{}, nil
	}
	out := ChildTask{WorkspaceMode: c.Mode, ChildAgentID: c.AgentID, ChildSupervision: Supervision(t)}
	a, err := s.ledger.Agent(c.AgentID)
	if err != nil {
		return out, err
	}
	at, err := s.agent(a)
	if err != nil {
		return out, err
	}
	seen, err := s.observe(at, t)
	out.ChildObservability, out.ChildSupervision.ChildWorkItemID = &seen, at.stored.CurrentWork
	return out, err
}

// lookBack is how many briefs of a child are looked at for the newest of each kind.
const lookBack = 20

// observe is what a child does.
func (s Snapshot) observe(at agentSnapshot, t ledger.Task) (ChildObservability, error) {
	out := ChildObservability{Phase: rules.ChildTerminal, ActiveWorkItemID: at.stored.CurrentWork}
	if !t.Status.Terminal() {
		open, err := s.ledger.OpenTasks(at.agent.ID)
		if err != nil {
			return out, err
		}
		reason := ""
		if out.Phase, reason = rules.ChildPhase(at.Situation, open); out.Phase == rules.ChildBlocked {
			out.BlockedReason = reason
		} else {
			out.WaitingReason = reason
		}
	}
	if out.ActiveWorkItemID != "" {
		w, err := s.ledger.WorkItem(out.ActiveWorkItemID)
		if err != nil {
			return out, err
		}
		out.WorkSummary = visible.OneLine(w.Objective, maxChildLine)
	}
	briefs, err := s.ledger.Briefs(at.agent.ID, lookBack)
	for _, b := range briefs { // the newest last
		short := &childBrief{b.ID, b.Kind, visible.OneLine(rules.Summary(b.Text), maxChildLine), turns.At(b.CreatedAt)}
		if b.Kind == ledger.BriefAck {
			out.LastProgressBrief = short
		} else {
			out.LastResultBrief = short
		}
	}
	return out, err
}

// maxChildLine bounds a line about a child, in characters.
const maxChildLine = 200

// children are those of an agent that have not ended.
func (s Snapshot) children(agentID string) ([]ActiveChild, error) {
	open, err := s.ledger.OpenChildren(agentID)
	out := make([]ActiveChild, 0, len(open))
	for _, t := range open {
		a, err := s.ledger.Agent(t.Child().AgentID)
		if err != nil {
			return nil, err
		}
		at, err := s.agent(a)
		if err != nil {
			return nil, err
		}
		seen, err := s.observe(at, t)
		if err != nil {
			return nil, err
		}
		total := at.stored.Totals
		child := ActiveChild{Identity: s.identity(a), Status: at.Status(), TaskStatus: t.Status, Label: t.Purpose,
			Lifecycle: at.Lifecycle(), Supervision: *Supervision(t), TokensUsed: total.InputTokens + total.OutputTokens,
			ChildObservability: seen}
		child.Supervision.ChildWorkItemID = at.stored.CurrentWork
		out = append(out, child)
	}
	return out, err
}

// WorktreeSummary is the trees of the tasks of an agent.
type WorktreeSummary struct {
	AgentID   string         `json:"agent_id"`
	Summary   string         `json:"summary"`
	Worktrees []taskWorktree `json:"worktrees"` // the newest tasks last
}

type taskWorktree struct {
	TaskID     string       `json:"task_id"`
	TaskStatus tasks.Status `json:"task_status"`
	Label      string       `json:"label"`
	Worktree
	PatchFile string       `json:"patch_file,omitempty"` // on the host
	Check     *state.Check `json:"check,omitempty"`
}

// Worktrees are the trees of the newest tasks of an agent. Errors are those of Summary.
func (s Snapshot) Worktrees(agentID string) (WorktreeSummary, error) {
	out := WorktreeSummary{AgentID: agentID, Worktrees: []taskWorktree{}}
	if _, err := s.shown(agentID); err != nil {
		return out, err
	}
	newest, err := s.ledger.Tasks(agentID, MaxLimit)
	counts := map[string]int{}
	for _, t := range newest {
		if c := Supervision(t); c != nil && c.Worktree != nil {
			out.Worktrees = append(out.Worktrees, taskWorktree{t.ID, t.Status, t.Purpose, *c.Worktree,
				t.Child().Worktree.Patch, c.Check})
			counts[c.CleanupStatus]++
		}
	}
	out.Summary = fmt.Sprintf("trees of tasks: %d active, %d kept for their changes, %d removed, %d failed",
		counts[ledger.WorktreeActive], counts[ledger.WorktreeRetained], counts[ledger.WorktreeRemoved],
		counts[ledger.WorktreeFailed])
	return out, err
}

// ChildLine is a child task in one line, for a model.
func ChildLine(t ledger.Task, c ChildTask) string {
	line := t.Result.Summary
	o := c.ChildObservability
	if o == nil || t.Status.Terminal() || t.Checking() {
		return line
	}
	line = "the child " + c.ChildAgentID + " is " + o.Phase
	if reason := cmp.Or(o.BlockedReason, o.WaitingReason); reason != "" {
		line += ": " + reason
	}
	if o.WorkSummary != "" {
		line += "; it works on: " + o.WorkSummary
	}
	if o.LastProgressBrief != nil {
		line += "; it last said: " + o.LastProgressBrief.Summary
	}
	return line
}
